// SPDX-License-Identifier: MIT
//! src/lib.rs declares what hakmem.h does: the functions, and the fields of its records in their order.

use std::ffi::CStr;
use std::fs;
use std::mem::size_of;

fn header() -> String {
    let mut text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/c/include/hakmem.h")).unwrap();
    while let (Some(begin), Some(end)) = (text.find("/*"), text.find("*/")) {
        text.replace_range(begin..end + 2, " ");
    }
    text
}

fn declarations() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs")).unwrap()
}

/// The word in front of each `end`.
fn words_before(text: &str, end: char) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    text.split(end)
        .map(|part| part.rsplit(|c| !is_name(c)).next().unwrap_or("").to_string())
        .filter(|word| !word.is_empty())
        .collect()
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let from = text.find(begin).unwrap_or_else(|| panic!("{begin} is not there")) + begin.len();
    &text[from..from + text[from..].find(end).unwrap()]
}

#[test]
fn every_function_is_declared() {
    let names = |text: &str| {
        let mut names: Vec<_> = words_before(text, '(').into_iter().filter(|n| n.starts_with("hak_")).collect();
        names.sort();
        names
    };
    let rust = declarations();
    assert_eq!(names(&header()), names(&rust[rust.find("extern \"C\" {").unwrap()..]));
}

#[test]
fn records_have_the_same_fields() {
    for name in ["hak_class_stats", "hak_stats", "hak_heap_stats"] {
        let text = header();
        let c = between(&text, &format!("typedef struct {name} {{"), "}")
            .replace("[HAK_STATS_CLASS_MAX]", "")
            .replace("[HAK_HEAP_NAME_MAX]", "");
        let rust = declarations();
        let rust = between(&rust, &format!("pub struct {name}_t {{"), "\n}");
        assert_eq!(words_before(&c, ';'), words_before(rust, ':'), "{name}");
    }
}

#[test]
fn the_library_answers() {
    let mut stats: Box<hakmem_sys::hak_stats_t> = unsafe { Box::new(std::mem::zeroed()) };
    stats.struct_size = size_of::<hakmem_sys::hak_stats_t>() as u32;
    unsafe {
        let block = hakmem_sys::hak_malloc(100);
        assert!(!block.is_null() && hakmem_sys::hak_owns(block));
        assert_eq!(hakmem_sys::hak_stats_get(&mut *stats), 0);
        assert!(stats.live >= 100 && stats.class_count > 0);
        assert_eq!(hakmem_sys::hak_check(), 0);
        hakmem_sys::hak_free_sized(block, 100);
        assert!(CStr::from_ptr(hakmem_sys::hak_build_info()).to_str().unwrap().contains("release"));
    }
}
