// SPDX-License-Identifier: MIT
//! The C interface of hakmem, a memory allocator for Linux. `hakmem.h` documents each function; tests/header.rs holds
//! this file to it.
//!
//! The crate uses `std` for the sake of the linker alone: what a crate uses comes behind it, and of a static C library
//! only what is still missing then is taken.
#![allow(non_camel_case_types)]

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    any(target_env = "gnu", target_env = "musl")
)))]
compile_error!("hakmem is for Linux on x86-64 and aarch64, with glibc or musl: choose the crate for these targets only, by `[target.'cfg(target_os = \"linux\")'.dependencies]`");

use core::ffi::{c_char, c_int, c_void};

pub const HAK_STATS_CLASS_MAX: usize = 128;

pub const HAK_HEAP_NAME_MAX: usize = 32;

/// A heap of the program's own; only its address is known.
#[repr(C)]
pub struct hak_heap_t {
    _opaque: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hak_heap_options_t {
    pub struct_size: u32,
    pub name: *const c_char,
    pub limit: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hak_heap_stats_t {
    pub struct_size: u32,
    pub name: [c_char; HAK_HEAP_NAME_MAX],
    pub live: u64,
    pub live_blocks: u64,
    pub allocs: u64,
    pub taken: u64,
    pub peak_taken: u64,
    pub limit: u64,
}

pub type hak_format_t = c_int;
pub const HAK_FORMAT_TEXT: hak_format_t = 0;
pub const HAK_FORMAT_JSON: hak_format_t = 1;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hak_class_stats_t {
    pub block_size: usize,
    pub alloc_count: u64,
    pub free_local: u64,
    pub free_remote: u64,
    pub refill_count: u64,
    pub flush_count: u64,
    pub live_blocks: u64,
    pub cached_blocks: u64,
    pub slab_count: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hak_stats_t {
    pub struct_size: u32,
    pub class_count: u32,
    pub mapped: u64,
    pub resident: u64,
    pub live: u64,
    pub untouched: u64,
    pub cached: u64,
    pub fragmented: u64,
    pub retained: u64,
    pub metadata: u64,
    pub huge_page_waste: u64,
    pub peak_mapped: u64,
    pub slabs_new: u64,
    pub slabs_reused: u64,
    pub slabs_adopted: u64,
    pub slabs_retired: u64,
    pub superslabs_new: u64,
    pub superslabs_reused: u64,
    pub superslabs_freed: u64,
    pub superslabs_now: u64,
    pub remote_frees: u64,
    pub remote_batches: u64,
    pub remote_drains: u64,
    pub large_allocs: u64,
    pub large_frees: u64,
    pub large_cache_hits: u64,
    pub huge_allocs: u64,
    pub huge_frees: u64,
    pub purge_calls: u64,
    pub purged_bytes: u64,
    pub sparse_bytes: u64,
    pub map_calls: u64,
    pub lock_waits: u64,
    pub lock_takes: u64,
    pub magazine_grows: u64,
    pub magazine_shrinks: u64,
    pub heaps_now: u64,
    pub heaps_total: u64,
    pub errors: u64,
    pub foreign_forwards: u64,
    pub limit_soft: u64,
    pub limit_hard: u64,
    pub limit_nears: u64,
    pub limit_refusals: u64,
    pub pressure_events: u64,
    pub huge_page_bytes: u64,
    pub prefault_bytes: u64,
    pub classes: [hak_class_stats_t; HAK_STATS_CLASS_MAX],
}

extern "C" {
    pub fn hak_version() -> c_int;
    pub fn hak_build_info() -> *const c_char;
    pub fn hak_malloc(size: usize) -> *mut c_void;
    pub fn hak_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn hak_realloc(ptr: *mut c_void, size: usize) -> *mut c_void;
    pub fn hak_reallocarray(ptr: *mut c_void, count: usize, size: usize) -> *mut c_void;
    pub fn hak_free(ptr: *mut c_void);
    pub fn hak_free_sized(ptr: *mut c_void, size: usize);
    pub fn hak_free_aligned_sized(ptr: *mut c_void, alignment: usize, size: usize);
    pub fn hak_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn hak_aligned_calloc(alignment: usize, count: usize, size: usize) -> *mut c_void;
    pub fn hak_aligned_realloc(ptr: *mut c_void, alignment: usize, size: usize) -> *mut c_void;
    pub fn hak_memalign(alignment: usize, size: usize) -> *mut c_void;
    pub fn hak_posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
    pub fn hak_malloc_usable_size(ptr: *const c_void) -> usize;
    pub fn hak_malloc_at_least(size: usize, actual: *mut usize) -> *mut c_void;
    pub fn hak_good_size(size: usize) -> usize;
    pub fn hak_expand(ptr: *mut c_void, size: usize) -> usize;
    pub fn hak_malloc_batch(size: usize, count: usize, out: *mut *mut c_void) -> usize;
    pub fn hak_free_batch(blocks: *mut *mut c_void, count: usize);
    pub fn hak_owns(ptr: *const c_void) -> bool;
    pub fn hak_trim() -> usize;
    pub fn hak_limit_set(soft: usize, hard: usize) -> c_int;
    pub fn hak_check() -> usize;
    pub fn hak_option_set(name: *const c_char, value: *const c_char) -> c_int;
    pub fn hak_option_get(name: *const c_char, value: *mut c_char, value_size: usize) -> c_int;
    pub fn hak_options_print(fd: c_int);
    pub fn hak_stats_get(stats: *mut hak_stats_t) -> c_int;
    pub fn hak_stat_read(name: *const c_char, value: *mut u64) -> c_int;
    pub fn hak_stats_print(fd: c_int, format: hak_format_t);
    pub fn hak_stats_format(buffer: *mut c_char, buffer_size: usize, format: hak_format_t) -> usize;

    pub fn hak_heap_new(options: *const hak_heap_options_t) -> *mut hak_heap_t;
    pub fn hak_heap_malloc(heap: *mut hak_heap_t, size: usize) -> *mut c_void;
    pub fn hak_heap_calloc(heap: *mut hak_heap_t, count: usize, size: usize) -> *mut c_void;
    pub fn hak_heap_aligned_alloc(heap: *mut hak_heap_t, alignment: usize, size: usize) -> *mut c_void;
    pub fn hak_heap_realloc(heap: *mut hak_heap_t, ptr: *mut c_void, size: usize) -> *mut c_void;
    pub fn hak_heap_reset(heap: *mut hak_heap_t) -> usize;
    pub fn hak_heap_destroy(heap: *mut hak_heap_t);
    pub fn hak_heap_release(heap: *mut hak_heap_t);
    pub fn hak_heap_of(block: *const c_void) -> *mut hak_heap_t;
    pub fn hak_heap_stats_get(heap: *mut hak_heap_t, stats: *mut hak_heap_stats_t) -> c_int;
    pub fn hak_heap_visit(
        heap: *mut hak_heap_t,
        visit: Option<unsafe extern "C" fn(block: *mut c_void, size: usize, context: *mut c_void) -> bool>,
        context: *mut c_void,
    ) -> c_int;
    pub fn hak_profile_start(interval: usize) -> c_int;
    pub fn hak_profile_stop();
    pub fn hak_profile_reset();
    pub fn hak_profile_write(fd: c_int) -> c_int;
}
