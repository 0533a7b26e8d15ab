// SPDX-License-Identifier: MIT
//! HAKMEM_CONTROL: a process is asked through a socket, at once where it is idle, and where nobody may look into it.

mod running;

use running::{
    as_nobody, hakmem, is_root, json, skipped, sleeping, started, stderr, stdout, until, Folder, Running, ARCHIVE,
    LIBRARY, TOOL, WITHOUT_READ,
};
use nix::sys::socket::{connect, socket, AddressFamily, SockFlag, SockType, UnixAddr};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|of| of.file_type().is_socket())
}

fn idle(folder: &Folder) -> (Running, PathBuf) {
    let child = sleeping(&["--control", &format!("{}/%p", folder.0.display())]);
    let path = folder.0.join(child.id());
    until("the socket never came", || is_socket(&path));
    (child, path)
}

/// Of a few tries the quickest: a loaded machine may be late once.
fn soon(arguments: &[&str], expected: &str) {
    let mut took = Duration::MAX;
    for _ in 0..5 {
        let begin = Instant::now();
        let output = hakmem(arguments);
        took = took.min(begin.elapsed());
        assert!(output.status.success() && stdout(&output).contains(expected), "{arguments:?}: {output:?}");
    }
    assert!(took < Duration::from_millis(500), "{arguments:?}: {took:?}");
}

