// SPDX-License-Identifier: MIT
//! What a process has mapped, and which build each file is of.

use crate::attach::memory::Memory;
use object::elf;
use object::read::elf::{FileHeader, NoteHeader as _, ProgramHeader};
use object::NativeEndian;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;

type Header = elf::FileHeader64<NativeEndian>;
const HEADERS_MAX: usize = 4096;
const NOTES_MAX: u64 = 64 * 1024;
const GNU_BUILD_ID: u32 = 3;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// In the file.
    pub offset: u64,
    pub is_code: bool,
    /// A file, or what the kernel calls it ("[vdso]"); empty: no name.
    pub path: String,
    pub is_deleted: bool,
    /// As hexadecimal digits; empty: not known.
    pub build_id: String,
}

impl Mapping {
    pub fn is_file(&self) -> bool {
        self.path.starts_with('/') && !self.path.starts_with("/memfd:") && !self.path.starts_with("/dev/")
    }

    pub fn name(&self) -> &str {
        match self.path.rsplit('/').next() {
            Some("") | None => "[anonymous]",
            Some(name) => name,
        }
    }
}

/// The lines of /proc/PID/maps.
pub fn parse(text: &str) -> Vec<Mapping> {
    let mut maps: Vec<Mapping> = text.lines().filter_map(line).collect();
    maps.sort_by_key(|map| map.start);
    maps
}

fn line(text: &str) -> Option<Mapping> {
    let mut rest = text;
    let mut next = || {
        let (word, behind) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
        rest = behind;
        word
    };
    let (start, end) = next().split_once('-')?;
    let (access, offset) = (next(), next());
    next();
    next();
    let path = rest.trim();
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    let (path, is_deleted) = match path.strip_suffix(" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        is_code: access.contains('x'),
        path: path.to_string(),
        is_deleted,
        build_id: String::new(),
    })
}

pub fn find(maps: &[Mapping], address: u64) -> Option<&Mapping> {
    let behind = maps.partition_point(|map| map.start <= address);
    maps[..behind].last().filter(|map| address < map.end)
}

/// Fills in the build of each file, told by `of`, which is asked once a file.
pub fn add_build_ids(maps: &mut [Mapping], of: impl Fn(&Mapping) -> Option<String>) {
    let mut known: Vec<(String, String)> = Vec::new();
    let starts: Vec<Mapping> = maps.iter().filter(|map| map.is_file() && map.offset == 0).cloned().collect();
    for map in starts {
        if !known.iter().any(|(path, _)| *path == map.path) {
            known.push((map.path.clone(), of(&map).unwrap_or_default()));
        }
    }
    for map in maps {
        if let Some((_, id)) = known.iter().find(|(path, _)| *path == map.path) {
            map.build_id.clone_from(id);
        }
    }
}

/// Of the file that a process has mapped from `start` on.
pub fn build_id_in(memory: &Memory, start: u64) -> Option<String> {
    let mut head = [0; HEADERS_MAX];
    let length = memory.read_some(start, &mut head).ok()?;
    let header = Header::parse(&head[..length]).ok()?;
    let segments = header.program_headers(NativeEndian, &head[..length]).ok()?;
    let is_first = |s: &&elf::ProgramHeader64<NativeEndian>| {
        s.p_type(NativeEndian) == elf::PT_LOAD && s.p_offset(NativeEndian) == 0
    };
    let bias = start.wrapping_sub(segments.iter().find(is_first)?.p_vaddr(NativeEndian));
    segments.iter().filter(|s| s.p_type(NativeEndian) == elf::PT_NOTE).find_map(|segment| {
        let mut notes = vec![0; segment.p_memsz(NativeEndian).min(NOTES_MAX) as usize];
        memory.read(bias.wrapping_add(segment.p_vaddr(NativeEndian)), &mut notes).ok()?;
        in_notes(&notes)
    })
}

pub fn build_id_of(path: &Path) -> Option<String> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(NOTES_MAX).read_to_end(&mut start).ok()?;
    let header = Header::parse(&start[..]).ok()?;
    let segments = header.program_headers(NativeEndian, &start[..]).ok()?;
    segments.iter().filter(|s| s.p_type(NativeEndian) == elf::PT_NOTE).find_map(|segment| {
        let (offset, size) = (segment.p_offset(NativeEndian) as usize, segment.p_filesz(NativeEndian) as usize);
        in_notes(start.get(offset..offset.checked_add(size)?)?)
    })
}

fn in_notes(notes: &[u8]) -> Option<String> {
    let mut at = 0;
    while let Some(header) = notes.get(at..at + 12) {
        let (header, _) = object::pod::from_bytes::<elf::NoteHeader64<NativeEndian>>(header).ok()?;
        let (name_size, size) = (header.n_namesz(NativeEndian) as usize, header.n_descsz(NativeEndian) as usize);
        let name = notes.get(at + 12..at + 12 + name_size)?;
        let content = at + 12 + name_size.next_multiple_of(4);
        if name == b"GNU\0" && header.n_type(NativeEndian).0 == GNU_BUILD_ID {
            return Some(hex(notes.get(content..content + size)?));
        }
        at = content + size.next_multiple_of(4);
    }
    None
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
5000-6000 r-xp 00001000 08:01 17 /usr/bin/a program
1000-2000 r--p 00000000 08:01 17 /usr/bin/a program
7000-8000 rw-p 00000000 00:00 0
9000-a000 r-xp 00000000 08:01 18                         /usr/lib/old.so (deleted)
b000-c000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn lines_become_mappings_in_order() {
        let maps = parse(TEXT);
        assert_eq!(maps.len(), 5);
        assert_eq!((maps[0].start, &maps[0].path[..], maps[0].is_code), (0x1000, "/usr/bin/a program", false));
        assert_eq!((maps[1].offset, maps[1].is_code, maps[1].name()), (0x1000, true, "a program"));
        assert_eq!((maps[2].name(), maps[2].is_file()), ("[anonymous]", false));
        assert!(maps[3].is_deleted && maps[3].path == "/usr/lib/old.so");
        assert!(!maps[4].is_file() && maps[4].name() == "[vdso]");
        assert_eq!(find(&maps, 0x5fff).unwrap().start, 0x5000);
        assert!(find(&maps, 0x6000).is_none() && find(&maps, 0).is_none());
    }

    #[test]
    fn a_build_is_the_same_in_the_file_and_in_memory() {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let memory = Memory::of(std::process::id() as i32);
        let mut maps = parse(&text);
        add_build_ids(&mut maps, |map| build_id_in(&memory, map.start));
        let libc = maps.iter().find(|map| map.name().starts_with("libc.so") && map.is_code).unwrap();
        assert!(libc.build_id.len() >= 16, "{libc:?}");
        assert_eq!(build_id_of(Path::new(&libc.path)), Some(libc.build_id.clone()));
    }
}
