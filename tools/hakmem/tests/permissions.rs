// SPDX-License-Identifier: MIT
//! Who may look into a process, by which rule of the kernel, and what the tool says where it may not. What this machine
//! cannot make is skipped by name.

mod running;

use running::{
    as_nobody, hakmem, is_read, is_root, skipped, started, stderr, stdout, Folder, Running, LIBRARY, TOOL, WITHOUT_READ,
};
use std::path::Path;
use std::process::{Command, Output};

const TARGET: &str = "
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
int main(int count, char **words) {
    free(malloc(100));
    if (count > 1 && !strcmp(words[1], \"secret\")) prctl(PR_SET_DUMPABLE, 0);
    if (count > 1 && !strcmp(words[1], \"filtered\")) {
        struct sock_filter all = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
        struct sock_fprog filter = {1, &all};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    }
    for (;;) pause();
}";

/// The tool, the library and a target where every user finds them.
struct Place {
    folder: Folder,
    target: String,
    tool: String,
    library: String,
}

impl Place {
    fn new(name: &str) -> Place {
        let folder = Folder::new(name);
        let target = folder.program("target", TARGET, &[]);
        let text = |path: &Path| path.to_str().unwrap().to_string();
        let (tool, library) = (text(&folder.copy(TOOL)), text(&folder.copy(LIBRARY)));
        Place { target: text(&target), tool, library, folder }
    }

    fn start(&self, mut command: Command) -> Running {
        command.env("LD_PRELOAD", &self.library);
        started(command, in_pause)
    }

    fn as_root(&self, mode: &str) -> Running {
        let mut command = Command::new(&self.target);
        command.arg(mode);
        self.start(command)
    }

    fn as_nobody(&self, mode: &str) -> Running {
        let mut command = as_nobody(&self.target);
        command.arg(mode);
        self.start(command)
    }

    fn nobody_reads(&self, id: &str) -> Output {
        as_nobody(&self.tool).args(["stats", id]).output().unwrap()
    }
}

/// It is done with what its start asks for, and sleeps.
fn in_pause(id: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    status.contains("Name:\ttarget") && status.contains("State:\tS")
}

fn assert_refused(output: &Output, cause: &str, remedy: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("may not be looked into: ") && said.contains(cause) && said.contains(remedy), "{said}");
}

/// Rows that need another user.
fn may_change_user(row: &str) -> bool {
    if !is_root() {
        skipped(row, "only root can become another user");
    }
    is_root()
}

#[test]
fn the_same_user_may() {
    let child = running::sleeping(&[]);
    assert!(is_read(&child.id()));
    if may_change_user("same user without rights") {
        let place = Place::new("same-user");
        let child = place.as_nobody("");
        let output = place.nobody_reads(&child.id());
        if running_yama() > 0 {
            return assert_refused(&output, "Yama", "sudo");
        }
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
}

fn running_yama() -> u32 {
    let text = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

#[test]
fn another_user_may_not_and_root_may() {
    if !may_change_user("other user") {
        return;
    }
    let place = Place::new("other-user");
    let child = place.as_root("");
    let remedy = format!("try `sudo hakmem stats {}`", child.id());
    assert_refused(&place.nobody_reads(&child.id()), "it runs as user root, and this is user nobody", &remedy);
    let output = as_nobody(&place.tool).arg("ps").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = stderr(&output);
    assert!(said.contains("may not be looked into: it runs as user"), "{said}");
    assert!(said.contains("try `sudo hakmem ps` (and "), "{said}");
    let said = stdout(&as_nobody(&place.tool).args(["doctor", &child.id()]).output().unwrap());
    assert!(said.contains("it runs as user root") && said.contains("-> try `sudo hakmem doctor"), "{said}");
    let child = place.as_nobody("");
    assert!(is_read(&child.id()));
}

#[test]
fn what_is_not_dumpable_is_for_root() {
    if !may_change_user("not dumpable") {
        return;
    }
    let place = Place::new("dumpable");
    let child = place.as_nobody("secret");
    assert_refused(&place.nobody_reads(&child.id()), "it is not dumpable", "try `sudo hakmem stats");
    assert!(is_read(&child.id()));
}

#[test]
fn root_of_a_user_namespace_may_only_there() {
    if !may_change_user("user namespaces") {
        return;
    }
    let place = Place::new("namespace");
    let mut inside = as_nobody("unshare");
    inside.args(["--user", "--map-root-user", &place.target]);
    let probe = as_nobody("unshare").args(["--user", "--map-root-user", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return skipped("user namespaces", "this machine does not let users make one");
    }
    let child = place.start(inside);
    assert!(is_read(&child.id()));
    let child = place.as_root("");
    let mut reader = as_nobody("unshare");
    let output = reader.args(["--user", "--map-root-user", &place.tool, "stats", &child.id()]).output().unwrap();
    assert_refused(&output, "it is in another user namespace", "outside of all containers");
}

#[test]
fn root_needs_the_capability() {
    if !may_change_user("CAP_SYS_PTRACE") {
        return;
    }
    let place = Place::new("capability");
    let child = place.as_nobody("");
    let mut reader = Command::new("setpriv");
    let output = reader.args(["--bounding-set", "-sys_ptrace", &place.tool, "stats", &child.id()]).output().unwrap();
    assert_refused(&output, "this is root without CAP_SYS_PTRACE", "give the container that capability");
}

/// The files of other users' processes in /proc need another one.
#[test]
fn one_capability_is_not_enough() {
    if !may_change_user("CAP_DAC_READ_SEARCH") {
        return;
    }
    let place = Place::new("capabilities");
    let child = place.as_root("");
    let run = |granted: &str, arguments: &[&str]| {
        let mut reader = Command::new("setpriv");
        reader.args(["--reuid", "65530", "--regid", "65530", "--clear-groups", "--no-new-privs"]);
        reader.args(["--inh-caps", granted, "--ambient-caps", granted, &place.tool]).args(arguments).output().unwrap()
    };
    let (one, both) = ("+sys_ptrace", "+sys_ptrace,+dac_read_search");
    for verb in ["stats", "trim", "profile"] {
        let output = run(one, &[verb, &child.id()]);
        assert_refused(&output, "without CAP_DAC_READ_SEARCH", "give hakmem both capabilities");
    }
    let doctor = stdout(&run(one, &["doctor", &child.id()]));
    assert!(doctor.contains("without CAP_DAC_READ_SEARCH"), "{doctor}");
    let refused = |granted: &str| {
        let text = stdout(&run(granted, &["metrics"]));
        let count = text.lines().find_map(|line| line.strip_prefix("hakmem_processes_refused{} "));
        count.unwrap_or_else(|| panic!("{text}")).parse::<u32>().unwrap()
    };
    assert!(refused(one) > 0);
    let output = run(both, &["stats", &child.id()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&run(both, &["metrics"])).contains(&format!("hakmem_live_bytes{{pid=\"{}\"", child.id())));
}

#[test]
fn filters_of_system_calls_are_named() {
    let place = Place::new("seccomp");
    let launcher = place.folder.program("launcher", WITHOUT_READ, &[]);
    let child = place.as_root("");
    let output = Command::new(launcher).args([&place.tool, "stats", &child.id()]).output().unwrap();
    assert_refused(&output, "a filter of system calls (seccomp)", "let the filter pass that call");
    let child = place.as_root("filtered");
    assert!(is_read(&child.id()), "a filter of the target's is nothing to the reader");
    let said = stdout(&hakmem(&["doctor", &child.id()]));
    assert!(said.contains("it is under a filter of system calls"), "{said}");
}

#[test]
fn processes_that_are_hidden_are_told_as_that() {
    if !may_change_user("hidepid") || !running::may_mount_apart("hidepid") {
        return;
    }
    let place = Place::new("hidepid");
    let child = place.as_root("");
    let script = "mount -t proc -o hidepid=2 proc /proc || exit 77; \
        exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
    let mut reader = Command::new("unshare");
    reader.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh", &place.tool, "stats", &child.id()]);
    let output = reader.output().unwrap();
    if output.status.code() == Some(77) {
        return skipped("hidepid", "this machine does not let root mount /proc");
    }
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(stderr(&output).contains("is not visible: /proc is mounted with hidepid="), "{output:?}");
    let hidden = |privileges: &str| {
        let script = format!("mount -t proc -o hidepid=2 proc /proc || exit 77; exec setpriv {privileges} \"$@\"");
        let mut reader = Command::new("unshare");
        reader.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh", &place.tool, "doctor"]);
        let said = stdout(&reader.output().unwrap());
        let about = said.lines().skip_while(|line| !line.contains("hidepid=")).take(2);
        about.collect::<Vec<_>>().join("\n")
    };
    let said = hidden("--reuid 65534 --regid 65534 --clear-groups");
    assert!(said.contains("-> try `sudo hakmem doctor`"), "{said}");
    let said = hidden("--bounding-set -sys_ptrace");
    assert!(said.contains("-> this is root without CAP_SYS_PTRACE: give"), "{said}");
}

#[test]
fn yama_is_named() {
    if !Path::new("/proc/sys/kernel/yama").exists() {
        return skipped(
            "Yama (ptrace_scope 1, 2, 3)",
            "the kernel has none; its texts are in a unit test of refusal.rs",
        );
    }
    if running_yama() == 0 || !may_change_user("Yama") {
        return skipped("Yama", "ptrace_scope is 0 here, and a test does not change it");
    }
    let place = Place::new("yama");
    let child = place.as_nobody("");
    assert_refused(&place.nobody_reads(&child.id()), "ptrace_scope", "");
}
