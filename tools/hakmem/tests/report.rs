// SPDX-License-Identifier: MIT
//! `hakmem run --report`: a program that ends, also by a signal, leaves a page of where its memory was from.

mod running;

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use running::{hakmem, skipped, stderr, until, Folder, Running, LIBRARY, TOOL};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Keeps 8 MiB of 16, and ends as its argument says.
const PROGRAM: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *kept[64], *dropped[64];
static void said(int signal) { (void)signal; _exit(9); }
__attribute__((noinline)) void keeps(void) {
    for (int i = 0; i < 64; i++)
        memset(kept[i] = malloc(128 << 10), 1, 128 << 10);
}
static void drops(void) {
    for (int i = 0; i < 64; i++)
        memset(dropped[i] = malloc(128 << 10), 1, 128 << 10);
    for (int i = 0; i < 64; i++)
        free(dropped[i]);
}
int main(int count, char **words) {
    if (count < 2)
        return 1;
    keeps();
    drops();
    if (strcmp(words[1], "exit") == 0)
        return 3;
    if (strcmp(words[1], "children") == 0) {
        for (int i = 0; i < 3; i++)
            if (fork() == 0)
                exit(0);
        sleep(1);
        return 0;
    }
    if (strcmp(words[1], "handles") == 0)
        signal(SIGTERM, said);
    printf("%d\n", (int)getpid());
    fflush(stdout);
    for (;;)
        pause();
}"#;

struct Case {
    folder: Folder,
    program: PathBuf,
}

impl Case {
    fn new(name: &str) -> Case {
        let folder = Folder::new(&format!("report-{name}"));
        let program = folder.program("keeper", PROGRAM, &["-g", "-fno-optimize-sibling-calls"]);
        Case { folder, program }
    }

    fn command(&self, file: &str, how: &str) -> Command {
        let mut command = Command::new(TOOL);
        command.args(["run", "--library", LIBRARY, "--profile=4K", "--report"]).arg(self.folder.0.join(file));
        command.arg("--").arg(&self.program).arg(how).env("TMPDIR", &self.folder.0).stderr(Stdio::piped());
        command
    }

    fn output(&self, file: &str, how: &str) -> Output {
        self.command(file, how).output().unwrap()
    }

    /// The tool, and the program that runs under it and has its memory.
    fn running(&self, how: &str) -> (Running, Pid) {
        let said = self.folder.0.join("said");
        let mut command = self.command("page.html", how);
        command.process_group(0); // one that the kernel lets a signal of a terminal stop
        let tool = command.stdout(fs::File::create(&said).unwrap()).spawn().unwrap();
        let tool = Running(tool);
        let mut pid = None;
        until("the program never had its memory", || {
            pid = fs::read_to_string(&said).unwrap().trim().parse().ok();
            pid.is_some()
        });
        (tool, Pid::from_raw(pid.unwrap()))
    }

    fn page(&self) -> String {
        fs::read_to_string(self.folder.0.join("page.html")).unwrap_or_default()
    }

    /// The page names the function, and nothing else was left behind. One that ends by itself tells of its end.
    fn leaves_a_page(&self, has_ended: bool) {
        let page = self.page();
        assert!(page.contains("\"keeps\"") && page.contains("8.0 MiB"), "{page}");
        let is_of_end = page.contains(" in use at the peak, 8.0 MiB in the end");
        assert_eq!(is_of_end, has_ended, "{page}");
        assert!(page.contains("</i>cached<") && page.contains("</i>given back<"), "{page}");
        let others = fs::read_dir(&self.folder.0).unwrap().flatten().map(|entry| entry.file_name());
        let others: Vec<_> = others.filter(|name| name.to_string_lossy().starts_with("hakmem-run-")).collect();
        assert!(others.is_empty(), "{others:?}");
    }
}

fn ended(mut tool: Running) -> Option<i32> {
    let mut status = None;
    until("the tool did not end", || {
        status = tool.0.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code()
}

#[test]
fn a_program_that_ends_leaves_a_page_and_its_status() {
    let case = Case::new("exit");
    let output = case.output("page.html", "exit");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(stderr(&output).contains("hakmem: wrote "), "{output:?}");
    case.leaves_a_page(true);
    opens_in_a_browser(&case.folder.0.join("page.html"));
}

/// With its script run, the page has the function in its flame graph.
fn opens_in_a_browser(page: &Path) {
    let mut command = Command::new("chromium-headless-shell");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]);
    let data = page.parent().unwrap().join("browser");
    command.arg(format!("--user-data-dir={}", data.display())).arg(format!("file://{}", page.display()));
    match command.stderr(Stdio::null()).output() {
        Ok(output) => {
            let shown = running::stdout(&output);
            assert!(shown.contains("title=\"keeps: 8.0 MiB"), "{shown}");
        }
        Err(_) => skipped("the page in a browser", "there is no chromium-headless-shell"),
    }
}

