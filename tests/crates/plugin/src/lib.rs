// SPDX-License-Identifier: MIT
//! Allocates enough for a helper thread, and frees it all. scripts/check-crates closes it while that thread lives.

#[global_allocator]
static GLOBAL: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;

#[no_mangle]
pub extern "C" fn work() -> usize {
    let blocks: Vec<Vec<u8>> = (0..20_000).map(|i| vec![1; 100 + i % 5000]).collect();
    blocks.iter().map(Vec::len).sum()
}
