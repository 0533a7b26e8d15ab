// SPDX-License-Identifier: MIT
//! Heaps of the program's own, whose blocks go all at once.

use crate::{accepted, sys, Refused, ALIGNED};
use core::alloc::Layout;
use core::ffi::{c_void, CStr};
use core::mem::{size_of, ManuallyDrop};
use core::ptr::{null, NonNull};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

/// A heap: every thread may allocate from it and free to it. Dropping it frees what is left in it, in time proportional
/// to the memory, not to the number of blocks. With the feature `allocator-api2`, `&Heap` is an allocator for
/// collections, whose borrow keeps the heap alive.
///
/// ```
/// use core::alloc::Layout;
/// let heap = hakmem_alloc::Heap::new().unwrap();
/// let block = heap.alloc(Layout::new::<[u64; 100]>());
/// assert!(heap.owns(block) && heap.stats().live >= 800);
/// drop(heap); // the block went with it
/// ```
#[derive(Debug)]
pub struct Heap(NonNull<sys::hak_heap_t>);

// Each call of a heap may come from any thread: hakmem.h says so.
unsafe impl Send for Heap {}
unsafe impl Sync for Heap {}

/// Of one heap; sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapStats {
    /// Usable bytes of its blocks.
    pub live: u64,
    /// How many they are.
    pub live_blocks: u64,
    /// Blocks ever.
    pub allocs: u64,
    /// What it has taken from the system.
    pub taken: u64,
    /// The most that it had taken at a time.
    pub peak_taken: u64,
    /// 0: none.
    pub limit: u64,
}

impl Heap {
    /// A heap without a name and a limit. It takes no memory for blocks yet.
    pub fn new() -> Result<Heap, Refused> {
        Heap::with_options(None, 0)
    }

    /// A heap of up to `limit` bytes (0: no limit), whose name statistics show.
    pub fn with_options(name: Option<&CStr>, limit: usize) -> Result<Heap, Refused> {
        let struct_size = size_of::<sys::hak_heap_options_t>() as u32;
        let options = sys::hak_heap_options_t { struct_size, name: name.map_or(null(), CStr::as_ptr), limit };
        NonNull::new(unsafe { sys::hak_heap_new(&options) })
            .map(Heap)
            .ok_or_else(|| Refused(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)))
    }

    /// What `sys` calls it.
    pub fn as_ptr(&self) -> *mut sys::hak_heap_t {
        self.0.as_ptr()
    }

    /// A block, null when memory is out or the limit is reached. It lives until it is freed, or the heap is.
    pub fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe {
            if layout.align() <= ALIGNED {
                sys::hak_heap_malloc(self.as_ptr(), layout.size()).cast()
            } else {
                sys::hak_heap_aligned_alloc(self.as_ptr(), layout.align(), layout.size()).cast()
            }
        }
    }

    /// A block of zeros, as [`alloc`](Heap::alloc).
    pub fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            return unsafe { sys::hak_heap_calloc(self.as_ptr(), 1, layout.size()).cast() };
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    /// # Safety
    /// `block` is one of hakmem's, of this layout, that nobody uses any more. It may be of another heap.
    pub unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        core::alloc::GlobalAlloc::dealloc(&crate::Hakmem, block, layout);
    }

    /// Frees every block, and the heap stays; returns their bytes. What borrows the heap is gone by then.
    pub fn reset(&mut self) -> usize {
        unsafe { sys::hak_heap_reset(self.as_ptr()) }
    }

    /// The heap goes, and its blocks stay, as blocks of [`Hakmem`](crate::Hakmem).
    pub fn release(self) {
        unsafe { sys::hak_heap_release(ManuallyDrop::new(self).as_ptr()) }
    }

    /// Whether `block` is a live block of this heap, from its first byte.
    pub fn owns<T: ?Sized>(&self, block: *const T) -> bool {
        unsafe { sys::hak_heap_of(block.cast::<c_void>()) == self.as_ptr() }
    }

    /// What the heap has now.
    pub fn stats(&self) -> HeapStats {
        let mut all = core::mem::MaybeUninit::<sys::hak_heap_stats_t>::zeroed();
        let all = unsafe {
            (*all.as_mut_ptr()).struct_size = size_of::<sys::hak_heap_stats_t>() as u32;
            sys::hak_heap_stats_get(self.as_ptr(), all.as_mut_ptr());
            all.assume_init_ref()
        };
        HeapStats {
            live: all.live,
            live_blocks: all.live_blocks,
            allocs: all.allocs,
            taken: all.taken,
            peak_taken: all.peak_taken,
            limit: all.limit,
        }
    }

    /// Calls `visit` for each live block with its usable size, until it returns false. `Refused(ECANCELED)` then.
    pub fn visit(&self, mut visit: impl FnMut(*mut u8, usize) -> bool) -> Result<(), Refused> {
        let mut panic = None;
        let mut each = |block: *mut u8, size: usize| {
            // No panic crosses the C code in between.
            catch_unwind(AssertUnwindSafe(|| visit(block, size))).unwrap_or_else(|what| {
                panic = Some(what);
                false
            })
        };
        let code = self.visit_with(&mut each);
        if let Some(what) = panic {
            resume_unwind(what);
        }
        accepted(code)
    }

    fn visit_with<F: FnMut(*mut u8, usize) -> bool>(&self, each: &mut F) -> i32 {
        unsafe extern "C" fn call<F: FnMut(*mut u8, usize) -> bool>(
            block: *mut c_void,
            size: usize,
            each: *mut c_void,
        ) -> bool {
            (*each.cast::<F>())(block.cast(), size)
        }
        unsafe { sys::hak_heap_visit(self.as_ptr(), Some(call::<F>), (each as *mut F).cast()) }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        unsafe { sys::hak_heap_destroy(self.as_ptr()) }
    }
}