#[test]
fn one_that_is_told_to_end_leaves_a_page() {
    let case = Case::new("term");
    let (tool, _) = case.running("waits");
    kill(Pid::from_raw(tool.0.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(ended(tool), Some(128 + Signal::SIGTERM as i32));
    case.leaves_a_page(false);
}

/// Whatever may be sent; one of them ends the program by a number without a name.
#[test]
fn each_signal_goes_to_the_program() {
    let case = Case::new("signals");
    let others = [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF, libc::SIGIO, libc::SIGPWR];
    for signal in others.into_iter().chain([libc::SIGRTMIN(), libc::SIGRTMAX()]) {
        let (tool, _) = case.running("waits");
        // SAFETY: a signal to a child of this test.
        assert_eq!(unsafe { libc::kill(tool.0.id() as i32, signal) }, 0);
        assert_eq!(ended(tool), Some(128 + signal), "{signal}");
        case.leaves_a_page(false);
    }
}

#[test]
fn both_stop_and_go_on() {
    let case = Case::new("stop");
    let (tool, program) = case.running("waits");
    let (id, program) = (Pid::from_raw(tool.0.id() as i32), program.to_string());
    let is = |state: &str| {
        [tool.id(), program.clone()].iter().all(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            stat.split(") ").nth(1).is_some_and(|rest| rest.starts_with(state))
        })
    };
    kill(id, Signal::SIGTSTP).unwrap();
    until("they never stop", || is("T"));
    kill(id, Signal::SIGCONT).unwrap();
    until("they never go on", || is("S"));
    kill(id, Signal::SIGTERM).unwrap();
    assert_eq!(ended(tool), Some(128 + Signal::SIGTERM as i32));
}

#[test]
fn its_own_handlers_get_the_signal() {
    let case = Case::new("handles");
    let (tool, _) = case.running("handles");
    kill(Pid::from_raw(tool.0.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(ended(tool), Some(9));
    case.leaves_a_page(false);
}

/// By somebody who does not ask the tool: what it was when it was last looked at.
#[test]
fn one_that_is_killed_leaves_a_page() {
    let case = Case::new("kill");
    let (tool, program) = case.running("waits");
    std::thread::sleep(Duration::from_secs(3));
    kill(program, Signal::SIGKILL).unwrap();
    assert_eq!(ended(tool), Some(128 + Signal::SIGKILL as i32));
    case.leaves_a_page(false);
}

#[test]
fn its_children_leave_nothing() {
    let case = Case::new("children");
    let output = case.output("page.html", "children");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    case.leaves_a_page(true);
}

/// Of the end, which nobody has seen from outside.
#[test]
fn it_says_where_memory_was_in_the_end() {
    let case = Case::new("figures");
    case.output("end.json", "exit");
    let text = fs::read_to_string(case.folder.0.join("end.json")).unwrap();
    let profiles: serde_json::Value = serde_json::from_str(&text).unwrap();
    let memory = &profiles["memory"];
    let of = |name: &str| memory[name].as_u64().unwrap_or_else(|| panic!("{name}: {text}"));
    let kept = of("cached") + of("fragmented") + of("retained") + of("metadata");
    assert_eq!(of("resident"), of("live") - of("untouched") + kept, "{text}");
    assert!((8 << 20..9 << 20).contains(&of("live")), "{text}");
    assert!(kept - of("metadata") + of("given_back") >= 8 << 20, "{text}");
}

#[test]
fn the_ending_tells_the_form() {
    let case = Case::new("forms");
    assert_eq!(case.output("stacks.folded", "exit").status.code(), Some(3));
    let text = fs::read_to_string(case.folder.0.join("stacks.folded")).unwrap();
    assert!(text.lines().any(|line| line.contains("main;keeps ")), "{text}");
    let output = case.output("page.pdf", "exit");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains("the name tells the form"), "{output:?}");
    let file = case.folder.0.join("x").to_string_lossy().into_owned();
    let twice = hakmem(&["run", &format!("--profile=1,out={file}"), "--report", "x.html", "--", "true"]);
    assert_eq!(twice.status.code(), Some(2), "{twice:?}");
    assert!(stderr(&twice).contains("name one file for the profile"), "{twice:?}");
}

/// Too short to be looked at, and at its end it writes nothing.
#[test]
fn what_leaves_no_page_is_told_with_its_cause() {
    let folder = Folder::new("report-none");
    let page = folder.0.join("page.html");
    for (how, status, cause) in
        [("_exit(7)", 7, "the program ended by _exit"), ("raise(9)", 137, "the program was ended by SIGKILL")]
    {
        let source = format!("#include <signal.h>\n#include <unistd.h>\nint main(void) {{ {how}; }}");
        let program = folder.program("short", &source, &[]);
        let [page, program] = [&page, &program].map(|path| path.to_str().unwrap());
        let output = hakmem(&["run", "--library", LIBRARY, "--report", page, "--", program]);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert!(stderr(&output).contains(cause), "{output:?}");
    }
}

/// Before the hours that the program may take.
#[test]
fn a_place_without_a_folder_is_told_first() {
    let case = Case::new("nowhere");
    let output = case.output("no/such/page.html", "exit");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("cannot write "), "{output:?}");
}

/// The program's status counts; without one that tells of an error, the tool's. What it wrote itself is not lost.
#[test]
fn a_page_that_cannot_be_written_is_told() {
    let case = Case::new("too-long");
    let name = "a".repeat(245) + ".html"; // the file that it is written into first has a longer one
    for (how, status) in [("exit", 3), ("children", 1)] {
        let output = case.output(&name, how);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        let said = stderr(&output);
        assert!(said.contains("cannot write "), "{said}");
        let (_, rest) = said.split_once("own profile is ").unwrap_or_else(|| panic!("{said}"));
        let table = running::stdout(&hakmem(&["heap", rest.split_once(';').unwrap().0]));
        assert!(table.contains("keeps < main"), "{table}");
    }
}

#[test]
fn without_proc_it_is_said_before() {
    if !running::may_mount_apart("a report without /proc") {
        return;
    }
    let folder = Folder::new("report-proc");
    let script = "mount -t tmpfs none /proc && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh", TOOL, "run", "--library", LIBRARY]);
    let output = command.arg("--report").arg(folder.0.join("page.html")).args(["--", "true"]).output().unwrap();
    assert!(stderr(&output).starts_with("hakmem: /proc is not mounted"), "{output:?}");
}
