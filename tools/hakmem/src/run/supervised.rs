// SPDX-License-Identifier: MIT
//! A program as a child of this tool's, which passes on the signals that it gets itself.

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::signal::{kill, SigSet, SigmaskHow, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// What a terminal or an administrator sends. Terminals send theirs to the program as well.
const PASSED_ON: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

pub struct Supervised {
    pub pid: i32,
    waited_for: SigSet,
}

pub enum Event {
    /// Nothing happened for so long.
    Nothing,
    /// A signal has come for the program, which has not got it yet.
    Signal(Signal),
    Ended(ExitCode),
}

impl Supervised {
    /// The signals are held back from now on, but not from the program.
    pub fn start(mut command: Command) -> Result<Supervised> {
        let mut waited_for: SigSet = PASSED_ON.into_iter().collect();
        waited_for.add(Signal::SIGCHLD);
        let before = waited_for.thread_swap_mask(SigmaskHow::SIG_BLOCK).context("cannot hold signals back")?;
        let name = command.get_program().to_string_lossy().into_owned();
        // SAFETY: one system call between fork and exec.
        unsafe { command.pre_exec(move || Ok(before.thread_set_mask()?)) };
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Supervised { pid: child.id() as i32, waited_for })
    }

    pub fn next(&self, patience: Duration) -> Result<Event> {
        if let Some(code) = self.ended()? {
            return Ok(Event::Ended(code));
        }
        Ok(match self.signal(patience) {
            Some(signal) if signal != Signal::SIGCHLD => Event::Signal(signal),
            _ => self.ended()?.map_or(Event::Nothing, Event::Ended),
        })
    }

    pub fn pass_on(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.pid), signal); // it may have ended
    }

    /// None: none came, or one that the program has got too.
    fn signal(&self, patience: Duration) -> Option<Signal> {
        let time = libc::timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        // SAFETY: all zeros are a siginfo_t.
        let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: the three live until the call returns.
        let number = unsafe { libc::sigtimedwait(self.waited_for.as_ref(), &mut about, &time) };
        let signal = Signal::try_from(number).ok()?;
        (about.si_code != libc::SI_KERNEL).then_some(signal)
    }

    fn ended(&self) -> Result<Option<ExitCode>> {
        match waitpid(Pid::from_raw(self.pid), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, status)) => Ok(Some(ExitCode::from(status as u8))),
            Ok(WaitStatus::Signaled(_, signal, _)) => Ok(Some(ExitCode::from(128 + signal as u8))),
            Ok(_) | Err(Errno::EINTR) => Ok(None),
            Err(error) => Err(error).context("cannot wait for the program"),
        }
    }
}
