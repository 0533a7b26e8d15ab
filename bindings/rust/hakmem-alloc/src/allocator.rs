// SPDX-License-Identifier: MIT
//! Allocators for collections that take one: `Vec`, `Box` of allocator-api2, those of hashbrown, bumpalo and others.

use crate::{sys, Hakmem, Heap, ALIGNED};
use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{slice_from_raw_parts_mut, NonNull};

/// A block, or the error that allocators have; nothing is allocated for no bytes.
fn block(layout: Layout, allocate: impl FnOnce(Layout) -> (*mut u8, usize)) -> Result<NonNull<[u8]>, AllocError> {
    if layout.size() == 0 {
        let nowhere = NonNull::new(layout.align() as *mut u8).ok_or(AllocError)?;
        return Ok(NonNull::slice_from_raw_parts(nowhere, 0));
    }
    let (block, size) = allocate(layout);
    NonNull::new(slice_from_raw_parts_mut(block, size)).ok_or(AllocError)
}

/// Copies into a block of another layout and frees the first.
unsafe fn moved<A: Allocator + ?Sized>(
    allocator: &A,
    from: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<[u8]>, AllocError> {
    let to = allocator.allocate(new)?;
    to.cast::<u8>().as_ptr().copy_from_nonoverlapping(from.as_ptr(), old.size().min(new.size()));
    allocator.deallocate(from, old);
    Ok(to)
}

/// Whether realloc keeps what both layouts ask for.
fn can_stay(old: Layout, new: Layout) -> bool {
    old.align().max(new.align()) <= ALIGNED && old.size() != 0 && new.size() != 0
}

unsafe fn freed(block: NonNull<u8>, layout: Layout) {
    if layout.size() != 0 {
        Hakmem.dealloc(block.as_ptr(), layout);
    }
}

/// Blocks tell how much of them may be used: collections take it as capacity.
unsafe impl Allocator for Hakmem {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        block(layout, |layout| unsafe {
            if layout.align() > ALIGNED {
                return (self.alloc(layout), layout.size());
            }
            let mut actual = 0;
            let block = sys::hak_malloc_at_least(layout.size(), &mut actual);
            (block.cast(), actual)
        })
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        block(layout, |layout| (unsafe { self.alloc_zeroed(layout) }, layout.size()))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        freed(block, layout);
    }

    unsafe fn grow(&self, from: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 || new.size() == 0 {
            return moved(self, from, old, new);
        }
        block(new, |new| (sys::hak_aligned_realloc(from.as_ptr().cast(), new.align(), new.size()).cast(), new.size()))
    }

    unsafe fn shrink(&self, from: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.grow(from, old, new)
    }
}

/// The blocks are the heap's, and cannot outlive its borrow.
unsafe impl Allocator for &Heap {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        block(layout, |layout| (self.alloc(layout), layout.size()))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        block(layout, |layout| (self.alloc_zeroed(layout), layout.size()))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        freed(block, layout);
    }

    unsafe fn grow(&self, from: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if !can_stay(old, new) {
            return moved(self, from, old, new);
        }
        let realloc = |new: Layout| sys::hak_heap_realloc(self.as_ptr(), from.as_ptr().cast(), new.size()).cast();
        block(new, |new| (realloc(new), new.size()))
    }

    unsafe fn shrink(&self, from: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.grow(from, old, new)
    }
}
