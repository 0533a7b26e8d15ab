// SPDX-License-Identifier: MIT
//! `hakmem top` in a terminal of this test's: what it shows, that it gives the terminal back whatever ends it, and what
//! it costs.

mod running;

use nix::fcntl::{fcntl, FcntlArg, FdFlag};
use nix::pty::{openpty, OpenptyResult, Winsize};
use nix::sys::signal::{kill, Signal};
use nix::sys::termios::{tcgetattr, LocalFlags};
use nix::unistd::Pid;
use running::{hakmem, started, stderr, Folder, Running, LIBRARY, TOOL};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

nix::ioctl_write_ptr_bad!(set_size, libc::TIOCSWINSZ, Winsize);
nix::ioctl_none_bad!(become_terminal, libc::TIOCSCTTY);

/// `hakmem top` on a terminal.
struct Top {
    tool: Running,
    keys: File,
    slave: OwnedFd,
    screen: Arc<Mutex<vt100::Parser>>,
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// The tool on a terminal of 80 by 24, which is its session's.
fn start_on_terminal(arguments: &[&str]) -> (OpenptyResult, Running) {
    start_on("xterm", &[&["top"], arguments].concat())
}

fn start_on(terminal: &str, arguments: &[&str]) -> (OpenptyResult, Running) {
    let pty = openpty(Some(&size(24, 80)), None).unwrap();
    fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
    fcntl(&pty.slave, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
    let end = || Stdio::from(pty.slave.try_clone().unwrap());
    let mut command = Command::new(TOOL);
    command.args(arguments).stdin(end()).stdout(end()).stderr(end()).env("TERM", terminal);
    // SAFETY: two system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            become_terminal(0)?;
            Ok(())
        });
    }
    let tool = Running(command.spawn().unwrap());
    (pty, tool)
}

impl Top {
    fn start(arguments: &[&str]) -> Top {
        let (pty, tool) = start_on_terminal(arguments);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 0)));
        let (mut output, shown) = (File::from(pty.master.try_clone().unwrap()), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..count]);
            }
        });
        Top { tool, keys: File::from(pty.master), slave: pty.slave, screen }
    }

    fn shown(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn until_shown(&self, text: &str) {
        let begin = Instant::now();
        while !self.shown().contains(text) {
            assert!(begin.elapsed() < Duration::from_secs(60), "no {text:?} in\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn resize(&mut self, rows: u16, columns: u16) {
        self.screen.lock().unwrap().set_size(rows, columns);
        // SAFETY: the terminal is open, and the size is there.
        unsafe { set_size(self.keys.as_raw_fd(), &size(rows, columns)) }.unwrap();
    }

    /// Ends by itself now; the terminal is as it was.
    fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        running::until("top did not end", || {
            status = self.tool.0.try_wait().unwrap();
            status.is_some()
        });
        let lines = tcgetattr(self.slave.as_fd()).unwrap().local_flags;
        assert!(lines.contains(LocalFlags::ICANON | LocalFlags::ECHO), "the terminal is left raw");
        running::until("the terminal is not given back", || {
            let parser = self.screen.lock().unwrap();
            !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
        });
        status.unwrap()
    }
}

const LEAKS: &str = "
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    for (;;) { memset(malloc(40000), 1, 40000); usleep(10000); }
}";

