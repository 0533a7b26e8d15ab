// SPDX-License-Identifier: MIT
//! What the tool writes: results to standard output, where a loss is an error, and remarks to standard error, where it
//! is none.

use anyhow::{anyhow, Error, Result};
use std::fmt::Display;
use std::io::{self, Write};

/// Rust starts programs with SIGPIPE ignored. With the default action whoever closes the pipe, as `head` does, ends the
/// tool without a word. Programs that it measures have the default action in either case.
pub fn end_with_the_reader() {
    // SAFETY: sets a default action before there is another thread.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
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
    fn the_reason_has_no_number() {
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(not_written(full).to_string(), "cannot write to standard output: No space left on device");
    }
}
