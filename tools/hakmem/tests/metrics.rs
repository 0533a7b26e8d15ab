// SPDX-License-Identifier: MIT
//! Metrics are parsed line by line, their parts add up, and the packaged readers take them.

mod running;

use running::{hakmem, skipped, sleeping, started, stderr, stdout, Folder, Running, LIBRARY, TOOL};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Samples by name and labels. Every line has to be what the standard allows.
fn parsed(text: &str) -> HashMap<(String, String), u64> {
    let mut samples = HashMap::new();
    let mut kinds: HashMap<String, String> = HashMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let words: Vec<&str> = rest.splitn(3, ' ').collect();
            match words[0] {
                "TYPE" => assert!(kinds.insert(words[1].into(), words[2].into()).is_none(), "twice: {line}"),
                "UNIT" => assert!(words[1].ends_with(&format!("_{}", words[2])), "{line}"),
                "HELP" => assert!(kinds.contains_key(words[1]), "{line}"),
                "EOF" => {}
                _ => panic!("{line}"),
            }
            continue;
        }
        let (name, rest) = line.split_once('{').unwrap_or_else(|| panic!("{line}"));
        let (labels, value) = rest.rsplit_once("} ").unwrap_or_else(|| panic!("{line}"));
        let family = name.strip_suffix("_total").filter(|family| kinds.contains_key(*family)).unwrap_or(name);
        let counter = kinds[family] == "counter";
        assert_eq!(counter, name.ends_with("_total"), "{line}");
        let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(samples.insert((name.to_string(), labels.to_string()), value).is_none(), "twice: {line}");
    }
    samples
}

fn value(samples: &HashMap<(String, String), u64>, name: &str, id: &str) -> u64 {
    let labelled = |labels: &str| labels.starts_with(&format!("pid=\"{id}\",comm=\"sleep\",cgroup=\""));
    let found = samples.iter().find(|((at, labels), _)| at == name && labelled(labels));
    *found.unwrap_or_else(|| panic!("no {name} of {id}: {samples:?}")).1
}

#[test]
fn they_parse_and_add_up() {
    let child = sleeping(&["--limit", "1G:2G"]);
    let text = stdout(&hakmem(&["metrics", &child.id()]));
    assert!(text.ends_with("# EOF\n"));
    let samples = parsed(&text);
    let at = |name: &str| value(&samples, &format!("hakmem_{name}_bytes"), &child.id());
    let parts = at("live") + at("cached") + at("fragmented") + at("retained") + at("metadata");
    assert_eq!(at("resident") + at("untouched"), parts);
    assert!(value(&samples, "hakmem_allocations_total", &child.id()) > 0);
    let kinds: Vec<_> = samples.iter().filter(|sample| sample.0 .0 == "hakmem_limit_bytes").map(|s| *s.1).collect();
    assert!(kinds.contains(&(1 << 30)) && kinds.contains(&(2 << 30)), "{kinds:?}");
}

#[test]
fn all_processes_are_in_the_textfile_at_once() {
    let (first, second) = (sleeping(&[]), sleeping(&[]));
    let folder = Folder::new("metrics-textfile");
    let path = folder.0.to_str().unwrap();
    let output = hakmem(&["metrics", "--textfile", path]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = std::fs::read_to_string(folder.0.join("hakmem.prom")).unwrap();
    let ids = [first.id(), second.id()];
    assert!(ids.iter().all(|id| text.contains(&format!("pid=\"{id}\""))), "{text}");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1, "nothing else is left there");
    let output = hakmem(&["metrics", "--textfile", "/nonexistent"]);
    assert!(stderr(&output).contains("cannot write /nonexistent/hakmem.prom"), "{output:?}");
}

#[test]
fn node_exporter_serves_the_textfile() {
    let child = sleeping(&[]);
    let folder = Folder::new("metrics-exporter");
    let path = folder.0.to_str().unwrap();
    hakmem(&["metrics", "--textfile", path, &child.id()]);
    let port = free_port();
    let mut command = Command::new("prometheus-node-exporter");
    command.args(["--collector.disable-defaults", "--collector.textfile"]);
    command.arg(format!("--collector.textfile.directory={path}"));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}")).stderr(Stdio::null());
    let Ok(exporter) = command.spawn() else {
        return skipped("node_exporter", "there is no prometheus-node-exporter");
    };
    let _exporter = Running(exporter);
    let mut said = String::new();
    running::until("node_exporter never served the figures", || {
        said = fetched(&format!("127.0.0.1:{port}"), "/metrics", "").unwrap_or_default();
        said.contains("hakmem_live_bytes{")
    });
    assert!(said.contains("node_textfile_scrape_error 0"), "{said}");
    assert!(said.contains(&format!("pid=\"{}\"", child.id())));
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn fetched(address: &str, path: &str, header: &str) -> std::io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes_of(address, path, header)?).into_owned())
}

fn bytes_of(address: &str, path: &str, header: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{header}\r\n")?;
    let mut said = Vec::new();
    stream.read_to_end(&mut said)?;
    Ok(said)
}

/// The server and its address.
fn serving() -> (Running, String) {
    serving_by(&mut Command::new(TOOL))
}

