// SPDX-License-Identifier: MIT
//! Processes on the library of this clone, and the tool as another user.
#![allow(dead_code)] // each test program needs a part of it

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../build/release/libhakmem.so.0");
pub const ARCHIVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../build/release/libhakmem.a");
pub const TOOL: &str = env!("CARGO_BIN_EXE_hakmem");
pub const NOBODY: u32 = 65534;

pub fn hakmem(arguments: &[&str]) -> Output {
    Command::new(TOOL).args(arguments).output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A test of which this machine lacks something says so in a line that no harness keeps to itself; run-tests counts it.
pub fn skipped(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {why}");
}

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Mounts of its own, which nobody else sees: not in a root that was changed to and is no mount point.
pub fn may_mount_apart(what: &str) -> bool {
    let may = is_root() && Command::new("unshare").args(["--mount", "true"]).output().is_ok_and(|o| o.status.success());
    if !may {
        skipped(what, "this machine does not let this user make a mount namespace here");
    }
    may
}

pub struct Running(pub Child);

impl Running {
    pub fn id(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A program on hakmem, once `is_so` is true of its id.
pub fn started(mut command: Command, is_so: impl Fn(&str) -> bool) -> Running {
    assert!(Path::new(LIBRARY).exists(), "build it first: make all");
    let child = Running(command.stdin(Stdio::null()).spawn().unwrap());
    let id = child.id();
    until("the program never ran on hakmem", || is_so(&id));
    child
}

/// As the tool sees it, which must be permitted.
pub fn is_read(id: &str) -> bool {
    hakmem(&["stats", id]).status.code() == Some(0)
}

/// A figure of `hakmem stats`; 0 while the process has none.
pub fn figure(id: &str, name: &str) -> u64 {
    let output = hakmem(&["stats", "--json", id]);
    if output.status.success() {
        json(&output)[name].as_u64().unwrap_or(0)
    } else {
        0
    }
}

/// `sleep` on hakmem, as `hakmem run` starts it.
pub fn sleeping(flags: &[&str]) -> Running {
    let mut command = Command::new(TOOL);
    command.args(["run", "--library", LIBRARY]).args(flags).args(["--", "sleep", "600"]);
    started(command, is_read)
}

/// A folder of this test's, which everybody may read.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("hakmem-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Folder(path)
    }

    /// A copy of a file that every user may run: the clone may lie in a private home.
    pub fn copy(&self, from: &str) -> PathBuf {
        let to = self.0.join(Path::new(from).file_name().unwrap());
        fs::copy(from, &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
        to
    }

    /// A C program of `source`.
    pub fn program(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        self.compiled("cc", name, source, flags).expect("the compiler is there")
    }

    /// None: there is no such compiler.
    pub fn compiled(&self, compiler: &str, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
        let (text, program) = (self.0.join(format!("{name}.c")), self.0.join(name));
        fs::write(&text, source).unwrap();
        let made = Command::new(compiler).args(["-O1", "-o"]).arg(&program).arg(&text).args(flags).status().ok()?;
        assert!(made.success(), "{name} does not compile");
        Some(program)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The command as a user without rights; only root can become one.
pub fn as_nobody(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"); // not a private home's programs
    command
}

/// Starts its arguments under a filter that refuses process_vm_readv.
pub const WITHOUT_READ: &str = "
#include <stddef.h>
#include <errno.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
int main(int count, char **words) {
    struct sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_process_vm_readv},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog filter = {4, code};
    if (count < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 9;
    execv(words[1], words + 1);
    return 9;
}";
