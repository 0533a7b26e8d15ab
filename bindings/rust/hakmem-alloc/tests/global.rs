// SPDX-License-Identifier: MIT
//! A program whose global allocator is hakmem.

use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
use std::collections::HashMap;
use std::thread;

#[global_allocator]
static GLOBAL: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;

#[test]
fn collections_live_on_it() {
    let words: HashMap<String, Vec<usize>> = (0..10_000).map(|i| (i.to_string(), vec![i; i % 50])).collect();
    assert!(words.values().filter(|v| !v.is_empty()).all(|v| hakmem_alloc::owns(v.as_ptr())));
    assert_eq!(words["4999"], vec![4999; 49]);
}

#[test]
fn every_alignment() {
    for shift in 0..=21 {
        for size in [1, 15, 100, 5_000, 300_000] {
            let layout = Layout::from_size_align(size, 1 << shift).unwrap();
            unsafe {
                let block = alloc(layout);
                assert_eq!(block as usize % layout.align(), 0);
                block.write_bytes(7, size);
                let block = realloc(block, layout, size * 3);
                assert_eq!(block as usize % layout.align(), 0);
                assert!((0..size).all(|i| *block.add(i) == 7));
                dealloc(block, Layout::from_size_align(size * 3, layout.align()).unwrap());
                let zeroed = alloc_zeroed(layout);
                assert!((0..size).all(|i| *zeroed.add(i) == 0));
                dealloc(zeroed, layout);
            }
        }
    }
}

#[test]
fn blocks_cross_threads() {
    let blocks: Vec<Vec<u8>> = (0..1000).map(|i| vec![i as u8; i]).collect();
    thread::spawn(move || blocks.iter().map(Vec::len).sum::<usize>()).join().unwrap();
}

#[test]
fn limits_and_options() {
    assert_eq!(hakmem_alloc::limit(2 << 30, 1 << 30), Err(hakmem_alloc::Refused(22)));
    let name = |text: &'static [u8]| std::ffi::CStr::from_bytes_with_nul(text).unwrap();
    assert!(hakmem_alloc::option_set(name(b"PURGE_DELAY\0"), name(b"100\0")).is_ok());
    assert_eq!(hakmem_alloc::option_set(name(b"NO_SUCH\0"), name(b"1\0")), Err(hakmem_alloc::Refused(2)));
    hakmem_alloc::trim();
}

#[cfg(feature = "stats")]
#[test]
fn statistics() {
    let before = hakmem_alloc::stats().unwrap();
    let block = vec![1u8; 50 << 20];
    let now = hakmem_alloc::stats().unwrap();
    assert!(now.live >= before.live + block.len() as u64 / 2, "{before:?} {now:?}");
}

/// With `override`, what C code allocates is hakmem's, and only then.
#[test]
fn c_code() {
    extern "C" {
        fn strdup(text: *const std::ffi::c_char) -> *mut std::ffi::c_char;
        fn free(block: *mut std::ffi::c_char);
    }
    unsafe {
        let copy = strdup(b"of C\0".as_ptr().cast());
        assert_eq!(hakmem_alloc::owns(copy), cfg!(feature = "override"));
        free(copy);
    }
}
