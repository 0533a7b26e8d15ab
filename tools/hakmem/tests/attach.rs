// SPDX-License-Identifier: MIT
//! Processes are started on the library of this clone and looked into while they run.

mod running;

use running::{
    figure, hakmem, json, sleeping, started, stderr, stdout, until, Folder, Running, LIBRARY, TOOL,
};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

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
    for (program, code) in [("no-such-program", 127), ("/nonexistent", 127), ("/etc/passwd", 126), ("/etc", 126)] {
        assert_eq!(hakmem(&["run", "--", program]).status.code(), Some(code), "{program}");
        assert_eq!(hakmem(&["doctor", "--", program]).status.code(), Some(code), "{program}");
    }
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
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("allocated too little in that time to begin"), "{output:?}");
}

/// It is waited for while it is idle, before its look and behind it: whenever it ends, that alone is told.
#[test]
fn a_process_that_ends_while_it_is_waited_for_is_told_as_that() {
    for seconds in [1.0, 3.3] {
        let mut child = sleeping(&[]);
        let mut command = Command::new(TOOL);
        command.args(["profile", "--for", "1ms", &child.id()]).stderr(std::process::Stdio::piped());
        let look = command.spawn().unwrap();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        child.0.kill().unwrap();
        let output = look.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = stderr(&output);
        assert!(said.contains(&format!("process {} has ended", child.id())) && !said.contains("ESRCH"), "{said}");
    }
}

