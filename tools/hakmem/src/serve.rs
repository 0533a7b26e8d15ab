// SPDX-License-Identifier: MIT
//! `hakmem serve`: the metrics of all processes of this host, for Prometheus to fetch, and their heap profiles, for
//! pprof and what reads its format.

use crate::attach::Attached;
use crate::failure::Failure;
use crate::heap::sampled;
use crate::image;
use crate::metrics::{of_host, Format};
use crate::output::{remark, say};
use crate::report::pprof;
use crate::report::view::Show;
use crate::signals;
use crate::symbols::{self, Places};
use anyhow::{anyhow, Context, Result};
use clap::Args;
use std::io::Cursor;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;
use tiny_http::{Header, Method, Request, Response, Server};

const PAGE: &str = "\
hakmem serve

  /metrics                                  figures of every process of this host that runs hakmem
  /debug/pprof/heap?pid=PID                 what a process has in use, once it is sampled (HAKMEM_PROFILE, hakmem profile)
  /debug/pprof/allocs?pid=PID&seconds=10    what it allocates from now on, for so long

  Profiles are for go tool pprof 'http://...' and for what reads its format.
";
const SECONDS_MAX: u64 = 600;
const SECONDS: u64 = 10;
/// Between two looks whether a signal has come.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Address and port to listen on; others than this machine are let in only by an address that they reach
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9774")]
    listen: SocketAddr,
}

impl ServeArgs {
    /// Until a signal ends it, and profiles that are being made with it.
    pub fn run(&self) -> Result<ExitCode> {
        let server = Server::http(self.listen).map_err(|error| anyhow!("cannot listen on {}: {error}", self.listen))?;
        if !self.listen.ip().is_loopback() {
            remark("hakmem: everybody who reaches this address reads figures and profiles of this host's processes");
        }
        let address = server.server_addr().to_ip().unwrap_or(self.listen);
        say(format_args!("http://{address}/metrics\n"))?;
        signals::hold();
        std::thread::scope(|threads| {
            while !signals::came() {
                if let Some(request) = server.recv_timeout(LOOK)? {
                    threads.spawn(|| answer(request)); // a profile takes its time
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// A reader that has left is nothing to this side.
fn answer(request: Request) {
    let url = request.url().to_string();
    let (path, query) = url.split_once('?').unwrap_or((&url, ""));
    let is_read = matches!(request.method(), Method::Get | Method::Head);
    let _ = match path {
        _ if !is_read => request.respond(Response::from_string("only GET and HEAD\n").with_status_code(405)),
        "/metrics" => {
            let format = wanted(&request);
            let kind = Header::from_bytes("Content-Type", format.content_type()).expect("a header of ASCII");
            request.respond(Response::from_string(of_host(format)).with_header(kind))
        }
        "/debug/pprof/heap" => request.respond(profile(query, false)),
        "/debug/pprof/allocs" => request.respond(profile(query, true)),
        "/" => request.respond(Response::from_string(PAGE)),
        _ => request.respond(Response::from_string(PAGE).with_status_code(404)),
    };
}

/// OpenMetrics for who asks for it, as Prometheus does.
fn wanted(request: &Request) -> Format {
    let asks = |header: &Header| {
        header.field.equiv("Accept") && header.value.as_str().contains("application/openmetrics-text")
    };
    if request.headers().iter().any(asks) {
        Format::OpenMetrics
    } else {
        Format::Prometheus
    }
}

/// As pprof has it, or why not.
fn profile(query: &str, is_over_time: bool) -> Response<Cursor<Vec<u8>>> {
    match packed(query, is_over_time) {
        Ok(bytes) => {
            let kind = Header::from_bytes("Content-Type", "application/octet-stream").expect("a header of ASCII");
            Response::from_data(bytes).with_header(kind)
        }
        Err(error) => {
            let status = match error.downcast_ref() {
                Some(Failure::Usage(_)) => 400,
                Some(Failure::NotPermitted(_)) => 403,
                Some(Failure::NoHakmem(_) | Failure::NoProfile(_) | Failure::NoProcess(_)) => 404,
                Some(Failure::Moved(_)) | None => 500,
            };
            Response::from_string(format!("{error:#}\n")).with_status_code(status)
        }
    }
}

fn packed(query: &str, is_over_time: bool) -> Result<Vec<u8>> {
    let pid: i32 = parameter(query, "pid")?.context(Failure::Usage("name a process: ?pid=PID".into()))?;
    let seconds = parameter(query, "seconds")?.unwrap_or(SECONDS).min(SECONDS_MAX);
    let (profile, show) = match is_over_time {
        true => (sampled(pid, None, Duration::from_secs(seconds))?, Show::Alloc),
        false => (image::copy_of(&Attached::to(pid)?)?, Show::Inuse),
    };
    pprof::write(&profile, &symbols::find(&profile, &Places::default()), show)
}

/// Of `name=value&...`.
fn parameter<Value: FromStr>(query: &str, name: &str) -> Result<Option<Value>> {
    let text = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let wrong = |text: &str| Failure::Usage(format!("{name}={text} is no number"));
    text.map(|text| text.parse().map_err(|_| wrong(text).into())).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbers() {
        assert_eq!(parameter("pid=12&seconds=3", "seconds").unwrap(), Some(3u64));
        assert_eq!(parameter::<i32>("seconds=3", "pid").unwrap(), None);
        assert!(parameter::<i32>("pid=x", "pid").unwrap_err().to_string().contains("pid=x is no number"));
    }

    #[test]
    fn what_is_wrong_has_a_status() {
        assert_eq!(profile("", false).status_code(), 400);
        assert_eq!(profile("pid=1x", true).status_code(), 400);
        assert_eq!(profile(&format!("pid={}", std::process::id()), false).status_code(), 404);
        assert_eq!(profile(&format!("pid={}", i32::MAX), false).status_code(), 404);
    }
}
