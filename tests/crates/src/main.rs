// SPDX-License-Identifier: MIT
//! Indexes made-up text by word, in threads that hand their results on; prints a sum. scripts/check-crates builds it on
//! hakmem (the feature `hakmem`) and on the C library's malloc, and compares.

use crates_test as _;
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

#[cfg(feature = "hakmem")]
#[global_allocator]
static GLOBAL: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;

const THREADS: u64 = 4;

/// Numbers that look random, the same in every run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn line(numbers: &mut Numbers) -> String {
    (0..3 + numbers.below(12)).map(|_| format!("w{}", numbers.below(20_000))).collect::<Vec<_>>().join(" ")
}

/// Which lines each word is in.
fn index(seed: u64, lines: usize) -> HashMap<String, Vec<usize>> {
    let mut numbers = Numbers(seed);
    let mut index: HashMap<String, Vec<usize>> = HashMap::new();
    for number in 0..lines {
        for word in line(&mut numbers).split(' ') {
            index.entry(word.to_string()).or_default().push(number);
        }
    }
    index
}

/// The option that the library crate has compiled in.
#[cfg(feature = "hakmem")]
fn purge_delay() -> String {
    let mut value = [0u8; 32];
    let name = b"PURGE_DELAY\0";
    unsafe { hakmem_alloc::sys::hak_option_get(name.as_ptr().cast(), value.as_mut_ptr().cast(), value.len()) };
    String::from_utf8_lossy(&value).trim_end_matches('\0').to_string()
}

#[cfg(not(feature = "hakmem"))]
fn purge_delay() -> String {
    "none".to_string()
}

/// What C code allocates is hakmem's too, where the C names are.
#[cfg(feature = "hakmem")]
fn covers_c() -> bool {
    extern "C" {
        fn strdup(text: *const std::ffi::c_char) -> *mut std::ffi::c_char;
    }
    hakmem_alloc::owns(unsafe { strdup(b"of C\0".as_ptr().cast()) })
}

#[cfg(not(feature = "hakmem"))]
fn covers_c() -> bool {
    false
}

fn main() {
    let lines = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(60_000);
    let (sender, receiver) = mpsc::channel();
    for thread in 1..=THREADS {
        let sender = sender.clone();
        thread::spawn(move || {
            for (word, places) in index(thread * 7919, lines) {
                sender.send((word, places)).expect("the main thread reads");
            }
        });
    }
    drop(sender);
    let mut all: BTreeMap<String, Vec<Vec<usize>>> = BTreeMap::new();
    for (word, places) in receiver {
        all.entry(word).or_default().push(places);
    }
    let sum: usize = all.values().flatten().flatten().sum();
    println!("words {} sum {sum} delay {} c {}", all.len(), purge_delay(), covers_c());
}
