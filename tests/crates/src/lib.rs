// SPDX-License-Identifier: MIT
//! Options that are compiled in, by a crate that the program uses for nothing else.

#[cfg(feature = "hakmem")]
hakmem_alloc::options!("PURGE_DELAY=123");
