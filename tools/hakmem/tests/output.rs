// SPDX-License-Identifier: MIT
//! What the tool does when nobody can take what it writes.

mod repository;
mod running;

use repository::Repository;
use running::{LIBRARY, TOOL};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

fn full_disk() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_reader_that_has_left_ends_it_quietly() {
    let repository = Repository::new("left");
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    let output = repository.hakmem(&["bench", "--list"]).stdout(OwnedFd::from(ours)).output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGPIPE));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_full_disk_is_one_line_and_a_failure() {
    let repository = Repository::new("full");
    for arguments in [&["bench", "--list"][..], &["--help"], &["bench", "--help"]] {
        let output = repository.hakmem(arguments).stdout(full_disk()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "hakmem: cannot write to standard output: No space left on device\n", "{arguments:?}");
    }
}

#[test]
fn remarks_may_be_lost() {
    let repository = Repository::new("remarks");
    let status = |arguments: &[&str]| repository.hakmem(arguments).stderr(full_disk()).output().unwrap().status;
    assert_eq!(status(&["bench", "--list", "--rows", "nosuchrow"]).code(), Some(1));
    assert_eq!(status(&["no-such-verb"]).code(), Some(2));
}

/// Also where Rust's runtime ignores it for the tool itself.
#[test]
fn a_program_has_the_action_that_the_tool_was_started_with() {
    let page = std::env::temp_dir().join(format!("hakmem-sigpipe-{}.html", std::process::id()));
    let report = format!("--report {}", page.display());
    for (action, report) in [("''", ""), ("-", ""), ("''", &report[..]), ("-", &report[..])] {
        let program = "grep SigIgn /proc/self/status";
        let run = format!("trap {action} PIPE; {TOOL} run --library {LIBRARY} {report} -- {program}");
        let output = Command::new("sh").args(["-c", &run]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let ignored = said.split_whitespace().nth(1).unwrap_or_else(|| panic!("{output:?}"));
        let ignored = u64::from_str_radix(ignored, 16).unwrap() & 1 << (libc::SIGPIPE - 1);
        assert_eq!(ignored != 0, action == "''", "{run}: {said}");
    }
    std::fs::remove_file(page).unwrap();
}

/// The launcher of this test puts down which signals it ignores.
#[test]
fn measured_programs_have_the_default_action() {
    let repository = Repository::new("action");
    repository.script("build/bench/launch", "grep SigIgn /proc/self/status >ignored");
    let arguments = ["bench", "--no-build", "--allocators", "glibc", "--rounds", "1", "--", "true"];
    repository.hakmem(&arguments).output().unwrap();
    let line = repository.read("ignored");
    let ignored = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
    assert_eq!(ignored & 1 << (libc::SIGPIPE - 1), 0, "{line}");
}
