// SPDX-License-Identifier: MIT
//! Requests: a busy process follows at once, an idle one is told as that, values are checked as those of options.

mod running;

use running::{figure, hakmem, json, started, stderr, stdout, Folder, Running, LIBRARY, TOOL};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Frees 64 MiB, which stay with it, and goes on with 8 MB at a time, more than magazines hold.
const BUSY: &str = "
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *kept[16384], *some[20000];
int main(void) {
    for (int i = 0; i < 16384; i++) memset(kept[i] = malloc(4096), 1, 4096);
    for (int i = 0; i < 16384; i++) free(kept[i]);
    for (;;) {
        for (int i = 0; i < 20000; i++) some[i] = malloc(400);
        for (int i = 0; i < 20000; i++) free(some[i]);
        usleep(1000);
    }
}";

fn busy(name: &str) -> (Folder, Running) {
    let folder = Folder::new(name);
    let mut command = Command::new(folder.program("busy", BUSY, &[]));
    command.env("LD_PRELOAD", LIBRARY).env("HAKMEM_PURGE_DELAY", "-1");
    let child = started(command, |id| resident(id) > 60 << 20 && live(id) < 16 << 20);
    (folder, child)
}

fn resident(id: &str) -> u64 {
    figure(id, "resident")
}

fn live(id: &str) -> u64 {
    figure(id, "live")
}

/// How long the process made the tool wait: the tool's own time of a processor does not count.
fn timed(arguments: &[&str]) -> (Output, Duration) {
    let shell = r#"TIMEFORMAT="%R %U %S"; time "$0" "$@""#;
    let output = Command::new("bash").args(["-c", shell, TOOL]).args(arguments).output().unwrap();
    let said = stderr(&output);
    let times: Vec<f64> = said.lines().last().unwrap().split(' ').map(|word| word.parse().unwrap()).collect();
    let waited = times[0] - times[1] - times[2];
    (output, Duration::from_secs_f64(waited.max(0.0)))
}

