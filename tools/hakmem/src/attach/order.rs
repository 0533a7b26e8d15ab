// SPDX-License-Identifier: MIT
//! The order in which a process has loaded its files: the dynamic linker looks for a name in this one. It keeps the
//! list for debuggers (r_debug and link_map of link.h), on glibc and on musl.

use super::maps::{self, Mapping};
use super::memory::Memory;
use super::notes;
use object::elf::{DT_DEBUG, PT_DYNAMIC};

/// More files, or more entries of a dynamic section, are no true list.
const FILES_MAX: usize = 1 << 16;
const ENTRIES_MAX: u64 = 256;
/// r_map in r_debug; in link_map comes l_ld, then l_next.
const FIRST: u64 = 8;
const WORDS: usize = 4;

/// The paths, as the process has them mapped; those that it has opened itself come last. None: there is no such list,
/// as in a static program, or it may not be read.
pub fn of(memory: &Memory, maps: &[Mapping], program: &str) -> Option<Vec<String>> {
    let start = maps.iter().find(|map| map.offset == 0 && map.shown() == program)?.start;
    let mut next = memory.number(debug(memory, start)? + FIRST, 8).ok()?;
    let mut paths = Vec::new();
    while next != 0 && paths.len() < FILES_MAX {
        let words = memory.words(next, WORDS).ok()?;
        paths.push(maps::find(maps, words[2]).map(Mapping::shown).unwrap_or_default());
        next = words[3];
    }
    (!paths.is_empty()).then_some(paths)
}

/// Where the program's dynamic section leads to, once the dynamic linker has filled that in.
fn debug(memory: &Memory, start: u64) -> Option<u64> {
    let &(address, size) = notes::segments_in(memory, start, PT_DYNAMIC).ok()?.first()?;
    let words = memory.words(address, 2 * (size / 16).min(ENTRIES_MAX) as usize).ok()?;
    let found = words.chunks_exact(2).find(|entry| entry[0] == DT_DEBUG.0 as u64)?;
    Some(found[1]).filter(|&at| at != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_comes_first_and_its_c_library_behind_it() {
        let pid = std::process::id() as i32;
        let (maps, program) = (maps::of_process(pid).unwrap(), std::env::current_exe().unwrap());
        let order = of(&Memory::of(pid), &maps, program.to_str().unwrap());
        let Some(order) = order else { return }; // this test is a static program
        assert_eq!(order[0], program.to_str().unwrap());
        assert!(order[1..].iter().any(|path| path.contains("/libc.so") || path.contains("/ld-musl")), "{order:?}");
        assert_eq!(of(&Memory::of(pid), &maps, "/nonexistent"), None);
    }
}