fn serving_by(command: &mut Command) -> (Running, String) {
    let mut child = command.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics")).unwrap();
    (Running(child), address.to_string())
}

#[test]
fn the_server_answers_in_both_formats() {
    let child = sleeping(&[]);
    let (_server, address) = serving();
    let said = fetched(&address, "/metrics", "").unwrap();
    assert!(said.contains("text/plain; version=0.0.4") && said.contains(&format!("pid=\"{}\"", child.id())), "{said}");
    let said = fetched(&address, "/metrics", "Accept: application/openmetrics-text\r\n").unwrap();
    assert!(said.contains("application/openmetrics-text; version=1.0.0") && said.contains("# EOF"), "{said}");
    assert!(fetched(&address, "/other", "").unwrap().starts_with("HTTP/1.1 404"));
    assert!(fetched(&address, "/", "").unwrap().contains("/metrics"));
    let output = hakmem(&["serve", "--listen", &address]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("cannot listen on"));
}

/// They send nothing, and are more than it has descriptors for, or than it serves at once.
#[test]
fn idle_connections_keep_nobody_out_for_long() {
    let flooded = |limit: &str, count: usize| {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n $1; shift; exec \"$@\"", "sh", limit, TOOL]);
        let (mut server, address) = serving_by(&mut command);
        let idle: Vec<_> = (0..count).map(|_| TcpStream::connect(&address).unwrap()).collect();
        assert!(fetched(&address, "/", "").unwrap().contains("/metrics"), "{limit}");
        assert!(server.0.try_wait().unwrap().is_none());
        drop(idle);
    };
    std::thread::scope(|threads| {
        threads.spawn(|| flooded("64", 70));
        threads.spawn(|| flooded("256", 140));
    });
}

#[test]
fn prometheus_scrapes_the_server() {
    let child = sleeping(&[]);
    let (_server, address) = serving();
    let folder = Folder::new("metrics-prometheus");
    let file = folder.0.join("prometheus.yml");
    // A scrape has as long as its interval at most, and a host with many processes needs more than a second.
    let targets = format!("global: {{scrape_interval: 5s, scrape_timeout: 5s}}\nscrape_configs:\n  - job_name: hakmem\n    static_configs: [{{targets: ['{address}']}}]\n");
    std::fs::write(&file, targets).unwrap();
    let port = free_port();
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", file.display())).current_dir(&folder.0);
    command.arg(format!("--web.listen-address=127.0.0.1:{port}")).stderr(Stdio::null());
    let Ok(prometheus) = command.spawn() else {
        return skipped("Prometheus", "there is no prometheus");
    };
    let _prometheus = Running(prometheus);
    let query = format!("/api/v1/query?query=hakmem_live_bytes%7Bpid%3D%22{}%22%7D", child.id());
    running::until("Prometheus never had the figures", || {
        fetched(&format!("127.0.0.1:{port}"), &query, "").is_ok_and(|said| said.contains("\"comm\":\"sleep\""))
    });
    for expression in dashboard_expressions() {
        let query = format!("/api/v1/query?query={}", encoded(&expression));
        let said = fetched(&format!("127.0.0.1:{port}"), &query, "").unwrap();
        assert!(said.contains("\"status\":\"success\""), "{expression}: {said}");
    }
}

const DASHBOARD: &str = include_str!("../../../docs/grafana.json");

/// What the dashboard asks, with all processes chosen.
fn dashboard_expressions() -> Vec<String> {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let text = |target: &serde_json::Value| target["expr"].as_str().unwrap().to_string();
    let chosen = |text: String| text.replace("$__rate_interval", "1m").replace("$job", ".*");
    targets.map(|target| chosen(text(target)).replace("$comm", ".*").replace("$pid", ".*")).collect()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

const FLEET: &str = include_str!("../../../docs/fleet.md");

/// One process grows and ends after 4 hours, one grows on. One has misused something before it is first looked at.
const RULE_TESTS: &str = "
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'hakmem_live_bytes{instance=\"a\",pid=\"1\",comm=\"x\"}', values: '0+1000000x240 _x360'}
      - {series: 'hakmem_live_bytes{instance=\"a\",pid=\"2\",comm=\"x\"}', values: '0+1000000x600'}
      - {series: 'hakmem_errors_total{instance=\"a\",pid=\"2\",comm=\"x\"}', values: '_x20 1x580'}
      - {series: 'hakmem_errors_total{instance=\"a\",pid=\"1\",comm=\"x\"}', values: '0x600'}
    promql_expr_test:
      - {expr: 'ALERTS{alertname=\"LiveMemoryGrows\"}', eval_time: 6h30m, exp_samples: [GROWS]}
      - {expr: 'ALERTS{alertname=\"Misuse\"}', eval_time: 25m, exp_samples: [MISUSE]}
      - {expr: 'ALERTS{alertname=\"Misuse\"}', eval_time: 45m, exp_samples: []}
";

