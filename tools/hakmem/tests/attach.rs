// SPDX-License-Identifier: MIT
//! Processes are started on the library of this clone and looked into while they run.

mod running;

use running::{figure, hakmem, json, sleeping, stderr, stdout, until, Folder, Running, LIBRARY};
use std::process::Command;

#[test]
fn a_preloaded_process_is_read_and_its_parts_add_up() {
    let child = sleeping(&["--safe", "2", "--limit", "1G:2G"]);
    let id = child.id();
    until("it never allocated", || figure(&id, "live") > 0);
    let stats = json(&hakmem(&["stats", "--json", &id]));
    let at = |name: &str| stats[name].as_u64().unwrap();
    assert_eq!(at("process").to_string(), id);
    assert_eq!((at("limit_soft"), at("limit_hard")), (1 << 30, 2 << 30));
    assert!(at("live") > 0 && at("resident") > 0 && at("heaps_now") == 1, "{stats}");
    let parts = at("live") + at("cached") + at("fragmented") + at("retained") + at("metadata");
    assert_eq!(at("resident") + at("untouched"), parts);
    let options = String::from_utf8(hakmem(&["options", &id]).stdout).unwrap();
    assert!(options.lines().any(|line| line.contains("HAKMEM_SAFE  ") && line.contains(" 2  ")), "{options}");
    let ps = String::from_utf8(hakmem(&["ps"]).stdout).unwrap();
    assert!(ps.lines().any(|line| line.split_whitespace().next() == Some(&id)), "{ps}");
}

#[test]
fn exit_codes_tell_what_went_wrong() {
    let own = std::process::id().to_string();
    let output = hakmem(&["stats", &own]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no hakmem in process"));
    assert_eq!(hakmem(&["stats", "2147483647"]).status.code(), Some(1));
    assert_eq!(hakmem(&["stats"]).status.code(), Some(2));
    assert_eq!(hakmem(&["stats", "0"]).status.code(), Some(2));
    assert_eq!(hakmem(&["run", "--safe", "9", "--", "true"]).status.code(), Some(2));
    assert_eq!(hakmem(&["run", "--", "no-such-program"]).status.code(), Some(1));
}

/// Flags before the program are the tool's, those behind its name the program's.
#[test]
fn a_program_needs_no_dashes_before_it() {
    let echo = ["sh", "-c", "echo \"$0 $1 $HAKMEM_SAFE\"", "--stats", "--"];
    for before in [&["--safe", "2"][..], &["--safe=2"], &["--safe", "2", "--"]] {
        let output = hakmem(&[&["run", "--library", LIBRARY][..], before, &echo].concat());
        assert_eq!(stdout(&output), "--stats -- 2\n", "{output:?}");
    }
    let doctor = hakmem(&["doctor", "sh"]);
    assert_eq!(doctor.status.code(), Some(2), "{doctor:?}");
    assert!(stderr(&doctor).contains("a program comes behind `--`: hakmem doctor -- sh"), "{doctor:?}");
}

#[test]
fn a_name_that_nobody_has_is_told_as_that() {
    let output = hakmem(&["stats", "--comm", "no-such-name"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(stderr(&output).contains("there is no process of that name or control group"), "{output:?}");
}

#[test]
fn what_allocates_nothing_is_not_sampled_and_is_told_as_that() {
    let child = sleeping(&[]);
    let output = hakmem(&["profile", "--for", "10ms", &child.id()]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(stderr(&output).contains("allocated too little in that time to begin"), "{output:?}");
}

/// `$!` of a shell is there before its program is, and the program before it has loaded the library.
#[test]
fn a_process_that_has_only_just_been_started_is_waited_for() {
    let script = format!("sleep 0.3; LD_PRELOAD={LIBRARY} exec sleep 600");
    let child = Running(Command::new("sh").args(["-c", &script]).spawn().unwrap());
    let output = hakmem(&["stats", &child.id()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

const TAKES: &str = "
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void *takes(void) { return malloc(40000); }
int main(void) {
    for (;;) { void *volatile kept = takes(); (void)kept; usleep(1000); }
}";

/// As scripts do that find the program which was meant.
#[test]
fn a_process_that_begins_another_program_is_followed() {
    let folder = Folder::new("attach-exec");
    let program = folder.program("takes", TAKES, &["-fno-optimize-sibling-calls"]);
    let script = format!("sleep 0.7; exec {}", program.display());
    let start = || Running(Command::new("sh").args(["-c", &script]).env("LD_PRELOAD", LIBRARY).spawn().unwrap());
    for verb in ["profile", "leaks"] {
        let child = start();
        let output = hakmem(&[verb, "--every", "1", "--for", "3s", &child.id()]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains("takes"), "{output:?}");
    }
}

/// Neither a descriptor nor a thread, before a look and after one.
#[test]
fn nothing_is_left_in_a_process() {
    let listed = |id: &str, what: &str| {
        let entries = std::fs::read_dir(format!("/proc/{id}/{what}")).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let start = |library: &str| {
        let mut command = Command::new("sleep");
        command.arg("600").env("LD_PRELOAD", library).stdin(std::process::Stdio::null());
        Running(command.spawn().unwrap())
    };
    let (without, with) = (start(""), start(LIBRARY));
    let is_as_without = || listed(&with.id(), "fd") == listed(&without.id(), "fd");
    assert_eq!(hakmem(&["stats", &with.id()]).status.code(), Some(0));
    // A program that has only just begun reads files of its own.
    until("it has files that it did not open", is_as_without);
    hakmem(&["profile", "--for", "10ms", &with.id()]);
    hakmem(&["trim", &with.id()]);
    assert!(is_as_without());
    assert_eq!(listed(&with.id(), "task"), [with.id()]);
}
