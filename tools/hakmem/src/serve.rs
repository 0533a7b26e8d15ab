// SPDX-License-Identifier: MIT
//! `hakmem serve`: the metrics of all processes of this host, for Prometheus to fetch, and their heap profiles, for
//! pprof and what reads its format.

mod http;

use crate::attach::{check_proc, Attached};
use crate::failure::{is_nothing, Failure};
use crate::heap::sampled;
use crate::image;
use crate::metrics::{of_host, Format};
use crate::output::{remark, say};
use crate::report::pprof;
use crate::report::view::Show;
use crate::signals;
use crate::symbols::{self, Places};
use anyhow::{ensure, Context, Result};
use clap::Args;
use http::{Answer, Request};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

const PAGE: &str = "\
hakmem serve

  /metrics                                  figures of every process of this host that runs hakmem
  /debug/pprof/heap?pid=PID                 what a process has in use, once it is sampled (HAKMEM_PROFILE, hakmem profile)
  /debug/pprof/allocs?pid=PID&seconds=10    what it allocates from now on, for so long

  Profiles are for go tool pprof 'http://...' and for what reads its format.
";
const SECONDS_MAX: u64 = 600;
const SECONDS: u64 = 10;

#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Address and port to listen on; others than this machine are let in only by an address that they reach
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9774")]
    listen: SocketAddr,
}

impl ServeArgs {
    /// Until a signal ends it, and profiles that are being made with it.
    pub fn run(&self) -> Result<ExitCode> {
        check_proc()?;
        let listener = TcpListener::bind(self.listen).with_context(|| format!("cannot listen on {}", self.listen))?;
        if !self.listen.ip().is_loopback() {
            remark("hakmem: everybody who reaches this address reads figures and profiles of this host's processes");
        }
        let address = listener.local_addr().unwrap_or(self.listen);
        say(format_args!("http://{address}/metrics\n"))?;
        signals::hold();
        http::serve(&listener, answer)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn answer(request: &Request) -> Answer {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    match path {
        _ if !matches!(&request.method[..], "GET" | "HEAD") => Answer::text(405, "only GET and HEAD\n"),
        "/metrics" => {
            let format = wanted(request);
            match of_host(format) {
                Ok(text) => Answer { status: 200, kind: format.content_type(), body: text.into_bytes() },
                Err(error) => Answer::text(500, format!("{error:#}\n")),
            }
        }
        "/debug/pprof/heap" => profile(query, false),
        "/debug/pprof/allocs" => profile(query, true),
        "/" => Answer::text(200, PAGE),
        _ => Answer::text(404, PAGE),
    }
}

/// OpenMetrics for who asks for it, as Prometheus does.
fn wanted(request: &Request) -> Format {
    if request.accept.contains("application/openmetrics-text") {
        Format::OpenMetrics
    } else {
        Format::Prometheus
    }
}

/// As pprof has it, or why not.
fn profile(query: &str, is_over_time: bool) -> Answer {
    match packed(query, is_over_time) {
        Ok(body) => Answer { status: 200, kind: "application/octet-stream", body },
        Err(error) => {
            let status = match error.downcast_ref() {
                Some(Failure::Usage(_)) => 400,
                Some(Failure::NotPermitted(_)) => 403,
                _ if is_nothing(&error) => 404,
                _ => 500,
            };
            Answer::text(status, format!("{error:#}\n"))
        }
    }
}

fn packed(query: &str, is_over_time: bool) -> Result<Vec<u8>> {
    let pid: i32 = parameter(query, "pid")?.context(Failure::Usage("name a process: ?pid=PID".into()))?;
    ensure!(pid > 0, Failure::Usage(format!("pid={pid} is no process")));
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
        assert_eq!(profile("", false).status, 400);
        assert_eq!(profile("pid=1x", true).status, 400);
        assert_eq!(["pid=0", "pid=-5"].map(|query| profile(query, false).status), [400, 400]);
        assert_eq!(profile(&format!("pid={}", std::process::id()), false).status, 404);
        assert_eq!(profile(&format!("pid={}", i32::MAX), false).status, 404);
    }
}
