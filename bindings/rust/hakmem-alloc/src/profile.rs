// SPDX-License-Identifier: MIT
//! What is allocated, by the stacks that allocated it: by sampling, on glibc and on musl. `hakmem heap` shows what
//! [`write`] wrote.

use crate::{accepted, sys, Refused};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// From now on a block is sampled about each `interval` bytes that are allocated: 512 KiB is a good one; 1 samples each
/// block, for tests. Called again, it changes the interval.
pub fn start(interval: usize) -> Result<(), Refused> {
    accepted(unsafe { sys::hak_profile_start(interval) })
}

/// No further blocks are sampled. Those that were stay known.
pub fn stop() {
    unsafe { sys::hak_profile_stop() }
}

/// Forgets all that was sampled, and goes on sampling if it did.
pub fn reset() {
    unsafe { sys::hak_profile_reset() }
}

/// Writes the profile to a file or a pipe. `NotFound` when there never was one.
pub fn write(file: impl AsFd) -> io::Result<()> {
    accepted(unsafe { sys::hak_profile_write(file.as_fd().as_raw_fd()) })
        .map_err(|Refused(code)| io::Error::from_raw_os_error(code))
}
