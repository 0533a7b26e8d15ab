// SPDX-License-Identifier: MIT
//! `hakmem serve`: the metrics of all processes of this host, for Prometheus to fetch.

use crate::metrics::{of_host, Format};
use crate::output::{remark, say};
use anyhow::{anyhow, Result};
use clap::Args;
use std::net::SocketAddr;
use std::process::ExitCode;
use tiny_http::{Header, Method, Request, Response, Server};

const PAGE: &str = "hakmem serve\n\n  /metrics    figures of every process of this host that runs hakmem\n";

#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Address and port to listen on; others than this machine are let in only by an address that they reach
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9774")]
    listen: SocketAddr,
}

impl ServeArgs {
    /// Until it is ended by a signal.
    pub fn run(&self) -> Result<ExitCode> {
        let server = Server::http(self.listen).map_err(|error| anyhow!("cannot listen on {}: {error}", self.listen))?;
        if !self.listen.ip().is_loopback() {
            remark("hakmem: everybody who reaches this address reads the figures of this host's processes");
        }
        let address = server.server_addr().to_ip().unwrap_or(self.listen);
        say(format_args!("http://{address}/metrics\n"))?;
        for request in server.incoming_requests() {
            answer(request);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A reader that has left is nothing to this side.
fn answer(request: Request) {
    let path = request.url().split('?').next().unwrap_or_default().to_string();
    let is_read = matches!(request.method(), Method::Get | Method::Head);
    let _ = match &path[..] {
        _ if !is_read => request.respond(Response::from_string("only GET and HEAD\n").with_status_code(405)),
        "/metrics" => {
            let format = wanted(&request);
            let kind = Header::from_bytes("Content-Type", format.content_type()).expect("a header of ASCII");
            request.respond(Response::from_string(of_host(format)).with_header(kind))
        }
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
