// SPDX-License-Identifier: MIT
//! What a process has mapped, and which build each file is of.

use super::memory::Memory;
use super::notes;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

/// Of a file: its headers and notes come first.
const HEAD_MAX: u64 = 64 * 1024;
const GNU_BUILD_ID: u32 = 3;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// In the file.
    pub offset: u64,
    pub is_readable: bool,
    pub is_writable: bool,
    pub is_code: bool,
    /// A file, or what the kernel calls it ("[vdso]"); empty: no name.
    pub path: String,
    pub is_deleted: bool,
    /// By now another file is there than the one that was mapped.
    pub is_replaced: bool,
    /// As hexadecimal digits; empty: not known.
    pub build_id: String,
}

impl Mapping {
    pub fn is_file(&self) -> bool {
        self.path.starts_with('/') && !self.path.starts_with("/memfd:") && !self.path.starts_with("/dev/")
    }

    /// As the kernel writes it.
    pub fn shown(&self) -> String {
        self.path.clone() + if self.is_deleted { " (deleted)" } else { "" }
    }

    pub fn name(&self) -> &str {
        match self.path.rsplit('/').next() {
            Some("") | None => "[anonymous]",
            Some(name) => name,
        }
    }
}

pub fn of_process(pid: i32) -> io::Result<Vec<Mapping>> {
    let text = fs::read(format!("/proc/{pid}/maps"))?;
    Ok(parse(&String::from_utf8_lossy(&text)))
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
        is_readable: access.contains('r'),
        is_writable: access.contains('w'),
        is_code: access.contains('x'),
        path: path.to_string(),
        is_deleted,
        ..Mapping::default()
    })
}

pub fn find(maps: &[Mapping], address: u64) -> Option<&Mapping> {
    let behind = maps.partition_point(|map| map.start <= address);
    maps[..behind].last().filter(|map| address < map.end)
}

/// The beginnings of the files that have machine code. Of others nothing is read: that may wait for their file system,
/// which may have stopped to answer.
pub fn heads_of_code(maps: &[Mapping]) -> impl Iterator<Item = &Mapping> {
    let with_code: HashSet<&str> = maps.iter().filter(|map| map.is_code).map(|map| &map.path[..]).collect();
    let starts = |map: &Mapping| map.offset == 0 && map.is_readable && map.path.starts_with('/');
    maps.iter().filter(move |map| starts(map) && with_code.contains(&map.path[..]))
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

/// Marks the files that have changed since `time`: what they are now says nothing of what was mapped.
pub fn mark_replaced(maps: &mut [Mapping], time: SystemTime) {
    let changed = |path: &str| fs::metadata(path).and_then(|about| about.modified()).is_ok_and(|at| at > time);
    for map in maps.iter_mut().filter(|map| map.is_file()) {
        map.is_replaced = map.is_deleted || changed(&map.path);
    }
}

/// Of the file that a process has mapped from `start` on.
pub fn build_id_in(memory: &Memory, start: u64) -> Option<String> {
    notes::in_memory(memory, start).ok()?.iter().find_map(|(_, notes)| in_notes(notes))
}

pub fn build_id_of(path: &Path) -> Option<String> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(HEAD_MAX).read_to_end(&mut start).ok()?;
    notes::in_file(&start)?.into_iter().find_map(in_notes)
}

fn in_notes(notes: &[u8]) -> Option<String> {
    let id = notes::all(notes).find(|note| note.owner == b"GNU" && note.kind == GNU_BUILD_ID)?;
    Some(hex(id.content))
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
    fn files_without_code_are_not_read() {
        let data = "f000-10000 r--p 00000000 08:01 19 /data\n";
        let maps = parse(&(TEXT.to_string() + data));
        assert_eq!(heads_of_code(&maps).map(|map| map.start).collect::<Vec<_>>(), [0x1000, 0x9000]);
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
