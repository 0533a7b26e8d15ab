// SPDX-License-Identifier: MIT
//! Collections of allocator-api2 on the process's heap and on heaps of their own.
#![cfg(feature = "allocator-api2")]

use allocator_api2::alloc::{Allocator, Layout};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use hakmem_alloc::{Hakmem, Heap};

#[test]
fn on_the_heap_of_the_process() {
    let mut numbers = Vec::new_in(Hakmem);
    numbers.extend(0..100_000u32);
    numbers.shrink_to_fit();
    assert!(hakmem_alloc::owns(numbers.as_ptr()));
    assert!(numbers.iter().copied().eq(0..100_000));
    let empty: Vec<u64, _> = Vec::new_in(Hakmem);
    assert_eq!(empty.capacity(), 0);
}

#[test]
fn what_a_block_has_more_is_capacity() {
    let block = Hakmem.allocate(Layout::from_size_align(1000, 8).unwrap()).unwrap();
    assert!(block.len() >= 1000);
    unsafe {
        block.cast::<u8>().as_ptr().write_bytes(7, block.len());
        Hakmem.deallocate(block.cast(), Layout::from_size_align(block.len(), 8).unwrap());
    }
}

#[test]
fn on_a_heap_of_their_own() {
    let mut heap = Heap::new().unwrap();
    {
        let mut lists = Vec::new_in(&heap);
        for i in 0..1000 {
            let mut list = Vec::new_in(&heap);
            list.extend(0..i);
            lists.push(list);
        }
        let boxed = Box::new_in([7u8; 5000], &heap);
        assert!(heap.owns(&*boxed) && heap.owns(lists.as_ptr()) && heap.owns(lists[999].as_ptr()));
        assert!((0..1000).all(|i| lists[i].iter().copied().eq(0..i)));
        std::mem::forget(lists);
    }
    assert!(heap.reset() >= 4_000_000); // 1000 lists of 500 numbers of 8 bytes, which were forgotten
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn layouts_change_in_every_way() {
    let heap = Heap::new().unwrap();
    let layouts: std::vec::Vec<_> = [0, 1, 24, 1000, 70_000, 300_000]
        .iter()
        .flat_map(|size| [1, 16, 64, 4096].map(|align| Layout::from_size_align(*size, align).unwrap()))
        .collect();
    for old in &layouts {
        for new in &layouts {
            through(&Hakmem, *old, *new);
            through(&&heap, *old, *new);
        }
    }
    assert_eq!(heap.stats().live_blocks, 0);
}

/// A block of `old` becomes one of `new`: what was in it is still there.
fn through(allocator: &dyn Allocator, old: Layout, new: Layout) {
    let kept = old.size().min(new.size());
    unsafe {
        let block = allocator.allocate(old).unwrap().cast::<u8>();
        block.as_ptr().write_bytes(7, old.size());
        let block = match old.size() <= new.size() {
            true => allocator.grow(block, old, new),
            false => allocator.shrink(block, old, new),
        };
        let block = block.unwrap();
        let bytes = block.cast::<u8>();
        assert!(block.len() >= new.size() && bytes.as_ptr() as usize % new.align() == 0);
        assert!((0..kept).all(|i| *bytes.as_ptr().add(i) == 7));
        allocator.deallocate(bytes, new);
    }
}

#[test]
fn memory_out_is_an_error() {
    let heap = Heap::with_options(None, 1 << 20).unwrap();
    assert!((&heap).allocate(Layout::from_size_align(2 << 20, 8).unwrap()).is_err());
    assert!(Hakmem.allocate(Layout::from_size_align(1 << 60, 8).unwrap()).is_err());
}
