// SPDX-License-Identifier: MIT
//! A process at rest: why it has not come to what it was asked for, and when it will.

use super::request::PATIENCE;
use procfs::process::Process;

#[derive(Clone, Copy, Debug)]
pub struct Rest {
    pub pid: i32,
    /// By a signal, or by a debugger. Else it is idle.
    pub is_stopped: bool,
}

impl Rest {
    pub fn of(pid: i32) -> Rest {
        let stat = Process::new(pid).and_then(|process| process.stat());
        Rest { pid, is_stopped: stat.is_ok_and(|stat| matches!(stat.state, 'T' | 't')) }
    }

    /// It is ...
    pub fn state(self) -> &'static str {
        match self.is_stopped {
            true => "stopped (by a signal or a debugger)",
            false => "idle",
        }
    }

    /// It follows ...
    pub fn end(self) -> String {
        match self.is_stopped {
            true => format!("once it goes on (kill -CONT {}) and next needs memory", self.pid),
            false => "when it next needs memory".into(),
        }
    }

    /// For who has waited in vain: also what there is of an idle process.
    pub fn told(self, of_idle: &str) -> String {
        let why = match self.is_stopped {
            true => format!("it is {}; let it go on (kill -CONT {}) and ask again", self.state(), self.pid),
            false => format!(
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
        assert!(!Rest::of(pid).is_stopped);
        // SAFETY: a signal to a child of this test.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGSTOP) }, 0);
        let begin = Instant::now();
        while !Rest::of(pid).is_stopped && begin.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let seen = Rest::of(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen.is_stopped);
    }
}
