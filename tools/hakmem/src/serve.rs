// SPDX-License-Identifier: MIT
//! `hakmem serve`: the metrics of all processes of this host, for Prometheus to fetch, and their heap profiles, for
//! pprof and what reads its format.

mod http;
mod scan;

use crate::attach::{check_proc, Attached};
use crate::failure::{is_nothing, Failure};
use crate::heap::{sampled, Time};
use crate::image::{self, Profile};
use crate::metrics::{Figures, Format};
use crate::output::{remark, say};
use crate::report::pprof;
use crate::report::view::Show;
use crate::signals;
use crate::symbols::{self, Places};
use anyhow::{ensure, Context, Result};
use clap::Args;
use http::{Answer, Place, Reader, Request};
use scan::Scan;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::AtomicUsize;
use std::sync::Arc;
use std::time::Duration;

const PAGE: &str = "\
hakmem serve

  /metrics                                  figures of every process of this host that runs hakmem
  /debug/pprof/heap?pid=PID                 what a process has in use, once it is sampled (HAKMEM_PROFILE, hakmem profile)
  /debug/pprof/allocs?pid=PID&seconds=10    what it allocates from now on, for so long: 600 seconds at most

  Profiles are for go tool pprof 'http://...' and for what reads its format.
";
const SECONDS_MAX: u64 = 600;
const SECONDS: u64 = 10;
/// Processes that are sampled for readers at once: connections are left for the others.
const LOOKS_MAX: usize = 16;
/// Of who asks for the figures of the host; from the start of the look that is going on.
const PATIENCE: Duration = Duration::from_secs(30);
const _: () = assert!(2 * LOOKS_MAX <= http::CONNECTIONS_MAX);

#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Address and port to listen on; others than this machine are let in only by an address that they reach
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9774", value_parser = address)]
    listen: SocketAddr,
}

/// A name stands for the first of its addresses.
fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| "expected an address or a name, and a port, as 127.0.0.1:9774 or localhost:9774".into())
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
        let (looks, scan) = (Arc::new(AtomicUsize::new(0)), Scan::new());
        http::serve(&listener, move |request, reader| answer(request, reader, &looks, &scan))?;
        Ok(ExitCode::SUCCESS)
    }
}

type HostScan = Scan<Result<Figures>>;

fn answer(request: &Request, reader: &Reader, looks: &Arc<AtomicUsize>, scan: &HostScan) -> Answer {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    match path {
        _ if !matches!(&request.method[..], "GET" | "HEAD") => Answer::text(405, "only GET and HEAD\n"),
        "/metrics" => metrics(wanted(request), scan),
        "/debug/pprof/heap" => told(heap(query)),
        "/debug/pprof/allocs" => match Place::taken(looks, LOOKS_MAX) {
            Some(_place) => told(allocs(query, &|| !reader.has_left())),
            None => Answer::text(503, format!("{LOOKS_MAX} profiles are being made, as many as at once; try again\n")),
        },
        "/" => Answer::text(200, PAGE),
        _ => Answer::text(404, PAGE),
    }
}

fn metrics(format: Format, scan: &HostScan) -> Answer {
    let late = "the look at all processes takes too long: a process may wait for a file system that does not answer";
    match scan.result(PATIENCE, Figures::of_host).as_ref().map(Option::as_deref) {
        Ok(Some(Ok(figures))) => {
            Answer { status: 200, kind: format.content_type(), body: figures.text(format).into_bytes() }
        }
        Ok(Some(Err(error))) => Answer::text(500, format!("{error:#}\n")),
        Ok(None) => Answer::text(503, format!("{late}\n")),
        Err(error) => Answer::text(500, format!("{error}\n")),
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
fn told(packed: Result<Vec<u8>>) -> Answer {
    match packed {
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

fn heap(query: &str) -> Result<Vec<u8>> {
    packed(&image::copy_of(&Attached::to(pid(query)?)?)?, Show::Inuse)
}

/// As long as its reader waits for it.
fn allocs(query: &str, is_awaited: &dyn Fn() -> bool) -> Result<Vec<u8>> {
    let (pid, seconds) = (pid(query)?, parameter(query, "seconds")?.unwrap_or(SECONDS));
    ensure!(
        seconds <= SECONDS_MAX,
        Failure::Usage(format!("seconds={seconds} is too long: a look takes {SECONDS_MAX} seconds at most"))
    );
    packed(&sampled(pid, None, Time::awaited(Duration::from_secs(seconds), is_awaited))?, Show::Alloc)
}

fn packed(profile: &Profile, show: Show) -> Result<Vec<u8>> {
    pprof::write(profile, &symbols::find(profile, &Places::default()), show)
}

fn pid(query: &str) -> Result<i32> {
    let pid = parameter(query, "pid")?.context(Failure::Usage("name a process: ?pid=PID".into()))?;
    ensure!(pid > 0, Failure::Usage(format!("pid={pid} is no process")));
    Ok(pid)
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
    fn an_address_may_be_a_name() {
        assert!(address("localhost:9774").unwrap().ip().is_loopback());
        assert_eq!(address("[::1]:9").unwrap().to_string(), "[::1]:9");
        let is_told = |text: &str| address(text).unwrap_err().contains("localhost:9774");
        assert_eq!(["9774", ":9774", "localhost"].map(is_told), [true; 3]);
    }

    #[test]
    fn what_is_wrong_has_a_status() {
        let heap = |query: &str| told(heap(query)).status;
        assert_eq!(["", "pid=1x", "pid=0", "pid=-5"].map(heap), [400; 4]);
        assert_eq!([std::process::id(), i32::MAX as u32].map(|pid| heap(&format!("pid={pid}"))), [404, 404]);
        let allocs = |seconds: &str| told(allocs(&format!("pid={}&seconds={seconds}", i32::MAX), &|| true));
        assert_eq!(["x", "-1", "601", "600"].map(|seconds| allocs(seconds).status), [400, 400, 400, 404]);
        let said = String::from_utf8(allocs("601").body).unwrap();
        assert_eq!(said, "seconds=601 is too long: a look takes 600 seconds at most\n");
    }
}
