// SPDX-License-Identifier: MIT
//! One look at the whole host at a time, which all share who ask meanwhile. One that does not return, as where a file
//! system has stopped to answer, holds one thread, and who asks is told.

use crate::signals;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(5);

pub struct Scan<Seen> {
    /// The newest, which may be over.
    newest: Mutex<Option<Arc<Run<Seen>>>>,
}

struct Run<Seen> {
    begun: Instant,
    seen: OnceLock<Arc<Seen>>,
}

impl<Seen: Send + Sync + 'static> Scan<Seen> {
    pub fn new() -> Scan<Seen> {
        Scan { newest: Mutex::new(None) }
    }

    /// What the look that is going on comes to, or a new one. None: it takes longer than `patience` from its start, or
    /// a signal has come.
    pub fn result(
        &self,
        patience: Duration,
        look: impl FnOnce() -> Seen + Send + 'static,
    ) -> io::Result<Option<Arc<Seen>>> {
        let run = self.joined(look)?;
        while run.seen.get().is_none() && run.begun.elapsed() < patience && !signals::came() {
            thread::sleep(PAUSE);
        }
        Ok(run.seen.get().cloned())
    }

    fn joined(&self, look: impl FnOnce() -> Seen + Send + 'static) -> io::Result<Arc<Run<Seen>>> {
        let mut newest = self.newest.lock().expect("nobody panics with it");
        if let Some(run) = newest.as_ref().filter(|run| run.seen.get().is_none()) {
            return Ok(run.clone());
        }
        let run = Arc::new(Run { begun: Instant::now(), seen: OnceLock::new() });
        let own = run.clone();
        thread::Builder::new().spawn(move || own.seen.set(Arc::new(look())))?;
        *newest = Some(run.clone());
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    #[test]
    fn one_look_at_a_time_serves_all() {
        static LOOKS: AtomicUsize = AtomicUsize::new(0);
        let look = |end: Option<mpsc::Receiver<()>>| {
            move || {
                let _ = end.map(|end| end.recv());
                LOOKS.fetch_add(1, Ordering::Relaxed) + 1
            }
        };
        let (done, end) = mpsc::channel();
        let scan = Scan::new();
        let result = |seconds: u64, end| scan.result(Duration::from_secs(seconds), look(end)).unwrap();
        assert_eq!(result(0, Some(end)), None, "it is not over");
        thread::scope(|threads| {
            let waits = threads.spawn(|| result(60, None));
            assert_eq!([(); 3].map(|()| result(0, None)), [(); 3].map(|()| None));
            assert_eq!(LOOKS.load(Ordering::Relaxed), 0, "there is one look");
            done.send(()).unwrap();
            assert!(waits.join().unwrap().is_some());
        });
        let before = LOOKS.load(Ordering::Relaxed);
        assert_eq!(result(60, None).map(|seen| *seen), Some(before + 1), "what is over is not told again");
    }
}
