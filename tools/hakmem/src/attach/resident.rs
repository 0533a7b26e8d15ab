// SPDX-License-Identifier: MIT
//! What the kernel has resident of hakmem's memory: of whole mappings as `smaps` tells, of parts of one by `pagemap`.

use super::record::table_bytes;
use super::Attached;
use crate::lists::Word;
use anyhow::{Context, Result};
use procfs::process::{MMPermissions, MMapPath, MemoryMap, MemoryMaps};
use procfs::FromBufRead;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;

const PRESENT: u64 = 1 << 63;
const HUGE_MAX: u64 = 1 << 20;

/// Bytes.
#[derive(Debug, Default)]
pub struct Resident {
    /// Of the window, of the areas of records, of blocks with a mapping of their own.
    pub window: u64,
    pub areas: u64,
    pub huge: u64,
    pub swapped: u64,
    /// Address space of all of them.
    pub mapped: u64,
    pub mapped_areas: u64,
}

enum Part {
    Window,
    Areas,
    Huge,
}

impl Resident {
    pub fn of(process: &Attached) -> Result<Resident> {
        let ranges = ranges(process)?;
        let pages = Pages::of(process.pid)?;
        let mut sums = Resident::default();
        let text = fs::read(format!("/proc/{}/smaps", process.pid))?;
        let text = String::from_utf8_lossy(&text); // a file's name may be of any bytes
        for map in MemoryMaps::from_buf_read(text.as_bytes())?.iter() {
            if map.perms.contains(MMPermissions::WRITE) && is_anonymous(map) {
                sums.add(map, &ranges, &pages)?;
            }
        }
        Ok(sums)
    }

    fn add(&mut self, map: &MemoryMap, ranges: &[(Part, Range<u64>)], pages: &Pages) -> Result<()> {
        let (start, end) = map.address;
        for (part, range) in ranges {
            let (from, to) = (start.max(range.start), end.min(range.end));
            if from >= to {
                continue;
            }
            let whole = from == start && to == end;
            let bytes = if whole { figure(map, "Rss") } else { pages.resident(from..to)? };
            self.swapped += if whole { figure(map, "Swap") } else { 0 };
            self.mapped += to - from;
            match part {
                Part::Window => self.window += bytes,
                Part::Huge => self.huge += bytes,
                Part::Areas => {
                    self.areas += bytes;
                    self.mapped_areas += to - from;
                }
            }
        }
        Ok(())
    }
}

fn figure(map: &MemoryMap, name: &str) -> u64 {
    map.extension.map.get(name).copied().unwrap_or(0)
}

/// The kernel has a name for those that a program named (PR_SET_VMA_ANON_NAME).
fn is_anonymous(map: &MemoryMap) -> bool {
    matches!(&map.pathname, MMapPath::Anonymous)
        || matches!(&map.pathname, MMapPath::Other(name) if name.starts_with("anon:"))
}

fn ranges(process: &Attached) -> Result<Vec<(Part, Range<u64>)>> {
    let record = &process.record;
    let base = process.number(Word::WindowBase)?;
    let size = process.number(Word::WindowSuperslabs)?.saturating_mul(record.word(Word::SuperslabBytes)?);
    let mut ranges = vec![(Part::Window, base..base.saturating_add(size))];
    let count = record.size(Word::AreaCount)?;
    let areas = process.memory.words(record.word(Word::Areas)?, count)?;
    let sizes = process.memory.words(record.word(Word::AreaSizes)?, count)?;
    ranges.extend(areas.iter().zip(sizes).map(|(&area, size)| (Part::Areas, area..area.saturating_add(size))));
    ranges.extend(huge_blocks(process)?.into_iter().map(|range| (Part::Huge, range)));
    Ok(ranges)
}

/// The registry may be moved while it is read: what is no range is left out.
fn huge_blocks(process: &Attached) -> Result<Vec<Range<u64>>> {
    let record = &process.record;
    let count = process.number(Word::HugeCount)?;
    if count == 0 || count > HUGE_MAX {
        return Ok(Vec::new());
    }
    let (start, size) = (record.field(Word::HugeStart)?, record.field(Word::HugeSize)?);
    let stride = record.stride(Word::HugeStride, &[start, size])?;
    let mut blocks = vec![0; table_bytes(count as usize, stride)?];
    process.memory.read(process.number(Word::HugeBlocks)?, &mut blocks)?;
    let range = |block: &[u8]| Some(start.of(block)..start.of(block).checked_add(size.of(block))?);
    Ok(blocks.chunks_exact(stride).filter_map(range).collect())
}

struct Pages {
    file: File,
    size: u64,
}

impl Pages {
    fn of(pid: i32) -> Result<Pages> {
        let path = format!("/proc/{pid}/pagemap");
        Ok(Pages { file: File::open(&path).context(path)?, size: procfs::page_size() })
    }

    fn resident(&self, range: Range<u64>) -> Result<u64> {
        let mut sum = 0;
        let mut entries = [0; 64 * 1024];
        let (mut page, end) = (range.start / self.size, range.end.div_ceil(self.size));
        while page < end {
            let wanted = (8 * (end - page)).min(entries.len() as u64) as usize;
            let read = self.file.read_at(&mut entries[..wanted], page * 8)?;
            if read < 8 {
                break;
            }
            let words =
                entries[..read].chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
            sum += words.filter(|word| word & PRESENT != 0).count() as u64 * self.size;
            page += read as u64 / 8;
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_one_by_one() {
        let page = procfs::page_size() as usize;
        let memory = vec![1u8; 64 * page];
        let start = (memory.as_ptr() as u64).next_multiple_of(page as u64);
        let pages = Pages::of(std::process::id() as i32).unwrap();
        assert_eq!(pages.resident(start..start + 10 * page as u64).unwrap(), 10 * page as u64);
    }
}