#[test]
fn top_tells_a_leak_at_80_by_24() {
    let folder = Folder::new("top-leak");
    let mut command = Command::new(folder.program("leaks", LEAKS, &[]));
    command.env("LD_PRELOAD", LIBRARY);
    let child = started(command, running::is_read);
    let mut top = Top::start(&["--every", "0.2", &child.id()]);
    top.until_shown(&format!("leaks ({})", child.id()));
    top.until_shown("LEAK? live grows by ");
    let shown = top.shown();
    for part in [
        "resident ",
        "█",
        "live ",
        "cached ",
        "fragmented ",
        "retained ",
        "metadata ",
        "block size",
        "allocs/s",
        "q quit  s sort: live",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    top.press("s");
    top.until_shown("s sort: growth");
    top.press("p");
    top.until_shown("PAUSED");
    top.press("q");
    assert!(top.ended().success());
}

#[test]
fn top_shows_sites_and_threads_of_a_process_that_is_sampled() {
    let folder = Folder::new("top-sites");
    let program = folder.program("leaks", LEAKS, &[]);
    for (profile, [sites, threads]) in
        [("4K", ["< __libc_start", "leaks ("]), ("off", ["there is no heap profile", "there is no heap profile"])]
    {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", LIBRARY).env("HAKMEM_PROFILE", profile);
        let child = started(command, |id| running::figure(id, "live") > 200_000);
        let mut top = Top::start(&["--every", "0.2", &child.id()]);
        top.until_shown("v view: sites");
        top.press("v");
        top.until_shown("v view: threads");
        top.until_shown(sites);
        top.press("v");
        top.until_shown("v view: classes");
        top.until_shown(threads);
        top.press("v");
        top.until_shown("block size");
        top.press("q");
        assert!(top.ended().success());
    }
}

#[test]
fn top_gives_the_terminal_back_on_every_exit() {
    let child = running::sleeping(&[]);
    let mut top = Top::start(&[&child.id()]);
    top.until_shown("% of resident is live");
    top.press("\x03");
    assert!(top.ended().success());
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let mut top = Top::start(&[&child.id()]);
        top.until_shown("% of resident is live");
        kill(Pid::from_raw(top.tool.0.id() as i32), signal).unwrap();
        assert_eq!(top.ended().code(), Some(128 + signal as i32));
    }
    let mut top = Top::start(&["--every", "0.2", &child.id()]);
    top.until_shown("% of resident is live");
    drop(child);
    assert_eq!(top.ended().code(), Some(1));
    top.until_shown("has ended");
}

/// As ssh does when it is cut off.
#[test]
fn top_ends_with_its_terminal() {
    let child = running::sleeping(&[]);
    let (pty, mut tool) = start_on_terminal(&[&child.id()]);
    let (mut shown, mut bytes) = (vt100::Parser::new(24, 80, 0), [0; 4096]);
    let mut output = File::from(pty.master);
    while !shown.screen().contents().contains("q quit") {
        let count = output.read(&mut bytes).unwrap();
        shown.process(&bytes[..count]);
    }
    drop((output, pty.slave));
    let mut status = None;
    running::until("top did not end", || {
        status = tool.0.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(128 + Signal::SIGHUP as i32));
}

#[test]
fn top_follows_the_size_of_the_terminal() {
    let child = running::sleeping(&[]);
    let mut top = Top::start(&[&child.id()]);
    top.until_shown("% of resident is live");
    for (rows, columns) in [(5, 20), (2, 3), (60, 200), (24, 80)] {
        top.resize(rows, columns);
        std::thread::sleep(Duration::from_millis(300));
    }
    top.until_shown("q quit  s sort");
    top.press("q");
    assert!(top.ended().success());
}

/// Not all keys fit; what fits is whole, and `?` shows all.
#[test]
fn top_shows_its_keys_in_40_columns() {
    let child = running::sleeping(&[]);
    let mut top = Top::start(&[&child.id(), "--every", "0.3"]);
    top.until_shown("esc back");
    top.resize(24, 40);
    top.until_shown("q quit  ? keys");
    let shown = top.shown();
    let line = shown.lines().find(|line| line.contains("q quit")).unwrap().trim_end().to_string();
    assert_eq!(line, "q quit  ? keys  s sort: live  p pause");
    top.press("?");
    top.until_shown("any key: back");
    for key in ["v        view: sites", "up/down  scroll", "esc      back"] {
        assert!(top.shown().contains(key), "no {key:?} in\n{}", top.shown());
    }
    top.press("x");
    top.until_shown("q quit  ? keys");
    top.press("?");
    top.until_shown("any key: back");
    top.press("q");
    assert!(top.ended().success());
}

#[test]
fn top_has_a_list_to_choose_processes_from() {
    let child = running::sleeping(&[]);
    let mut top = Top::start(&["--every", "0.3"]);
    top.until_shown(&child.id());
    top.until_shown("enter look into it");
    // Others come and go meanwhile, and with them the order: whoever was chosen instead is left again.
    running::until("the process is never chosen", || {
        top.until_shown("enter look into it");
        let shown = top.shown();
        let Some(row) = shown.lines().skip(2).position(|line| line.starts_with(&child.id())) else { return false };
        top.press(&("\x1b[A".repeat(40) + &"\x1b[B".repeat(row) + "\r"));
        top.until_shown("esc back");
        let chosen = top.shown().contains(&format!("sleep ({})", child.id()));
        if !chosen {
            top.press("\x1b");
        }
        chosen
    });
    top.press("\x1b");
    top.until_shown("enter look into it");
    top.press("q");
    assert!(top.ended().success());
}

#[test]
fn top_says_that_it_needs_a_terminal() {
    let output = hakmem(&["top"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("top needs a terminal"));
}

const THREADS: &str = "
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *run(void *unused) {
    for (;;) {
        void *some[20];
        for (int i = 0; i < 20; i++) some[i] = malloc(100 + 100 * i);
        for (int i = 0; i < 20; i++) free(some[i]);
        usleep(20000);
    }
    return unused;
}
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 100; i++) pthread_create(&thread, NULL, run, NULL);
    pause();
}";

