// SPDX-License-Identifier: MIT
//! Notes of ELF files: in the memory of a process that has one mapped, and in a file.

use super::memory::Memory;
use object::elf;
use object::read::elf::{FileHeader, NoteHeader as _, ProgramHeader};
use object::NativeEndian;

const HEADERS_MAX: usize = 4096;
const NOTES_MAX: u64 = 64 * 1024;

type Header = elf::FileHeader64<NativeEndian>;
type Segment = elf::ProgramHeader64<NativeEndian>;

pub struct Note<'a> {
    /// Without the NUL behind it.
    pub owner: &'a [u8],
    pub kind: u32,
    pub content: &'a [u8],
    /// Where the content begins, counted from the start of the notes.
    pub at: usize,
}

/// One after the other; what is damaged ends them.
pub fn all(notes: &[u8]) -> impl Iterator<Item = Note<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (header, _) = object::pod::from_bytes::<elf::NoteHeader64<NativeEndian>>(notes.get(at..at + 12)?).ok()?;
        let (name_size, size) = (header.n_namesz(NativeEndian) as usize, header.n_descsz(NativeEndian) as usize);
        let name = notes.get(at + 12..at + 12 + name_size)?;
        let start = at + 12 + name_size.next_multiple_of(4);
        let content = notes.get(start..start + size)?;
        at = start + size.next_multiple_of(4);
        let owner = name.strip_suffix(b"\0").unwrap_or(name);
        Some(Note { owner, kind: header.n_type(NativeEndian).0, content, at: start })
    })
}

/// Of the file that a process has mapped from `start` on: each segment of notes with its address. None: no ELF file.
pub fn in_memory(memory: &Memory, start: u64) -> nix::Result<Vec<(u64, Vec<u8>)>> {
    let read = |(address, size): &(u64, u64)| {
        let mut notes = vec![0; (*size).min(NOTES_MAX) as usize];
        memory.read(*address, &mut notes).ok().map(|()| (*address, notes))
    };
    Ok(segments_in(memory, start, elf::PT_NOTE)?.iter().filter_map(read).collect())
}

/// The addresses and sizes of the segments of a kind, of the file that a process has mapped from `start` on.
pub fn segments_in(memory: &Memory, start: u64, kind: elf::ProgramType) -> nix::Result<Vec<(u64, u64)>> {
    let mut head = [0; HEADERS_MAX];
    let length = memory.read_some(start, &mut head)?;
    let Some(segments) = segments(&head[..length]) else { return Ok(Vec::new()) };
    let is_first = |s: &&Segment| s.p_type(NativeEndian) == elf::PT_LOAD && s.p_offset(NativeEndian) == 0;
    let Some(first) = segments.iter().find(is_first) else { return Ok(Vec::new()) };
    let bias = start.wrapping_sub(first.p_vaddr(NativeEndian));
    let place = |s: &Segment| (bias.wrapping_add(s.p_vaddr(NativeEndian)), s.p_memsz(NativeEndian));
    Ok(segments.iter().filter(|s| s.p_type(NativeEndian) == kind).map(place).collect())
}

/// Of a file, of which `start` is the beginning.
pub fn in_file(start: &[u8]) -> Option<Vec<&[u8]>> {
    let part = |segment: &Segment| {
        let (offset, size) = (segment.p_offset(NativeEndian) as usize, segment.p_filesz(NativeEndian) as usize);
        start.get(offset..offset.checked_add(size)?)
    };
    let notes = segments(start)?.iter().filter(|s| s.p_type(NativeEndian) == elf::PT_NOTE);
    Some(notes.filter_map(part).collect())
}

fn segments(head: &[u8]) -> Option<&[Segment]> {
    Header::parse(head).ok()?.program_headers(NativeEndian, head).ok()
}
