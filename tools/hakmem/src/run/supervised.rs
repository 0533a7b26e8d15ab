// SPDX-License-Identifier: MIT
//! A program as a child of this tool's, which passes on the signals that it gets itself.

use super::not_started;
use anyhow::{Context, Result};
use libc::c_int;
use nix::sys::signal::{raise, SigSet, SigmaskHow, Signal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Duration;

/// All others are passed on, but that of a child that has ended. These tell the tool of its own reader and terminal.
const ITS_OWN: [Signal; 3] = [Signal::SIGPIPE, Signal::SIGTTIN, Signal::SIGTTOU];

pub struct Supervised {
    pub pid: i32,
    child: Child,
    waited_for: SigSet,
}

pub enum Event {
    /// Nothing happened for so long.
    Nothing,
    /// A signal has come for the program, which has not got it yet.
    Signal(c_int),
    Ended(ExitStatus),
}

impl Supervised {
    /// The signals are held back from now on, but not from the program.
    pub fn start(mut command: Command) -> Result<Supervised> {
        let mut waited_for = SigSet::all();
        ITS_OWN.into_iter().for_each(|signal| waited_for.remove(signal));
        let before = waited_for.thread_swap_mask(SigmaskHow::SIG_BLOCK).context("cannot hold signals back")?;
        // SAFETY: one system call between fork and exec.
        unsafe { command.pre_exec(move || Ok(before.thread_set_mask()?)) };
        let child = command.spawn().map_err(|error| not_started(&command, &error))?;
        Ok(Supervised { pid: child.id() as i32, child, waited_for })
    }

    pub fn next(&mut self, patience: Duration) -> Result<Event> {
        if let Some(status) = self.ended()? {
            return Ok(Event::Ended(status));
        }
        Ok(match self.signal(patience) {
            Some(signal) => Event::Signal(signal),
            None => self.ended()?.map_or(Event::Nothing, Event::Ended),
        })
    }

    /// One that stops the program stops this as well, until both go on.
    pub fn pass_on(&self, signal: c_int) {
        // SAFETY: the child has not been waited for, so its number is its own.
        unsafe { libc::kill(self.pid, signal) };
        if signal == libc::SIGTSTP {
            stop();
        }
    }

    /// None: none came, or one that the program has got too, as all have that a terminal sends. A timer is the tool's
    /// alone: it was set before the tool began.
    fn signal(&self, patience: Duration) -> Option<c_int> {
        let time = libc::timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        // SAFETY: all zeros are a siginfo_t.
        let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: the three live until the call returns.
        let signal = unsafe { libc::sigtimedwait(self.waited_for.as_ref(), &mut about, &time) };
        let has_it = about.si_code == libc::SI_KERNEL && signal != libc::SIGALRM;
        if has_it && signal == libc::SIGTSTP {
            stop();
        }
        (signal > 0 && signal != libc::SIGCHLD && !has_it).then_some(signal)
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot wait for the program")
    }
}

/// As a shell tells it.
pub fn code(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1) as u8)
}

/// As it would without this: by the signal's default action, which the kernel leaves out where nobody is there to have
/// it go on.
fn stop() {
    let stops = SigSet::from(Signal::SIGTSTP);
    let _ = raise(Signal::SIGTSTP);
    let _ = stops.thread_unblock(); // here it stops
    let _ = stops.thread_block();
}
