// SPDX-License-Identifier: MIT
//! What the tool writes: results to standard output, where a loss is an error, and remarks to standard error, where it
//! is none.

use anyhow::{anyhow, Error, Result};
use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether whoever started the tool ignores SIGPIPE, as Rust's runtime does from main's start on.
static WAS_IGNORED: AtomicBool = AtomicBool::new(false);

#[used]
#[link_section = ".init_array"]
static BEFORE_THE_RUNTIME: extern "C" fn() = note;

extern "C" fn note() {
    // SAFETY: all zeros are a sigaction, which is only read into.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let known = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut now) };
    WAS_IGNORED.store(known == 0 && now.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
}

/// Rust starts programs with SIGPIPE ignored. With the default action whoever closes the pipe, as `head` does, ends the
/// tool without a word. Programs that it measures have the default action in either case.
pub fn end_with_the_reader() {
    // SAFETY: sets a default action before there is another thread.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// The program will have the action of SIGPIPE that whoever started the tool has chosen.
pub fn pass_on_sigpipe(command: &mut Command) {
    let as_it_was = || {
        if WAS_IGNORED.load(Ordering::Relaxed) {
            // SAFETY: one system call.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes one system call.
    unsafe { command.pre_exec(as_it_was) };
}

/// Whether the terminal can place text, as far as its name (TERM) says.
pub fn places_text() -> bool {
    std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb")
}

pub fn say(text: impl Display) -> Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{}", plain(&text.to_string())).and_then(|()| out.flush()).map_err(not_written)
}

pub fn remark(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", plain(&text.to_string()));
}

/// Names of processes, threads and functions are whatever other users wrote: what would steer a terminal is shown as ?.
fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', "?")
}

/// A name that others gave, as part of a line or of a file of any form: as `ps` shows it.
pub fn name(text: &str) -> String {
    let is_wrong = |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'); // those are none in XML either
    text.replace(is_wrong, "?")
}

pub fn not_written(error: io::Error) -> Error {
    let reason = error.to_string();
    let reason = reason.split(" (os error").next().unwrap_or_default();
    anyhow!("cannot write to standard output: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(plain("a\t\x1b[31mé\u{9b}2J\r\x7f\n"), "a\t?[31mé?2J??\n");
    }

    #[test]
    fn a_name_is_part_of_a_line() {
        assert_eq!(name("a b\t\n\x1b[31mé\u{ffff}\x7f"), "a b???[31mé??");
    }

    #[test]
    fn the_reason_has_no_number() {
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(not_written(full).to_string(), "cannot write to standard output: No space left on device");
    }
}
