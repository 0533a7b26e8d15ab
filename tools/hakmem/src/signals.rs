// SPDX-License-Identifier: MIT
//! Signals that end a command which takes its time: it comes to its end early, so that it leaves nothing behind.

use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};
use std::sync::atomic::{AtomicBool, Ordering};

static CAME: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: libc::c_int) {
    CAME.store(true, Ordering::Relaxed);
}

/// From now on. A second one ends the tool at once. What is ignored stays that (nohup).
pub fn hold() {
    let noted = SigAction::new(SigHandler::Handler(note), SaFlags::SA_RESETHAND, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        // SAFETY: the handler does nothing but set a flag.
        let before = unsafe { sigaction(signal, &noted) };
        if let Some(before) = before.ok().filter(|before| matches!(before.handler(), SigHandler::SigIgn)) {
            // SAFETY: as it was.
            let _ = unsafe { sigaction(signal, &before) };
        }
    }
}

pub fn came() -> bool {
    CAME.load(Ordering::Relaxed)
}