#[test]
fn alerts_are_of_processes_that_there_are() {
    let folder = Folder::new("metrics-rules");
    let rules = FLEET.split("```yaml\n").find(|block| block.starts_with("groups:")).unwrap();
    std::fs::write(folder.0.join("rules.yml"), rules.split("```").next().unwrap()).unwrap();
    let sample = |name: &str| {
        let labels = "instance=\\\"a\\\",pid=\\\"2\\\",comm=\\\"x\\\"";
        format!("{{labels: \"ALERTS{{alertname=\\\"{name}\\\",alertstate=\\\"firing\\\",{labels}}}\", value: 1}}")
    };
    let tests = RULE_TESTS.replace("GROWS", &sample("LiveMemoryGrows")).replace("MISUSE", &sample("Misuse"));
    std::fs::write(folder.0.join("tests.yml"), tests).unwrap();
    let mut command = Command::new("promtool");
    let Ok(output) = command.args(["test", "rules", "tests.yml"]).current_dir(&folder.0).output() else {
        return skipped("the rules for alerts", "there is no promtool");
    };
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
}

/// Every metric that the dashboard shows is one that there is.
#[test]
fn the_dashboard_asks_for_what_there_is() {
    let child = sleeping(&["--limit", "1G:2G"]);
    let known = stdout(&hakmem(&["metrics", &child.id()]));
    let mut asked = 0;
    for expression in dashboard_expressions() {
        for name in expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            if name.starts_with("hakmem_") {
                assert!(known.contains(&format!("\n{name}{{")), "{name} in {expression}");
                asked += 1;
            }
        }
    }
    assert!(asked > 15, "{asked}");
}

const GROWS: &str = "
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) void *grows(void) { return memset(malloc(40000), 1, 40000); }
int main(void) {
    for (;;) { void *volatile kept = grows(); (void)kept; usleep(5000); }
}";

fn top_of(go: &str, address: &str, path: &str) -> String {
    let output = Command::new(go).args(["tool", "pprof", "-top", &format!("http://{address}{path}")]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    stdout(&output)
}

fn growing(folder: &Folder) -> Running {
    let mut command = Command::new(folder.program("grows", GROWS, &["-g", "-fno-optimize-sibling-calls"]));
    command.env("LD_PRELOAD", LIBRARY);
    started(command, |id| running::figure(id, "live") > 40000)
}

fn is_sampled(id: &str) -> bool {
    let output = hakmem(&["heap", id]);
    output.status.success() && !stdout(&output).contains("not sampled any more")
}

/// Sixteen at once are served; the last that leaves ends the sampling.
#[test]
fn looks_end_with_their_readers_and_keep_no_scrape_out() {
    let folder = Folder::new("serve-looks");
    let child = growing(&folder);
    let (_server, address) = serving();
    let allocs = |seconds: u32| format!("/debug/pprof/allocs?pid={}&seconds={seconds}", child.id());
    let reader = || {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET {} HTTP/1.1\r\n\r\n", allocs(600)).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let mut readers: Vec<_> = (0..16).map(|_| reader()).collect();
    let mut said = String::new();
    running::until("more than sixteen are served", || {
        // One that came while the question below had the last place was refused.
        for stream in readers.iter_mut().filter(|stream| stream.peek(&mut [0]).is_ok()) {
            *stream = reader();
        }
        said = fetched(&address, &allocs(0), "").unwrap();
        said.starts_with("HTTP/1.1 503 Service Unavailable")
    });
    assert!(said.ends_with("16 profiles are being made, as many as at once; try again\n"), "{said}");
    assert!(fetched(&address, "/metrics", "").unwrap().starts_with("HTTP/1.1 200"));
    running::until("it is never sampled", || is_sampled(&child.id()));
    drop(readers);
    running::until("it is sampled on", || !is_sampled(&child.id()));
    running::until("no place is free again", || fetched(&address, &allocs(1), "").unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn the_server_answers_pprof() {
    let folder = Folder::new("serve-pprof");
    let child = growing(&folder);
    let (_server, address) = serving();
    let (heap, allocs) = (format!("/debug/pprof/heap?pid={}", child.id()), "/debug/pprof/allocs?pid=");
    let said = fetched(&address, &heap, "").unwrap();
    assert!(said.starts_with("HTTP/1.1 404") && said.contains("there is no heap profile in process"), "{said}");
    assert!(fetched(&address, "/debug/pprof/heap", "").unwrap().starts_with("HTTP/1.1 400"));
    let allocs = format!("{allocs}{}&seconds=2", child.id());
    let said = bytes_of(&address, &allocs, "").unwrap();
    let body = said.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(said.starts_with(b"HTTP/1.1 200") && said[body..].starts_with(&[0x1f, 0x8b]), "no gzip");
    let go = ["go", "/usr/local/go/bin/go"].into_iter().find(|go| Command::new(go).arg("version").output().is_ok());
    let Some(go) = go else {
        return skipped("go tool pprof", "go is not installed");
    };
    for (path, kind) in [(&allocs, "Type: alloc_space"), (&heap, "Type: inuse_space")] {
        let said = top_of(go, &address, path);
        assert!(said.contains(kind), "{said}");
        assert!(said.lines().any(|line| line.ends_with(" grows") || line.ends_with(" grows (inline)")), "{said}");
    }
}
