// SPDX-License-Identifier: MIT
//! The terminal: taken over, and given back whatever ends the tool.

use anyhow::{Context, Result};
use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// The signal that asked for the end; 0: none.
static ENDED_BY: AtomicI32 = AtomicI32::new(0);
/// The longest that a signal waits.
const LOOK: Duration = Duration::from_millis(200);

/// A terminal that has gone (ssh was cut off, a window was closed) is an endless file of nothing, which crossterm reads
/// for ever. There is nothing to give back to either.
fn terminal_has_gone() -> bool {
    let mut output = libc::pollfd { fd: libc::STDOUT_FILENO, events: 0, revents: 0 };
    // SAFETY: poll(2) of one descriptor, without waiting; it may be called in a signal handler.
    unsafe { libc::poll(&mut output, 1, 0) };
    output.revents & libc::POLLHUP != 0
}

extern "C" fn note(signal: i32) {
    if signal == libc::SIGHUP && terminal_has_gone() {
        // SAFETY: it may be called in a signal handler.
        unsafe { libc::_exit(128 + signal) };
    }
    ENDED_BY.store(signal, Ordering::Relaxed);
}

pub struct Screen {
    pub terminal: DefaultTerminal,
}

#[derive(Debug, PartialEq)]
pub enum Seen {
    Key(KeyCode),
    Resized,
    Time,
    /// A signal of this number; 0: ctrl-c.
    End(i32),
}

impl Screen {
    pub fn open() -> Result<Screen> {
        let action = SigAction::new(SigHandler::Handler(note), SaFlags::empty(), SigSet::empty());
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
            // SAFETY: the handler stores one atomic number, or ends the tool at once.
            unsafe { sigaction(signal, &action) }?;
        }
        Ok(Screen { terminal: ratatui::try_init().context("cannot take over the terminal")? })
    }

    /// The next thing that happens, at `until` at the latest.
    pub fn wait(&self, until: Instant) -> Result<Seen> {
        loop {
            let ended = ENDED_BY.load(Ordering::Relaxed);
            if ended != 0 {
                return Ok(Seen::End(ended));
            }
            let left = until.saturating_duration_since(Instant::now());
            match event::poll(left.min(LOOK)) {
                Ok(true) => {} // also when it is late: keys come first
                Ok(false) if left.is_zero() => return Ok(Seen::Time),
                Ok(false) => continue,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Release => {}
                Event::Key(key) if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') => {
                    return Ok(Seen::End(0));
                }
                Event::Key(key) => return Ok(Seen::Key(key.code)),
                Event::Resize(..) => return Ok(Seen::Resized),
                _ => {}
            }
        }
    }
}

/// Also after an error; and ratatui's hook does so before a panic ends the tool.
impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
