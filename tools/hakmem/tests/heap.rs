// SPDX-License-Identifier: MIT
//! A program with a known peak and a known leak is looked into while it runs on the library of this clone.

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../build/release/libhakmem.so.0");
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *volatile sink;
__attribute__((noinline)) void grows(void) {
    static void *all[1000];
    for (int i = 0; i < 1000; i++)
        memset(all[i] = malloc(100 << 10), 1, 100 << 10);
    for (int i = 10; i < 1000; i++)
        free(all[i]);
}
__attribute__((noinline)) void keeps(void) {
    void *block = malloc(4096);
    memset(block, 1, 4096);
    sink = block;
}
__attribute__((noinline)) void temporary(void) {
    sink = malloc(100);
    free(sink);
}
static volatile sig_atomic_t forks, starts, execs;
static void on_signal(int number) {
    forks |= number == SIGUSR1;
    starts |= number == SIGUSR2;
    execs |= number == SIGHUP;
}
int main(int count, char **words) {
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
    signal(SIGHUP, on_signal);
    int (*start)(size_t) = (int (*)(size_t))dlsym(RTLD_DEFAULT, "hak_profile_start");
    if (count > 1 && start)
        start((size_t)atol(words[1]));
    grows();
    puts("grown");
    fflush(stdout);
    for (;;) {
        if (forks && fork() > 0)
            pause();
        if (forks)
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        forks = 0;
        if (starts && start)
            start(65536);
        starts = 0;
        if (execs)
            execv(words[0], words);
        keeps();
        for (int i = 0; i < 1000; i++)
            temporary();
        usleep(20000);
    }
}
"#;

