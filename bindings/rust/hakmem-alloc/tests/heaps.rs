// SPDX-License-Identifier: MIT
//! Heaps of a program's own.

use hakmem_alloc::{Hakmem, Heap, Refused};
use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeMap;
use std::thread;

const BLOCK: Layout = Layout::new::<[u8; 1000]>();

#[test]
fn blocks_go_with_their_heap() {
    let mut heap = Heap::new().unwrap();
    let other = Heap::new().unwrap();
    let blocks: Vec<_> = (0..1000).map(|_| heap.alloc(BLOCK)).collect();
    assert!(blocks.iter().all(|b| !b.is_null() && heap.owns(*b) && !other.owns(*b)));
    let stats = heap.stats();
    assert_eq!(stats.live_blocks, 1000);
    assert!(stats.live >= 1_000_000 && stats.taken >= stats.live && stats.limit == 0, "{stats:?}");
    assert_eq!(heap.reset() as u64, stats.live);
    assert_eq!(heap.stats().live_blocks, 0);
    assert_eq!(other.stats().allocs, 0);
}

#[test]
fn every_alignment_and_zeros() {
    let heap = Heap::new().unwrap();
    for shift in 0..=21 {
        let layout = Layout::from_size_align(5_000, 1 << shift).unwrap();
        let block = heap.alloc_zeroed(layout);
        assert_eq!(block as usize % layout.align(), 0);
        unsafe {
            assert!((0..5_000).all(|i| *block.add(i) == 0));
            block.write_bytes(7, 5_000);
            heap.dealloc(block, layout);
        }
    }
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn released_blocks_stay() {
    let heap = Heap::new().unwrap();
    let block = heap.alloc(BLOCK);
    unsafe {
        block.write_bytes(7, 1000);
        heap.release();
        assert!(hakmem_alloc::owns(block) && *block.add(999) == 7);
        Hakmem.dealloc(block, BLOCK);
    }
}

#[test]
fn a_limit_holds() {
    let heap = Heap::with_options(None, 1 << 20).unwrap();
    let had = (0..10_000).take_while(|_| !heap.alloc(BLOCK).is_null()).count();
    assert!((500..1100).contains(&had), "{had} blocks of 1000 bytes in 1 MiB");
    assert!(heap.stats().taken <= 1 << 20);
}

#[test]
fn threads_share_one() {
    let heap = Heap::new().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    unsafe { heap.dealloc(heap.alloc(BLOCK), BLOCK) };
                }
            });
        }
    });
    assert_eq!((heap.stats().live_blocks, heap.stats().allocs), (0, 40_000));
    thread::spawn(move || drop(heap)).join().unwrap();
}

#[test]
fn visits() {
    let heap = Heap::new().unwrap();
    let blocks: BTreeMap<_, _> = (0..100).map(|i| (heap.alloc(BLOCK) as usize, i)).collect();
    let mut seen = 0;
    heap.visit(|block, size| {
        assert!(size >= 1000 && blocks.contains_key(&(block as usize)));
        seen += 1;
        true
    })
    .unwrap();
    assert_eq!(seen, 100);
    const ECANCELED: i32 = 125;
    assert_eq!(heap.visit(|_, _| false), Err(Refused(ECANCELED)));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| heap.visit(|_, _| panic!("in a visit"))));
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "in a visit");
}

#[cfg(feature = "stats")]
#[test]
fn a_heap_has_figures_by_its_name() {
    let name = |text: &'static [u8]| std::ffi::CStr::from_bytes_with_nul(text).unwrap();
    let heap = Heap::with_options(Some(name(b"of a test\0")), 0).unwrap();
    heap.alloc(BLOCK);
    assert!(hakmem_alloc::stat(name(b"heap/of a test/live\0")).unwrap() >= 1000);
    assert_eq!(hakmem_alloc::stat(name(b"heap/none/live\0")), None);
}
