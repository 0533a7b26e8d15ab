// SPDX-License-Identifier: MIT
//! A heap profile that the program writes of itself.
#![cfg(feature = "profile")]

use hakmem_alloc::profile;
use std::io::ErrorKind;

#[global_allocator]
static GLOBAL: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;

#[test]
fn live_blocks_are_in_it() {
    let path = std::env::temp_dir().join(format!("hakmem-profile-{}", std::process::id()));
    let written = || {
        profile::write(std::fs::File::create(&path).unwrap())?;
        std::fs::read(&path)
    };
    assert_eq!(written().unwrap_err().kind(), ErrorKind::NotFound);
    profile::start(1).unwrap();
    let block = vec![1u8; 100_000];
    let with = written().unwrap();
    profile::stop();
    drop(block);
    profile::reset();
    let without = written().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(with.starts_with(b"hakmem-profile\0\0"));
    assert!(with.len() > without.len());
}
