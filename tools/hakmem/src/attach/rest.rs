// SPDX-License-Identifier: MIT
//! A process that has not come to what it was asked for: why, and when it will.

use super::request::PATIENCE;
use procfs::process::Process;
use std::thread::available_parallelism;

#[derive(Clone, Copy, Debug)]
pub struct Rest {
    pub pid: i32,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// By a signal, or by a debugger.
    Stopped,
    /// More threads than processors want to run, so many: the one that was to answer waits for its turn.
    Crowded(usize),
    Idle,
}

impl Why {
    fn of(process: &Process) -> Why {
        if process.stat().is_ok_and(|stat| matches!(stat.state, 'T' | 't')) {
            return Why::Stopped;
        }
        let threads = process.tasks().into_iter().flatten().flatten();
        let running = threads.filter(|thread| thread.stat().is_ok_and(|stat| stat.state == 'R')).count();
        match running > available_parallelism().map_or(1, usize::from) {
            true => Why::Crowded(running),
            false => Why::Idle,
        }
    }
}

impl Rest {
    pub fn of(pid: i32) -> Rest {
        Rest { pid, why: Process::new(pid).map_or(Why::Idle, |process| Why::of(&process)) }
    }

    /// It is ...
    pub fn state(self) -> String {
        match self.why {
            Why::Stopped => "stopped (by a signal or a debugger)".into(),
            Why::Crowded(count) => format!("busy ({count} threads wait for a processor)"),
            Why::Idle => "idle".into(),
        }
    }

    /// It follows ...
    pub fn end(self) -> String {
        match self.why {
            Why::Stopped => format!("once it goes on (kill -CONT {}) and next needs memory", self.pid),
            Why::Crowded(_) => "once one of its threads comes to it".into(),
            Why::Idle => "when it next needs memory".into(),
        }
    }

    /// What to do before what has to be done again, if it is not idle.
    pub fn before(self, again: &str) -> String {
        match self.why {
            Why::Stopped => format!("let it go on (kill -CONT {}) and {again}", self.pid),
            Why::Crowded(_) | Why::Idle => again.into(),
        }
    }

    /// For who has waited in vain: also what there is of an idle process.
    pub fn told(self, of_idle: &str) -> String {
        let why = match self.why {
            Why::Stopped | Why::Crowded(_) => format!("it is {}; {} again", self.state(), self.before("ask")),
            Why::Idle => format!(
                "it allocates next to nothing. {of_idle} With HAKMEM_CONTROL=PATH from its start on an idle process \
                 answers at once"
            ),
        };
        format!("did not come to it within {} s: {why}", PATIENCE.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_stopped_process_is_not_idle() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = child.id() as i32;
        assert_eq!(Rest::of(pid).why, Why::Idle);
        // SAFETY: a signal to a child of this test.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGSTOP) }, 0);
        let begin = Instant::now();
        while Rest::of(pid).why != Why::Stopped && begin.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let seen = Rest::of(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen.why, Why::Stopped);
    }

    #[test]
    fn a_process_whose_threads_wait_for_processors_is_not_idle() {
        let count = 2 * available_parallelism().map_or(1, usize::from) + 2;
        let end = std::sync::atomic::AtomicBool::new(false);
        let is_over = || end.load(std::sync::atomic::Ordering::Relaxed);
        let seen = std::thread::scope(|threads| {
            for _ in 0..count {
                threads.spawn(|| while !is_over() {});
            }
            std::thread::sleep(Duration::from_millis(50));
            let seen = Rest::of(std::process::id() as i32);
            end.store(true, std::sync::atomic::Ordering::Relaxed);
            seen
        });
        assert!(matches!(seen.why, Why::Crowded(running) if running >= count), "{seen:?}");
        assert!(seen.told("").contains("it is busy") && !seen.told("").contains("next to nothing"));
    }
}