/// Processor time that the process has used. `schedstat` is exact; the ticks of `stat` are samples.
fn used(id: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{id}/schedstat")).unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

/// A tool that was built without optimisation may cost more.
#[test]
fn top_costs_less_than_a_hundredth_of_a_processor_for_100_threads() {
    let folder = Folder::new("top-threads");
    let mut command = Command::new(folder.program("threads", THREADS, &["-pthread"]));
    command.env("LD_PRELOAD", LIBRARY);
    let child = started(command, |id| running::figure(id, "heaps_now") == 101);
    let mut top = Top::start(&[&child.id()]);
    top.until_shown("heaps 101");
    let window = || {
        let (begin, before) = (Instant::now(), used(top.tool.0.id()));
        std::thread::sleep(Duration::from_secs(5));
        (used(top.tool.0.id()) - before).as_secs_f64() / begin.elapsed().as_secs_f64()
    };
    // Others on the machine take caches and clock from it: the least of some windows is its own cost.
    let most = if cfg!(debug_assertions) { 0.10 } else { 0.01 };
    let mut share = f64::MAX;
    for _ in 0..6 {
        share = share.min(window());
        if share < most {
            break;
        }
    }
    assert!(share < most, "{share}");
    eprintln!("top: {:.2} % of a processor", share * 100.0);
    top.press("q");
    assert!(top.ended().success());
}

/// It gets no codes that it would show as they are.
#[test]
fn a_terminal_that_places_no_text_gets_none() {
    for terminal in ["dumb", ""] {
        let said = |arguments: &[&str]| {
            let (pty, mut tool) = start_on(terminal, arguments);
            let code = tool.0.wait().unwrap().code();
            drop(pty.slave);
            let (mut text, mut part) = (Vec::new(), [0; 4096]);
            let mut master = File::from(pty.master);
            while let Ok(length @ 1..) = master.read(&mut part) {
                text.extend_from_slice(&part[..length]);
            }
            (code, String::from_utf8(text).unwrap())
        };
        let (code, text) = said(&["top"]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("top needs a terminal that can place text"), "{text}");
        let child = running::sleeping(&[]);
        let (_, text) = said(&["profile", "--for", "1s", &child.id()]);
        assert!(text.is_ascii() && !text.contains('\x1b') && text.contains("allocated too little"), "{text}");
    }
}
