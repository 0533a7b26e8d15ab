// SPDX-License-Identifier: MIT
//! bench/launch: what it has started ends with it, and so with the tool.

mod running;

use running::{until, Folder, Running};
use std::process::{Command, Stdio};

/// A server in a session of its own, one whose parent has gone, and the job that waits for them.
const JOB: &str = "setsid sh -c 'echo $$ >a; exec sleep 1000' & (sh -c 'echo $$ >b; exec sleep 1000' &); sleep 1000";

fn is_there(pid: &str) -> bool {
    // A zombie has gone, though nobody has waited for it.
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

fn launched(folder: &Folder, job: &str) -> Running {
    let program = folder.program("launch", include_str!("../../../bench/launch/launch.c"), &["-D_GNU_SOURCE"]);
    let mut command = Command::new(program);
    command.args(["2", "X=1", "--", "/bin/sh", "-c", job]).current_dir(&folder.0).stderr(Stdio::null());
    Running(command.spawn().unwrap())
}

fn said(folder: &Folder, name: &str) -> String {
    let read = || std::fs::read_to_string(folder.0.join(name)).unwrap_or_default();
    until("the job has not begun", || read().ends_with('\n'));
    read()
}

#[test]
fn whoever_ends_the_launcher_ends_all_that_it_started() {
    let folder = Folder::new("launch-ends");
    let launcher = launched(&folder, JOB);
    let pids = [said(&folder, "a"), said(&folder, "b")];
    assert!(pids.iter().all(|pid| is_there(pid)));
    let number = nix::unistd::Pid::from_raw(launcher.id().parse().unwrap());
    nix::sys::signal::kill(number, nix::sys::signal::Signal::SIGTERM).unwrap();
    until("something goes on", || !pids.iter().any(|pid| is_there(pid)));
}

#[test]
fn what_a_job_leaves_behind_ends_with_it() {
    let folder = Folder::new("launch-left");
    let mut launcher = launched(&folder, "setsid sh -c 'echo $$ >a; exec sleep 1000' & while [ ! -s a ]; do :; done");
    assert_eq!(launcher.0.wait().unwrap().code(), Some(0));
    assert!(!is_there(&said(&folder, "a")));
}