#[test]
fn an_idle_process_answers_at_once() {
    let folder = Folder::new("socket-idle");
    let (child, path) = idle(&folder);
    let id = &child.id()[..];
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    soon(&["trim", id], "gave back");
    soon(&["limit", id, "1G"], "has taken over the limits");
    soon(&["options", "--set", "PURGE_DELAY=250", id], "has taken over PURGE_DELAY=250");
    soon(&["stats", "--exact", id], "of one moment");
    soon(&["profile", "--every", "64K", "--for", "1ms", id], "a sample each 64.0 KiB");
    let refused = hakmem(&["options", "--set", "PURGE_DELAY=soon", id]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

/// More than are kept, and than wait to be accepted.
#[test]
fn silent_connections_keep_nobody_waiting() {
    let folder = Folder::new("socket-silent");
    let (child, path) = idle(&folder);
    let silent = || {
        let kind = (AddressFamily::Unix, SockType::SeqPacket);
        let stream = socket(kind.0, kind.1, SockFlag::SOCK_CLOEXEC, None).unwrap();
        connect(stream.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        stream
    };
    let took = (0..5).map(|_| {
        let _guests: Vec<_> = (0..20).map(|_| silent()).collect();
        let begin = Instant::now();
        let output = hakmem(&["trim", &child.id()]);
        assert!(stdout(&output).contains("gave back"), "{output:?}");
        begin.elapsed()
    });
    let took = took.min().unwrap();
    assert!(took < Duration::from_millis(500), "{took:?}");
}

/// All of resident memory is accounted for, at the same moment; and from outside it looks the same.
#[test]
fn exact_statistics_add_up() {
    let folder = Folder::new("socket-exact");
    let (child, _) = idle(&folder);
    let live = || running::figure(&child.id(), "live");
    let mut exact = serde_json::Value::Null;
    until("its blocks never stood still", || {
        let before = live(); // the program may be at its start yet
        exact = json(&hakmem(&["stats", "--exact", "--json", &child.id()]));
        before == live()
    });
    let value = |name: &str| exact[name].as_u64().unwrap_or_else(|| panic!("no {name} in {exact}"));
    assert_eq!(exact["depth"], "exact");
    assert_eq!(exact["process"].as_u64().unwrap().to_string(), child.id());
    let parts = ["live", "cached", "fragmented", "retained", "metadata"].iter().map(|name| value(name)).sum::<u64>();
    assert_eq!(parts - value("untouched"), value("resident"), "{exact}");
    assert_eq!(value("live"), live());
}

/// Without a socket it follows when it allocates, and one that does not says so.
#[test]
fn exact_statistics_without_a_socket() {
    let child = sleeping(&[]);
    let output = hakmem(&["stats", "--exact", &child.id()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("did not come to it within 2 s"), "{output:?}");
    let folder = Folder::new("socket-none");
    let source = "#include <stdlib.h>\nint main(void) { for (;;) { void *volatile p = malloc(5000); free(p); } }";
    let mut command = Command::new(folder.program("busy", source, &[]));
    command.env("LD_PRELOAD", LIBRARY);
    let child = started(command, running::is_read);
    soon(&["stats", "--exact", &child.id()], "of one moment");
}

#[test]
fn the_program_has_no_descriptor_of_it() {
    let folder = Folder::new("socket-files");
    let (child, _) = idle(&folder);
    let files = |id: &str| fs::read_dir(format!("/proc/{id}/fd")).unwrap().flatten().count();
    let other = sleeping(&[]);
    // A program that has only just begun reads files of its own.
    until("the program has files that it did not open", || files(&child.id()) == files(&other.id()));
}

/// As under Yama or in another container: memory may not be read, and the socket does.
#[test]
fn who_may_not_look_may_ask() {
    let folder = Folder::new("socket-ask");
    let (child, _) = idle(&folder);
    let launcher = folder.program("launcher", WITHOUT_READ, &[]);
    let id = child.id();
    let blind = |arguments: &[&str]| Command::new(&launcher).arg(TOOL).args(arguments).output().unwrap();
    assert_eq!(blind(&["stats", &id]).status.code(), Some(3));
    for (arguments, expected) in [
        (&["stats", "--exact", &id][..], "of one moment"),
        (&["trim", &id], "gave back"),
        (&["options", "--set", "PURGE_DELAY=77", &id], "has taken over PURGE_DELAY=77"),
        (&["profile", "--every", "4K", "--for", "10ms", &id], "a sample each 4.0 KiB"),
        (&["profile", "--stop", &id], "was not sampled"),
        (&["heap", &id], "sampled for"),
    ] {
        let output = blind(arguments);
        assert!(output.status.success() && stdout(&output).contains(expected), "{arguments:?}: {output:?}");
    }
    let none = sleeping(&[]);
    assert_eq!(blind(&["trim", &none.id()]).status.code(), Some(3));
}

const ASK: &str = "
import socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(20)
s.connect(sys.argv[1])
s.send(struct.pack('5Q256s', 1, 0, 0, 0, 0, b'')[:int(sys.argv[2])])
got = s.recv(100)
print('status', struct.unpack('qQ', got)[0] if got else 'none')
";

fn asked(mut python: Command, path: &Path, bytes: &str) -> Option<Output> {
    let output = python.args(["-c", ASK, path.to_str().unwrap(), bytes]).output().ok()?;
    if !output.status.success() {
        eprintln!("{output:?}");
    }
    output.status.success().then_some(output)
}

/// Whoever the file lets in: the process looks at who it is. A message that is none ends the conversation alone.
#[test]
fn another_user_is_refused() {
    let folder = Folder::new("socket-user");
    let (child, path) = idle(&folder);
    let Some(own) = asked(Command::new("python3"), &path, "296") else {
        return skipped("raw messages", "there is no python3");
    };
    assert!(stdout(&own).contains("status 0"), "{own:?}");
    let short = asked(Command::new("python3"), &path, "100").unwrap();
    assert!(stdout(&short).contains("status none"), "{short:?}");
    if !is_root() {
        return skipped("another user's order", "only root can become another user");
    }
    assert!(asked(as_nobody("python3"), &path, "296").is_none(), "the mode of the socket lets nobody else in");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let refused = asked(as_nobody("python3"), &path, "296").unwrap();
    assert!(stdout(&refused).contains(&format!("status {}", libc::EPERM)), "{refused:?}");
    soon(&["trim", &child.id()], "gave back");
}

/// Names that nobody listens at are taken over, other files never; the name goes with the process.
#[test]
fn names_that_are_there() {
    let folder = Folder::new("socket-names");
    let path = folder.0.join("one");
    let flags = ["--control", path.to_str().unwrap()];
    drop(sleeping(&flags)); // killed: the name stays
    assert!(is_socket(&path));
    let (left, first) = (fs::metadata(&path).unwrap(), sleeping(&flags));
    use std::os::unix::fs::MetadataExt;
    until("the name was never taken over", || fs::metadata(&path).is_ok_and(|of| of.ctime_nsec() != left.ctime_nsec()));
    soon(&["trim", &first.id()], "gave back");
    let ends = |path: &Path| {
        let mut command = Command::new("sleep");
        command.arg("0.1").env("LD_PRELOAD", LIBRARY).env("HAKMEM_CONTROL", path).output().unwrap()
    };
    assert_eq!(stderr(&ends(&path)), "", "the first one keeps the name, and its children say nothing of it");
    soon(&["trim", &first.id()], "gave back");
    let file = folder.0.join("file");
    fs::write(&file, "mine").unwrap();
    let said = stderr(&ends(&file));
    assert!(said.contains("/file: something else has that name"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(stderr(&ends(&folder.0.join("two"))), "");
    assert!(!folder.0.join("two").exists(), "the process that ends takes its name away");
    let said = stderr(&ends(&folder.0.join("no/such/folder")));
    assert!(said.contains("HAKMEM_CONTROL: cannot listen at ") && said.contains("no such file or folder"), "{said}");
}

/// Forks without end while it is asked, makes a namespace of its own, and has a child that allocates.
const FORKS: &str = "
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], \"unshare\") == 0) {
        sleep(1);
        return unshare(CLONE_NEWUSER) == 0 ? 0 : 7;
    }
    if (fork() == 0) {
        for (int i = 0; i < 10000; i++) { void *volatile block = malloc(5000); free(block); }
        for (;;) pause();
    }
    for (;;) {
        int status = 0;
        pid_t made = fork();
        if (made == 0) _exit(0);
        if (waitpid(made, &status, 0) != made || status != 0) return 8;
        usleep(500);
    }
}";

#[test]
fn children_have_their_own() {
    let folder = Folder::new("socket-fork");
    let program = folder.program("forks", FORKS, &[]);
    let mut command = Command::new(&program);
    command.env("LD_PRELOAD", LIBRARY).env("HAKMEM_CONTROL", folder.0.join("at.%p"));
    let parent = started(command, |id| is_socket(&folder.0.join(format!("at.{id}"))));
    let others = || {
        let names = fs::read_dir(&folder.0).unwrap().flatten().map(|of| of.file_name().into_string().unwrap());
        let ids = names.filter_map(|name| name.strip_prefix("at.").map(str::to_string));
        ids.filter(|id| *id != parent.id()).collect::<Vec<_>>()
    };
    until("the child that allocates has none", || others().len() == 1);
    let child = others().remove(0);
    for id in [&parent.id(), &child].into_iter().cycle().take(40) {
        let exact = json(&hakmem(&["stats", "--exact", "--json", id]));
        assert_eq!(exact["process"].as_u64().unwrap().to_string(), *id);
    }
    soon(&["trim", &child], "gave back");
    assert!(Path::new(&format!("/proc/{}", parent.id())).exists(), "a fork went wrong");
    let _ = Command::new("kill").arg(&child).status();
}

#[test]
fn it_leaves_when_the_process_must_be_alone() {
    let folder = Folder::new("socket-alone");
    let program = folder.program("forks", FORKS, &[]);
    let run = |control: bool| {
        let mut command = Command::new(&program);
        command.arg("unshare").env("LD_PRELOAD", LIBRARY);
        if control {
            command.env("HAKMEM_CONTROL", folder.0.join("alone"));
        }
        command.output().unwrap()
    };
    if run(false).status.code() != Some(0) {
        return skipped("unshare", "this machine does not let this user make a user namespace");
    }
    let output = run(true);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// A program with another's rights listens to nobody. Linked in, as the loader ignores LD_PRELOAD there.
#[test]
fn programs_with_others_rights_have_none() {
    if !is_root() {
        return skipped("set-uid", "only root can give a program away");
    }
    let folder = Folder::new("socket-setuid");
    let program = folder.program("wait", "#include <stdlib.h>\n#include <unistd.h>\nint main(void) { void *volatile block = malloc(100); free(block); sleep(2); return 0; }", &[ARCHIVE]);
    let place = folder.0.join("open");
    fs::create_dir(&place).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    let path = place.join("socket");
    let seen = |mode: u32| {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        let _child = Running(as_nobody(&program).env("HAKMEM_CONTROL", &path).spawn().unwrap());
        std::thread::sleep(Duration::from_secs(1));
        let there = is_socket(&path);
        let _ = fs::remove_file(&path);
        there
    };
    assert!(seen(0o755), "without the bit there is one");
    assert!(!seen(0o4755));
}

/// The tool finds where the thread listens however the process was told: here nothing is in the environment.
#[test]
fn a_path_that_is_compiled_in_is_found() {
    let folder = Folder::new("socket-compiled");
    let source = format!(
        "#include <stdlib.h>\n#include <unistd.h>\nconst char hak_default_options[] = \"CONTROL={}/%p\";\n\
         int main(void) {{ void *volatile block = malloc(100); free(block); sleep(600); return 0; }}",
        folder.0.display()
    );
    let child = started(Command::new(folder.program("compiled", &source, &[ARCHIVE])), running::is_read);
    until("the socket was never found", || stdout(&hakmem(&["trim", &child.id()])).contains("gave back"));
    soon(&["trim", &child.id()], "gave back");
}

/// A thread of the program's with one descriptor, at which it listens, is not asked.
#[test]
fn a_socket_of_the_program_is_left_alone() {
    let folder = Folder::new("socket-program");
    let path = folder.0.join("own");
    let source = format!(
        "#include <stdlib.h>\n#include <string.h>\n#include <sys/socket.h>\n#include <sys/un.h>\n#include <unistd.h>\n\
         int main(void) {{\n\
             struct sockaddr_un at = {{AF_UNIX, \"{}\"}};\n\
             for (int fd = 0; fd < 3; fd++) close(fd);\n\
             void *volatile block = malloc(100); free(block);\n\
             int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);\n\
             return bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 1) || accept(fd, 0, 0) >= 0 || sleep(600);\n\
         }}",
        path.display()
    );
    let mut command = Command::new(folder.program("listens", &source, &[]));
    command.env("LD_PRELOAD", LIBRARY);
    let mut child = started(command, running::is_read);
    until("it never listened", || is_socket(&path));
    assert!(stderr(&hakmem(&["trim", &child.id()])).contains("did not come to it"));
    assert!(child.0.try_wait().unwrap().is_none(), "it was connected to");
}

/// The socket is the parent's where the name has no %p: a child that has inherited it is asked by its memory.
#[test]
fn a_child_is_not_asked_by_the_socket_of_its_parent() {
    let folder = Folder::new("socket-parent");
    let (path, file) = (folder.0.join("one"), folder.0.join("child"));
    let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("LD_PRELOAD", LIBRARY).env("HAKMEM_CONTROL", &path);
    let parent = started(command, |_| is_socket(&path) && file.exists());
    let child = fs::read_to_string(&file).unwrap().trim().to_string();
    until("the child never ran on hakmem", || running::is_read(&child));
    let said = hakmem(&["limit", &child, "3G"]);
    assert!(stderr(&said).contains("did not come to it yet"), "{said:?}");
    assert_eq!(running::figure(&parent.id(), "limit_soft"), 0, "the parent has taken it over");
    soon(&["trim", &parent.id()], "gave back");
    let _ = Command::new("kill").arg(&child).status();
}

/// A process of many threads is not searched for a socket that its options do not have.
#[test]
fn many_threads_without_a_socket_take_no_time() {
    let folder = Folder::new("socket-threads");
    let source = "#include <pthread.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        static void *sleeps(void *unused) { for (;;) pause(); return unused; }\n\
        int main(void) {\n\
            pthread_t made;\n\
            pthread_attr_t small;\n\
            pthread_attr_init(&small);\n\
            pthread_attr_setstacksize(&small, 65536);\n\
            for (int i = 0; i < 400; i++) dup(0);\n\
            for (int i = 0; i < 300; i++) if (pthread_create(&made, &small, sleeps, 0)) return 1;\n\
            for (;;) { void *volatile block = malloc(5000); free(block); }\n\
        }";
    let mut command = Command::new(folder.program("threads", source, &["-pthread"]));
    command.env("LD_PRELOAD", LIBRARY);
    let child = started(command, running::is_read);
    soon(&["trim", &child.id()], "gave back");
}