struct Running {
    child: Child,
    folder: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Running {
    /// The program has had its peak. Without an interval nobody samples it.
    fn of(name: &str, interval: Option<u64>) -> Running {
        assert!(Path::new(LIBRARY).exists(), "build it first: make all");
        let folder = std::env::temp_dir().join(format!("hakmem-heap-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("service.c"), SOURCE).unwrap();
        let comm = Running::comm(name);
        let arguments = ["-g", "-O1", "-fno-optimize-sibling-calls", "service.c", "-o", &comm, "-ldl"];
        assert!(Command::new("cc").args(arguments).current_dir(&folder).status().unwrap().success());
        let mut command = Command::new(env!("CARGO_BIN_EXE_hakmem"));
        command.args(["run", "--library", LIBRARY, "--"]).arg(folder.join(&comm));
        command.args(interval.map(|interval| interval.to_string()));
        let said = fs::File::create(folder.join("said")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(said).spawn().unwrap();
        let running = Running { child, folder };
        let begin = Instant::now();
        while fs::read_to_string(running.folder.join("said")).unwrap() != "grown\n" {
            assert!(begin.elapsed() < Duration::from_secs(60), "it never had its peak");
            std::thread::sleep(Duration::from_millis(20));
        }
        running
    }

    /// For --comm: other tests have such processes as well.
    fn comm(name: &str) -> String {
        format!("service-{name}")
    }

    fn hakmem(&self, arguments: &[&str]) -> Output {
        let id = self.child.id().to_string();
        let arguments = arguments.iter().map(|argument| if *argument == "PID" { &id[..] } else { argument });
        Command::new(env!("CARGO_BIN_EXE_hakmem")).args(arguments).current_dir(&self.folder).output().unwrap()
    }

    /// One that goes on beside the test.
    fn begins(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hakmem"));
        command.args(arguments).arg(self.child.id().to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn is_sampled(&self) -> bool {
        let output = self.hakmem(&["heap", "PID"]);
        output.status.success() && !String::from_utf8_lossy(&output.stdout).contains("not sampled any more")
    }

    fn says(&self, arguments: &[&str]) -> String {
        let output = self.hakmem(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn has(site: &Value, function: &str) -> bool {
    site["stack"].as_array().unwrap().iter().any(|frame| frame["function"] == function)
}

#[test]
fn the_peak_is_known_by_its_site() {
    let service = Running::of("peak", Some(16384));
    let profile: Value = serde_json::from_str(&service.says(&["heap", "--show", "peak", "--json", "PID"])).unwrap();
    let first = &profile["sites"][0];
    assert!(has(first, "grows"), "{first}");
    let peak = first["peak"]["bytes"].as_f64().unwrap();
    assert!((peak / f64::from(1000 * (100 << 10)) - 1.0).abs() < 0.05, "{peak}");
    let left = first["in_use"]["bytes"].as_f64().unwrap();
    assert!(left < 0.1 * peak, "{left} of {peak}");
    assert!(profile["memory"]["resident"].as_u64().unwrap() > 1 << 20);
    let table = service.says(&["heap", "--show", "peak", "PID"]);
    assert!(table.lines().nth(2).unwrap().ends_with("in use at the peak, within 2 %"), "{table}");
    assert!(table.lines().nth(3).unwrap().contains("grows < main"), "{table}");
}

#[test]
fn a_leak_is_the_first_line_among_many_temporary_blocks() {
    let service = Running::of("leak", Some(4096));
    let said = service.says(&["leaks", "--comm", &Running::comm("leak"), "--for", "4s"]);
    let first = said.lines().nth(5).unwrap();
    assert!(first.contains("  keeps < main"), "{said}");
    assert!(said.contains("still in use, where most parts of that time left some:"), "{said}");
    let temporary = service.says(&["heap", "--show", "temporary", "PID"]);
    assert!(temporary.lines().nth(3).unwrap().contains("temporary < main"), "{temporary}");
}

/// It was started without an option, and is sampled from now on.
#[test]
fn a_program_that_knows_of_nothing_is_profiled() {
    let service = Running::of("later", None);
    let said = service.says(&["profile", "PID", "--for", "3s", "--every", "1", "--show", "temporary"]);
    assert!(said.lines().nth(3).unwrap().contains("temporary < main"), "{said}");
    let again = service.says(&["leaks", "PID", "--for", "4s"]);
    assert!(again.lines().nth(5).unwrap().contains("  keeps < main"), "{again}");
    let ended = service.says(&["heap", "PID"]);
    assert!(ended.lines().next().unwrap().ends_with("not sampled any more"), "{ended}");
}

/// As Ctrl-C and Ctrl-\ do.
#[test]
fn a_look_that_is_interrupted_shows_what_there_is_and_leaves_nothing() {
    for signal in [Signal::SIGINT, Signal::SIGQUIT] {
        interrupted_by(signal);
    }
}

fn interrupted_by(signal: Signal) {
    let service = Running::of("interrupt", None);
    let look = service.begins(&["profile", "--for", "100s", "--every", "1"]);
    until("it is never sampled", || service.is_sampled());
    std::thread::sleep(Duration::from_secs(1));
    kill(Pid::from_raw(look.id() as i32), signal).unwrap();
    let output = look.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("keeps < main"), "{output:?}");
    assert!(!service.is_sampled());
}

#[test]
fn the_last_of_two_looks_ends_the_sampling() {
    let service = Running::of("two", None);
    let first = service.begins(&["profile", "--for", "4s", "--every", "64K"]);
    until("it is never sampled", || service.is_sampled());
    let second = service.begins(&["profile", "--for", "8s", "--every", "1"]);
    assert!(first.wait_with_output().unwrap().status.success());
    assert!(service.is_sampled(), "the first look has ended the second one");
    let output = second.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("is sampled already: --every does not apply, a sample each 64.0 KiB"), "{said}");
    assert!(!service.is_sampled());
}

/// What an earlier look has left is not what this one saw.
#[test]
fn a_process_that_did_not_begin_again_is_told_as_that() {
    let service = Running::of("again", None);
    assert!(service.says(&["profile", "PID", "--for", "1s", "--every", "1"]).contains("each allocation is sampled"));
    let id = Pid::from_raw(service.child.id() as i32);
    kill(id, Signal::SIGSTOP).unwrap();
    for look in [&["profile", "PID", "--for", "300ms"][..], &["leaks", "PID", "--for", "300ms", "--json"]] {
        let output = service.hakmem(look);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.stdout.is_empty() && said.contains("so sampling did not begin"), "{output:?}");
    }
    kill(id, Signal::SIGCONT).unwrap();
    service.says(&["profile", "PID", "--for", "1s", "--every", "1"]);
}

/// A look that nothing was able to end.
fn left_on(service: &Running) {
    let mut look = service.begins(&["profile", "--for", "600s", "--every", "64K"]);
    until("it is never sampled", || service.is_sampled());
    look.kill().and_then(|()| look.wait()).unwrap();
    assert!(service.is_sampled());
}

#[test]
fn what_a_killed_look_has_left_on_is_ended_by_the_next_one() {
    let service = Running::of("killed", None);
    left_on(&service);
    let said = service.says(&["profile", "PID", "--for", "300ms", "--every", "1"]);
    assert!(said.contains("each allocation is sampled"), "{said}");
    assert!(!service.is_sampled());
}

#[test]
fn sampling_is_ended_by_a_command() {
    let service = Running::of("stop", None);
    assert!(service.says(&["profile", "--stop", "PID"]).ends_with("was not sampled\n"));
    left_on(&service);
    let said = service.says(&["profile", "PID", "--stop"]);
    assert!(said.contains("is no longer sampled; its profile began "), "{said}");
    assert!(!service.is_sampled());
    left_on(&service);
    let said = service.says(&["profile", "--stop", "--json", "--comm", &Running::comm("stop")]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["done"], &said["was_sampled"]), (&Value::Bool(true), &Value::Bool(true)), "{said}");
    assert!(!service.is_sampled());
    assert_eq!(service.hakmem(&["profile", "--stop", "PID", "--for", "1s"]).status.code(), Some(2));
    assert_eq!(service.hakmem(&["profile", "--stop"]).status.code(), Some(2));
}

#[test]
fn what_the_program_begins_during_a_look_goes_on() {
    let service = Running::of("begins", None);
    let look = service.begins(&["profile", "--for", "4s", "--every", "1"]);
    until("it is never sampled", || service.is_sampled());
    kill(Pid::from_raw(service.child.id() as i32), Signal::SIGUSR2).unwrap();
    let is_its_own = || service.says(&["heap", "PID"]).contains("a sample each 64.0 KiB");
    until("the program never begins", is_its_own);
    assert!(look.wait_with_output().unwrap().status.success());
    assert!(is_its_own() && service.is_sampled());
}

/// The child has what there was before, and nobody looks at it. The parent waits, so it answers at no command.
#[test]
fn the_child_of_a_fork_is_not_sampled_for_a_look_at_its_parent() {
    let service = Running::of("forks", None);
    left_on(&service);
    kill(Pid::from_raw(service.child.id() as i32), Signal::SIGUSR1).unwrap();
    let path = format!("/proc/{0}/task/{0}/children", service.child.id());
    let child = || fs::read_to_string(&path).unwrap().trim().to_string();
    until("it never forks", || !child().is_empty());
    let shown = || service.says(&["heap", &child()]);
    until("the child is sampled", || shown().contains("not sampled any more"));
    let before = shown().lines().next().unwrap().to_string();
    std::thread::sleep(Duration::from_millis(500));
    let (after, of_parent) = (shown(), service.is_sampled());
    assert_eq!(after.lines().next(), Some(&before[..]));
    assert!(of_parent);
}

/// The program's own sampling outlives looks, and ends by a command alone.
#[test]
fn a_look_leaves_the_programs_own_sampling_on() {
    let service = Running::of("own", Some(65536));
    service.says(&["profile", "PID", "--for", "100ms"]);
    assert!(service.is_sampled());
    let look = service.begins(&["profile", "--for", "4s"]);
    std::thread::sleep(Duration::from_secs(1));
    service.says(&["profile", "--stop", "PID"]);
    assert!(!service.is_sampled());
    assert!(look.wait_with_output().unwrap().status.success());
}

#[test]
fn a_process_that_begins_another_program_is_told_as_that() {
    let service = Running::of("execs", None);
    let look = service.begins(&["profile", "--for", "6s", "--every", "1"]);
    until("it is never sampled", || service.is_sampled());
    kill(Pid::from_raw(service.child.id() as i32), Signal::SIGHUP).unwrap();
    let output = look.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("has begun another program (execve) meanwhile"), "{said}");
    let whole = service.hakmem(&["profile", "PID", "--for", "100ms"]);
    assert!(!String::from_utf8_lossy(&whole.stderr).contains("execve"), "{whole:?}");
}

#[test]
fn a_process_that_ends_meanwhile_is_shown_as_it_was() {
    let mut service = Running::of("ends", None);
    let look = service.begins(&["profile", "--for", "100s", "--every", "1"]);
    until("it is never sampled", || service.is_sampled());
    std::thread::sleep(Duration::from_secs(3));
    service.child.kill().unwrap();
    let output = look.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("keeps < main"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("has ended: this is what it had"), "{output:?}");
}

/// Before the time is taken, not behind it.
#[test]
fn a_place_that_cannot_be_written_to_is_told_first() {
    let service = Running::of("place", None);
    let begin = Instant::now();
    let output = service.hakmem(&["profile", "PID", "--for", "100s", "-o", "none/p.html"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "hakmem: cannot write none/p.html: No such file or directory\n");
    assert!(begin.elapsed() < Duration::from_secs(50));
}

/// The time in which nobody sampled is no part of the second profile, nor of the time in which a leak has to be seen.
#[test]
fn a_pause_between_two_profiles_does_not_count() {
    let service = Running::of("pause", None);
    let profile = || -> Value {
        serde_json::from_str(&service.says(&["profile", "PID", "--for", "500ms", "--every", "1", "--json"])).unwrap()
    };
    let first = profile();
    std::thread::sleep(Duration::from_secs(4));
    let second = profile();
    for one in [&first, &second] {
        let (ms, samples) = (one["elapsed_ms"].as_u64().unwrap(), one["samples"].as_u64().unwrap());
        assert!((200..3000).contains(&ms) && samples < 200_000, "{ms} ms, {samples} samples");
    }
    std::thread::sleep(Duration::from_secs(8));
    let said = service.says(&["leaks", "PID", "--for", "3s", "--every", "1"]);
    let line = said.lines().find(|line| line.contains("keeps < main")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("KiB"), "{said}");
}

/// What the first look saw is in use still, and is of the first look.
#[test]
fn what_is_in_use_is_of_one_look() {
    let service = Running::of("looks", None);
    let in_use = |time: &str| -> [f64; 3] {
        let said = service.says(&["profile", "PID", "--for", time, "--every", "1", "--json"]);
        let profile: Value = serde_json::from_str(&said).unwrap();
        let sites = profile["sites"].as_array().unwrap().iter().find(|site| has(site, "keeps")).cloned();
        let of_site = sites.map_or(0.0, |site| site["in_use"]["bytes"].as_f64().unwrap());
        [of_site, profile["in_use"]["bytes"].as_f64().unwrap(), profile["allocated"]["bytes"].as_f64().unwrap()]
    };
    let [first, ..] = in_use("4s");
    let [second, all, allocated] = in_use("1s");
    assert!(second > 0.0 && second < first / 2.0, "{first} and {second}");
    assert!(second <= all && all <= allocated, "{second}, {all}, {allocated}");
}

#[test]
fn each_form_is_written() {
    let service = Running::of("forms", Some(4096));
    for (name, start) in
        [("a.html", &b"<!doctype html>"[..]), ("a.svg", b"<?xml"), ("a.json", b"{"), ("a.pb.gz", &[0x1f, 0x8b])]
    {
        service.says(&["heap", "PID", "-o", name]);
        let written = fs::read(service.folder.join(name)).unwrap();
        assert!(written.starts_with(start), "{name}");
    }
    service.says(&["heap", "PID", "--show", "alloc", "-o", "a.folded"]);
    let folded = fs::read_to_string(service.folder.join("a.folded")).unwrap();
    assert!(folded.lines().any(|line| line.contains(";main;temporary ")), "{folded}");
    for pair in [&["PID", "PID"][..], &["PID", "--comm", &Running::comm("forms")]] {
        let same = service.says(&[&["diff"], pair].concat());
        assert!(same.lines().nth(1).unwrap().ends_with("  all"), "{same}");
    }
    let one = service.hakmem(&["diff", "PID"]);
    assert_eq!(one.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&one.stderr).contains("name two profiles, before and after; these are 1"));
    assert_eq!(service.hakmem(&["heap", "PID", "-o", "a.txt"]).status.code(), Some(2));
    for arguments in [
        &["heap", "PID", "--by", "thread", "--show", "peak"][..],
        &["heap", "PID", "--by", "thread", "-o", "b.pb.gz"],
        &["heap", "PID", "--by", "class", "--json"],
        &["heap", "PID", "--show", "peak", "-o", "b.html"],
    ] {
        assert_eq!(service.hakmem(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

/// A name may be that of several processes.
#[test]
fn one_file_is_of_one_process() {
    let service = Running::of("several", Some(65536));
    let comm = Running::comm("several");
    let mut command = Command::new(service.folder.join(&comm));
    let mut other = command.arg("65536").env("LD_PRELOAD", LIBRARY).stdout(Stdio::null()).spawn().unwrap();
    until("the other is never sampled", || service.hakmem(&["heap", &other.id().to_string()]).status.success());
    let output = service.hakmem(&["heap", "--comm", &comm, "-o", "a.svg"]);
    other.kill().and_then(|()| other.wait()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!service.folder.join("a.svg").exists());
    service.says(&["heap", "--comm", &comm, "-o", "a.svg"]);
}

#[test]
fn what_has_no_profile_says_what_to_do() {
    let service = Running::of("none", None);
    for given in [&["heap", "PID"][..], &["heap", "--comm", &Running::comm("none")]] {
        let output = service.hakmem(given);
        assert_eq!(output.status.code(), Some(1), "4 is for what has no hakmem");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("there is no heap profile in process"), "{said}");
    }
    let output = service.hakmem(&["heap", "./service.c"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "hakmem: ./service.c: is no heap profile of hakmem's\n");
}