#[test]
fn a_busy_process_gives_back_at_once() {
    let (_folder, child) = busy("control-trim");
    let (output, took) = timed(&["trim", "--json", &child.id()]);
    let said = json(&output);
    assert_eq!((output.status.code(), said["done"].as_bool()), (Some(0), Some(true)), "{said}");
    assert!(said["result"].as_u64().unwrap() > 50 << 20, "{said}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(resident(&child.id()) < 40 << 20);
    let again = stdout(&hakmem(&["trim", &child.id()]));
    assert!(again.contains("gave back"), "{again}");
}

/// Two blocks that its magazines always have.
const PAIRS: &str = "
#include <stdlib.h>
int main(void) {
    for (;;) {
        void *volatile small = malloc(64), *volatile middle = malloc(3000);
        free(small);
        free(middle);
    }
}";

/// The countdown of malloc brings it to a request, each 4 MiB that it allocates.
#[test]
fn a_process_whose_magazines_serve_every_call_follows_at_once() {
    let folder = Folder::new("control-pairs");
    let mut command = Command::new(folder.program("pairs", PAIRS, &[]));
    command.env("LD_PRELOAD", LIBRARY);
    let child = started(command, |id| live(id) > 0);
    let id = &child.id()[..];
    let every: [(&[&str], &str); 4] = [
        (&["trim", id], "gave back"),
        (&["limit", id, "1G"], "has taken over the limits"),
        (&["options", "--set", "PURGE_DELAY=250", id], "has taken over"),
        (&["profile", "--every", "64K", "--for", "1ms", "--no-symbols", id], "a sample each 64.0 KiB"),
    ];
    for (arguments, expected) in every {
        let at_once = Duration::from_millis(500);
        // A loaded machine may be late, but not thirty times.
        let took = (0..30).map(|_| timed(arguments)).find_map(|(output, time)| {
            assert!(stdout(&output).contains(expected), "{output:?}");
            (time < at_once).then_some(time)
        });
        assert!(took.is_some(), "{arguments:?} takes more than {at_once:?}");
    }
}

#[test]
fn limits_and_options_are_taken_over() {
    let (_folder, child) = busy("control-limit");
    let output = hakmem(&["limit", &child.id(), "1G:2G"]);
    assert!(stdout(&output).contains("has taken over the limits"), "{output:?}");
    assert_eq!((figure(&child.id(), "limit_soft"), figure(&child.id(), "limit_hard")), (1 << 30, 2 << 30));
    let said = stdout(&hakmem(&["options", "--set", "purge_delay=250", &child.id()]));
    assert!(said.contains("has taken over purge_delay=250"), "{said}");
    assert!(said
        .lines()
        .any(|line| line.contains("PURGE_DELAY ") && line.contains("250 ") && line.contains("program")));
}

#[test]
fn limits_can_be_off() {
    let (_folder, child) = busy("control-off");
    assert!(stdout(&hakmem(&["limit", &child.id(), "1G"])).contains("has taken over the limits"));
    let output = hakmem(&["limit", &child.id(), "off"]);
    assert!(stdout(&output).contains("has taken over the limits"), "{output:?}");
    let said = json(&hakmem(&["options", "--json", &child.id()]));
    assert_eq!(said["options"]["HAKMEM_LIMIT"]["value"], "off");
}

#[test]
fn a_limit_that_is_missing_is_told_as_that() {
    for (given, expected) in
        [("4321", "the limit is missing, as 1G in `hakmem limit 4321 1G`"), ("1G", "name a process: its id")]
    {
        let output = hakmem(&["limit", given]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains(expected), "{output:?}");
    }
}

/// Also by one that is idle, which would not say so.
#[test]
fn what_is_not_valid_is_refused() {
    let child = running::sleeping(&[]);
    for (setting, expected) in [
        ("PURGE_DELAY=soon", "the value is not valid"),
        ("LIMIT=2G:1G", "the value is not valid"),
        ("NO_SUCH=1", "there is no such option"),
        ("SAFE=2", "it can be set at start only"),
    ] {
        let output = hakmem(&["options", "--set", setting, &child.id()]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains(expected), "{output:?}");
    }
    for arguments in [&["limit", &child.id(), "2G:1G"][..], &["limit", "--json", &child.id(), "2G:1G"]] {
        let output = hakmem(arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains("SOFT is above HARD"), "{output:?}");
    }
    let long = format!("STATS=text:{}", "x".repeat(300));
    assert!(stderr(&hakmem(&["options", "--set", &long, &child.id()])).contains("longer than 255 bytes"));
}

#[test]
fn an_idle_process_is_told_as_that() {
    let child = running::sleeping(&[]);
    let asked = Instant::now();
    let output = hakmem(&["trim", &child.id()]);
    let took = asked.elapsed();
    assert_eq!((output.status.code(), &stdout(&output)[..]), (Some(1), ""), "{output:?}");
    assert!(stderr(&output).contains("did not come to it within 2 s"), "{output:?}");
    assert!(took >= Duration::from_secs(2), "{took:?}");
    for arguments in [&["trim", "--json", &child.id()][..], &["limit", "--json", &child.id(), "1G"]] {
        let output = hakmem(arguments);
        assert_eq!((output.status.code(), &json(&output)["done"]), (Some(1), &false.into()), "{output:?}");
        assert!(stderr(&output).contains("did not come to it"), "{output:?}");
    }
    let output = hakmem(&["limit", &child.id(), "1G"]);
    assert_eq!((output.status.code(), &stdout(&output)[..]), (Some(1), ""), "{output:?}");
    assert!(stderr(&output).contains("it takes over the limits when"), "{output:?}");
}

/// What it has in force is shown all the same.
#[test]
fn an_option_that_an_idle_process_has_not_taken_over_is_told_as_that() {
    let child = running::sleeping(&[]);
    let output = hakmem(&["options", "--set", "PURGE_DELAY=5", &child.id()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("it takes over PURGE_DELAY=5 when it next needs memory"), "{output:?}");
    assert!(stdout(&output).contains("HAKMEM_PURGE_DELAY"), "{output:?}");
    let output = hakmem(&["options", "--json", "--set", "PURGE_DELAY=6", &child.id()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(json(&output)["options"]["HAKMEM_PURGE_DELAY"]["origin"], "default");
}

#[test]
fn a_stopped_process_is_told_as_that() {
    let child = running::sleeping(&[]);
    let id = &child.id()[..];
    assert!(Command::new("kill").args(["-STOP", id]).status().unwrap().success());
    for output in [&["trim", id][..], &["stats", "--exact", id], &["profile", "--for", "1ms", id]].map(hakmem) {
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said.contains(" is stopped (by a signal or a debugger)"), "{said}");
        assert!(!said.contains("next to nothing"), "{said}");
    }
    let said = stderr(&hakmem(&["limit", id, "1G"]));
    assert!(said.contains("takes over the limits once it goes on (kill -CONT "), "{said}");
    let said = stderr(&hakmem(&["options", "--set", "PURGE_DELAY=5", id]));
    assert!(said.contains("it is stopped (by a signal or a debugger) and has not come yet"), "{said}");
}

#[test]
fn writing_needs_the_right_to_look() {
    if !running::is_root() {
        return running::skipped("another user's request", "only root can become another user");
    }
    let child = running::sleeping(&[]);
    let folder = Folder::new("control-rights");
    let tool = folder.copy(running::TOOL);
    let output = running::as_nobody(tool).args(["trim", &child.id()]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

/// Sleeps until a signal, and then needs memory.
const WAKES: &str = "
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static void nothing(int number) { (void)number; }
int main(void) {
    signal(SIGUSR1, nothing);
    free(malloc(100));
    for (;;) {
        pause();
        for (int i = 0; i < 20000; i++) { void *volatile block = malloc(5000); free(block); }
    }
}";

fn waking(name: &str) -> (Folder, Running) {
    let folder = Folder::new(name);
    let mut command = Command::new(folder.program("wakes", WAKES, &[]));
    command.env("LD_PRELOAD", LIBRARY);
    let child = started(command, running::is_read);
    (folder, child)
}

/// There are words for one order: what is asked next does not take away what an idle process was asked for.
#[test]
fn an_order_that_stands_is_followed_later() {
    let (_folder, child) = waking("control-stands");
    let id = &child.id()[..];
    assert!(stderr(&hakmem(&["limit", id, "1G"])).contains("it takes over the limits when"));
    for arguments in [&["trim", id][..], &["options", "--set", "PURGE_DELAY=5", id], &["stats", "--exact", id]] {
        let output = hakmem(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains("has not come yet to what it was asked for before (limits)"), "{output:?}");
    }
    let (looked, took) = timed(&["profile", "--for", "1s", id]);
    assert_eq!(stderr(&looked).matches("was asked for before (limits)").count(), 1, "{looked:?}");
    assert!(took < Duration::from_millis(3500), "{took:?}");
    assert!(stderr(&hakmem(&["limit", id, "3G"])).contains("it takes over the limits when"), "limits replace limits");
    let wake = || Command::new("kill").args(["-USR1", id]).status().unwrap();
    running::until("it never followed", || wake().success() && figure(id, "limit_soft") == 3 << 30);
}

#[test]
fn two_tools_do_not_ask_at_once() {
    let child = running::sleeping(&[]);
    let file = std::fs::File::open(format!("/proc/{}/mem", child.id())).unwrap();
    let lock = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusive).unwrap();
    let output = hakmem(&["trim", &child.id()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("another hakmem is asking it for something"), "{output:?}");
    drop(lock);
    assert!(stderr(&hakmem(&["trim", &child.id()])).contains("did not come to it"));
}
