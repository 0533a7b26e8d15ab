// SPDX-License-Identifier: MIT
//! hakmem, a memory allocator for Linux, as the global allocator of a Rust program.
//!
//! ```
//! #[global_allocator]
//! static GLOBAL: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;
//!
//! let words = vec!["one", "two"];
//! assert!(hakmem_alloc::owns(words.as_ptr()));
//! ```
//!
//! [`Heap`] is a heap of the program's own. The features are in the package's README.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_void, CStr};

pub use hakmem_sys as sys;

#[cfg(feature = "allocator-api2")]
mod allocator;
mod heap;
#[cfg(feature = "profile")]
pub mod profile;
#[cfg(feature = "stats")]
mod stats;

pub use heap::{Heap, HeapStats};
#[cfg(feature = "stats")]
pub use stats::{stat, stats, Stats};

/// The allocator. Every value is the same one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hakmem;

/// Every block has this alignment.
const ALIGNED: usize = 16;

unsafe impl GlobalAlloc for Hakmem {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            sys::hak_malloc(layout.size()).cast()
        } else {
            sys::hak_aligned_alloc(layout.align(), layout.size()).cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            return sys::hak_calloc(1, layout.size()).cast();
        }
        sys::hak_aligned_calloc(layout.align(), 1, layout.size()).cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.align() <= ALIGNED {
            sys::hak_free_sized(block.cast(), layout.size());
        } else {
            sys::hak_free_aligned_sized(block.cast(), layout.align(), layout.size());
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= ALIGNED {
            return sys::hak_realloc(block.cast(), size).cast();
        }
        sys::hak_aligned_realloc(block.cast(), layout.align(), size).cast()
    }
}

/// Whether `block` lies in memory that hakmem handed out and that is not known to be free.
pub fn owns<T: ?Sized>(block: *const T) -> bool {
    unsafe { sys::hak_owns(block.cast::<c_void>()) }
}

/// Gives free memory back to the system at once; returns how many bytes.
pub fn trim() -> usize {
    unsafe { sys::hak_trim() }
}

/// What hakmem refuses: the number is errno's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub i32);

impl std::error::Error for Refused {}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "hakmem refuses: {}", std::io::Error::from_raw_os_error(self.0))
    }
}

fn accepted(code: i32) -> Result<(), Refused> {
    if code == 0 {
        Ok(())
    } else {
        Err(Refused(code))
    }
}

/// Near `soft` bytes caches shrink and memory is given back at once; a request beyond `hard` fails. 0 is no limit.
pub fn limit(soft: usize, hard: usize) -> Result<(), Refused> {
    accepted(unsafe { sys::hak_limit_set(soft, hard) })
}

/// Sets an option at run time, by its name without `HAKMEM_`.
pub fn option_set(name: &CStr, value: &CStr) -> Result<(), Refused> {
    accepted(unsafe { sys::hak_option_set(name.as_ptr(), value.as_ptr()) })
}

/// The options of the program, below what the environment says: `hakmem_alloc::options!("PURGE_DELAY=100");`, once in a
/// program, in any of its crates. The names are those of the environment without `HAKMEM_`, with spaces between.
#[macro_export]
macro_rules! options {
    ($text:literal) => {
        #[doc(hidden)]
        #[used]
        #[no_mangle]
        #[allow(non_upper_case_globals)]
        pub static hak_default_options: [u8; $text.len() + 1] = $crate::with_end($text);
    };
}

#[doc(hidden)]
pub const fn with_end<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let mut i = 0;
    while i < text.len() {
        bytes[i] = text.as_bytes()[i];
        i += 1;
    }
    bytes
}

/// The examples of README.md are tests.
#[cfg(all(doctest, feature = "allocator-api2"))]
#[doc = include_str!("../README.md")]
struct Readme;
