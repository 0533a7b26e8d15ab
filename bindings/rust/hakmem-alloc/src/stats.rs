// SPDX-License-Identifier: MIT
//! What is allocated, cached and resident.

use crate::{accepted, sys};
use core::ffi::CStr;

/// Memory in bytes. `resident = live - untouched + cached + fragmented + retained + metadata`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Usable bytes of the blocks in use.
    pub live: u64,
    /// Of these, not resident.
    pub untouched: u64,
    /// Free blocks in caches of threads.
    pub cached: u64,
    /// Free blocks among those in use.
    pub fragmented: u64,
    /// Free, and not yet given back.
    pub retained: u64,
    /// hakmem's own records.
    pub metadata: u64,
    /// Pages of the heap that memory stands behind.
    pub resident: u64,
    /// Address space taken from the kernel.
    pub mapped: u64,
}

/// A snapshot; `None` in the child of a fork that has no statistics.
pub fn stats() -> Option<Stats> {
    let mut all = core::mem::MaybeUninit::<sys::hak_stats_t>::zeroed();
    let all = unsafe {
        (*all.as_mut_ptr()).struct_size = core::mem::size_of::<sys::hak_stats_t>() as u32;
        accepted(sys::hak_stats_get(all.as_mut_ptr())).ok()?;
        all.assume_init_ref()
    };
    Some(Stats {
        live: all.live,
        untouched: all.untouched,
        cached: all.cached,
        fragmented: all.fragmented,
        retained: all.retained,
        metadata: all.metadata,
        resident: all.resident,
        mapped: all.mapped,
    })
}

/// One figure by its name, such as `c"live"`, `c"remote_frees"` or, of a heap by its name, `c"heap/parser/live"`.
/// `None`: there is no such figure. Cheaper than [`stats`], and cheap enough to call every second.
pub fn stat(name: &CStr) -> Option<u64> {
    let mut value = 0;
    accepted(unsafe { sys::hak_stat_read(name.as_ptr(), &mut value) }).ok()?;
    Some(value)
}