#[test]
fn a_process_that_nobody_has_waited_for_is_told_as_ended() {
    let mut child = sleeping(&[]);
    child.0.kill().unwrap();
    let id = child.id();
    until("it never ends", || !stderr(&hakmem(&["stats", &id])).is_empty());
    for arguments in [&["stats"][..], &["metrics"], &["heap"], &["profile", "--for", "1ms"], &["trim"]] {
        let output = hakmem(&[arguments, &[&id]].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = stderr(&output);
        assert!(said.contains(&format!("process {id} (sleep) has ended, and waits for its parent")), "{said}");
    }
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

/// In a container /proc/uptime may be the container's, while processes began by the host's.
#[test]
fn a_young_container_makes_no_process_young() {
    if !running::may_mount_apart("another /proc/uptime") {
        return;
    }
    let folder = Folder::new("attach-uptime");
    let file = folder.0.join("uptime");
    std::fs::write(&file, "1.00 1.00\n").unwrap();
    let child = Running(Command::new("sleep").arg("600").spawn().unwrap());
    let script = "mount --bind \"$0\" /proc/uptime || exit 77; exec timeout 20 \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(&file).args([running::TOOL, "stats", &child.id()]);
    let output = command.output().unwrap();
    if output.status.code() == Some(77) {
        return running::skipped("another /proc/uptime", "this machine does not let root mount over it");
    }
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

/// A record of a layout that is to come, as inspect/record.h has it.
const NEWER: &str = r#"
#include <unistd.h>
struct record { char magic[8]; unsigned size, layout; unsigned long version; const char *build; };
__attribute__((used)) const struct record record = {"hakmem\0", sizeof(struct record), 99, 990000, "hakmem 99"};
__asm__(".pushsection .note.hakmem, \"a\", %note\n .balign 4\n .long 7, 8, 1\n .asciz \"hakmem\"\n .balign 4\n"
        ".long 1\n .long record - .\n .popsection\n");
int main(void) { for (;;) pause(); }
"#;

#[test]
fn a_process_that_this_tool_cannot_read_is_told() {
    let folder = Folder::new("attach-newer");
    let child = Running(Command::new(folder.program("newer", NEWER, &["-fPIE", "-pie"])).spawn().unwrap());
    until("the record is never found", || stderr(&hakmem(&["stats", &child.id()])).contains("a record of layout 99"));
    for verb in ["ps", "metrics"] {
        let output = hakmem(&[verb]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(stderr(&output).contains("a record of layout 99"), "{output:?}");
    }
}

/// Its name steers a terminal and begins a line, and a file that it has mapped has a name of any bytes.
const NAMES: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void) {
    int file = open("a\xff", O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4096) != 0 || mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED)
        return 1;
    void *volatile kept = malloc(100);
    (void)kept;
    prctl(PR_SET_NAME, "\033[31m\n\t\377red");
    for (;;) pause();
}
"#;

#[test]
fn names_may_be_of_any_bytes() {
    let folder = Folder::new("attach-names");
    let mut command = Command::new(folder.program("names", NAMES, &[]));
    command.current_dir(&folder.0).env("LD_PRELOAD", LIBRARY).env("HAKMEM_PROFILE", "1");
    let child = running::started(command, |id| stdout(&hakmem(&["stats", id])).contains("red"));
    let ps = hakmem(&["ps"]);
    let line = stdout(&ps).lines().find(|line| line.contains(&child.id())).unwrap().to_string();
    assert!(line.contains("?[31m??\u{fffd}red"), "{line}");
    let svg = folder.0.join("names.svg");
    let heap = hakmem(&["heap", "-o", svg.to_str().unwrap(), &child.id()]);
    let text = std::fs::read_to_string(svg).unwrap_or_else(|_| panic!("{heap:?}"));
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(&text, options).unwrap_or_else(|error| panic!("{error}: {text}"));
    use std::os::unix::ffi::OsStrExt;
    let file = std::ffi::OsStr::from_bytes(b"a\xff");
    let heap = Command::new(running::TOOL).arg("heap").arg(file).current_dir(&folder.0).output().unwrap();
    assert!(stderr(&heap).contains("is no heap profile of hakmem's"), "{heap:?}");
}

#[test]
fn a_huge_block_is_part_of_the_peak_once() {
    let mut command = Command::new(TOOL);
    command.args(["run", "--library", LIBRARY, "--", "python3", "-c"]);
    command.arg("import time; block = bytearray(3 << 30); time.sleep(600)");
    let child = started(command, |id| figure(id, "live") >= 3 << 30);
    let (mapped, peak) = (figure(&child.id(), "mapped"), figure(&child.id(), "peak_mapped"));
    assert!(mapped >= 3 << 30 && mapped <= peak && peak < mapped + (1 << 30), "{mapped}, at most {peak}");
}

const MAPS: &str = "
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **words) {
    int file = open(words[count - 1], O_RDONLY);
    if (mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED) return 1;
    close(file); // its end would ask the file system
    for (;;) pause();
}";

/// A file system that a program serves.
struct Served {
    server: Running,
    at: PathBuf,
}

impl Served {
    /// None: this machine has no such thing.
    fn new(folder: &Folder) -> Option<Served> {
        let (from, at) = (folder.0.join("from"), folder.0.join("at"));
        fs::create_dir_all(&from).and_then(|()| fs::create_dir_all(&at)).unwrap();
        fs::write(from.join("data"), [1; 4096]).unwrap();
        let server = Running(Command::new("bindfs").arg("-f").args([&from, &at]).spawn().ok()?);
        let mut served = Served { server, at };
        until("the file system is never there", || {
            served.at.join("data").exists() || served.server.0.try_wait().unwrap().is_some()
        });
        served.at.join("data").exists().then_some(served)
    }

    fn stops(&self) {
        assert!(Command::new("kill").args(["-STOP", &self.server.id()]).status().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.0.kill(); // before it is unmounted: who waits for it goes on
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).status();
    }
}

#[test]
fn a_file_system_that_does_not_answer_keeps_no_look_waiting() {
    let folder = Folder::new("attach-stuck");
    let Some(served) = Served::new(&folder) else {
        return running::skipped("a file system that does not answer", "bindfs is not there, or may not mount");
    };
    let mut command = Command::new(folder.program("maps", MAPS, &[]));
    command.arg(served.at.join("data"));
    let maps = |id: &str| fs::read_to_string(format!("/proc/{id}/maps")).unwrap().contains("/at/data");
    let child = started(command, maps);
    served.stops();
    for arguments in [&["stats"][..], &["doctor"]] {
        let output = Command::new("timeout").args(["20", TOOL]).args(arguments).arg(child.id()).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{output:?}");
    }
}

/// The kernel keeps a process from mapping memory while it walks over a mapping for `smaps`, however large that is.
#[test]
fn a_look_counts_in_small_pieces() {
    let source = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
        int main(void) { memset(malloc(200 << 20), 1, 200 << 20); for (;;) pause(); }";
    let folder = Folder::new("attach-pieces");
    let mut command = Command::new(folder.program("large", source, &["-fno-builtin"]));
    command.env("LD_PRELOAD", LIBRARY);
    let child = started(command, |id| figure(id, "resident") >= 200 << 20);
    let calls = ["-f", "-e", "trace=openat,pread64,ioctl,clock_nanosleep", TOOL, "stats", &child.id()];
    let Ok(output) = Command::new("strace").args(calls).output() else {
        return running::skipped("the pieces of a look", "there is no strace");
    };
    let said = stderr(&output);
    assert!(said.contains("/pagemap") && !said.contains("/smaps"), "{said}");
    // By PAGEMAP_SCAN, for which older versions of strace have no name, or page by page.
    let scans = |line: &str| line.contains("PAGEMAP_SCAN") || line.contains("0x66, 0x10, 0x60");
    let large = |line: &str| line.contains("pread64") && line.contains(" = 65536") || scans(line);
    let lines = said.lines().filter(|line| !line.contains(" = -1 "));
    let lines: Vec<&str> = lines.filter(|line| large(line) || line.contains("nanosleep")).collect();
    let pairs = lines.windows(2).filter(|pair| large(pair[0])).map(|pair| pair[1].contains("nanosleep"));
    let paused: Vec<bool> = pairs.collect();
    assert!(paused.len() > 3 && paused.iter().all(|paused| *paused), "{said}");
}

const LEAVES: &str = "
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *goes_on(void *unused) {
    for (;;) { void *volatile block = malloc(5000); free(block); }
    return unused;
}
int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, 0, goes_on, 0)) return 1;
    pthread_exit(0);
}";

#[test]
fn a_process_whose_first_thread_has_ended_is_looked_into() {
    let folder = Folder::new("attach-leaves");
    let mut command = Command::new(folder.program("leaves", LEAVES, &["-pthread"]));
    command.env("LD_PRELOAD", LIBRARY);
    let first_has_ended = |id: &str| fs::read_to_string(format!("/proc/{id}/stat")).unwrap().contains(") Z ");
    let child = started(command, first_has_ended);
    assert!(figure(&child.id(), "resident") > 0);
    for arguments in [&["doctor"][..], &["trim"], &["profile", "--for", "100ms"]] {
        let output = hakmem(&[arguments, &[&child.id()]].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    assert!(stdout(&hakmem(&["metrics"])).contains(&format!("hakmem_live_bytes{{pid=\"{}\"", child.id())));
}
