// SPDX-License-Identifier: MIT
//! Who asks a process, and who looks at it for a time, where several tools are at it. They lock files of the process
//! in /proc that only those may open who may look into it: so the kernel keeps the locks, also between users, and they
//! end with their holder.

use super::living;
use super::request::PATIENCE;
use crate::failure::Failure;
use anyhow::{bail, Context, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(5);

/// The words of a request are this tool's alone.
pub struct Turn {
    _lock: Flock<File>,
}

impl Turn {
    pub fn of(thread: i32) -> Result<Turn> {
        let mut file = File::open(format!("/proc/{thread}/mem"))?;
        let begin = Instant::now();
        loop {
            file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(Turn { _lock: lock }),
                Err((file, Errno::EWOULDBLOCK)) => file,
                Err((_, error)) => return Err(error).context("cannot be locked"),
            };
            if begin.elapsed() > 2 * PATIENCE {
                bail!(Failure::Refused("another hakmem is asking it for something: try again".into()));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// A look that has a process sampled. Where several are at it, the last one to end ends the sampling.
pub struct Look {
    /// Shared by all such looks, and exclusive while one begins or ends. None: this user may not lock it.
    lock: Option<Flock<File>>,
    /// Nobody else looks, as this one begins.
    pub is_alone: bool,
}

impl Look {
    pub fn begin(pid: i32) -> Look {
        let Ok(file) = File::open(format!("/proc/{}/environ", living(pid))) else {
            return Look { lock: None, is_alone: true };
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Look { lock: Some(lock), is_alone: true },
            Err((file, _)) => Look { lock: Flock::lock(file, FlockArg::LockShared).ok(), is_alone: false },
        }
    }

    /// Whether this user may know of others that look.
    pub fn is_known(&self) -> bool {
        self.lock.is_some()
    }

    /// It has begun: others may.
    pub fn go_on(&self) {
        let _ = self.lock.as_ref().map(|lock| lock.relock(FlockArg::LockShared));
    }

    /// Whether nobody else looks any more.
    pub fn is_last(&self) -> bool {
        self.lock.as_ref().is_none_or(|lock| lock.relock(FlockArg::LockExclusiveNonblock).is_ok())
    }

    /// What this look found going on is not its own to end.
    pub fn leave(&mut self) {
        self.lock = None;
    }
}
