// SPDX-License-Identifier: MIT
//! What the kernel has resident of hakmem's memory, as `pagemap` tells: stretch by stretch where the kernel finds them
//! (PAGEMAP_SCAN, Linux 6.7), or page by page. `smaps` would do with fewer calls, but keeps the process from mapping
//! memory for as long as it walks over one mapping, and the window is one.

use super::maps::{self, Mapping};
use super::page_scan::Scan;
use super::record::table_bytes;
use super::{status_of, Attached};
use crate::lists::Word;
use anyhow::{Context, Result};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Of an entry of /proc/PID/pagemap. A page that this process alone has mapped is no page of zeros of the kernel's.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const ALONE: u64 = 1 << 56;
/// Bytes of entries that are read at once, 32 MiB of the process's memory: what it maps and unmaps waits so long, and
/// comes before the next piece.
const PIECE: usize = 64 * 1024;
const PAUSE: Duration = Duration::from_micros(20);
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

/// Bytes of a range.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    present: u64,
    /// Part of what is present.
    shared: u64,
    swapped: u64,
}

impl Resident {
    pub fn of(process: &Attached) -> Result<Resident> {
        let (ranges, pages) = (ranges(process)?, Pages::of(process.thread)?);
        let (mut sums, mut shared) = (Resident::default(), Resident::default());
        for map in maps::of_process(process.thread)?.iter().filter(|map| map.is_writable && is_anonymous(map)) {
            for (part, range) in &ranges {
                let common = map.start.max(range.start)..map.end.min(range.end);
                if common.start < common.end {
                    sums.add(part, &common, &pages.counts(common.clone())?, &mut shared);
                }
            }
        }
        let anonymous = status_of(process.thread).and_then(|status| status.rssanon).map_or(u64::MAX, |kib| kib * 1024);
        sums.leave_out_zeros(&shared, anonymous);
        Ok(sums)
    }

    fn add(&mut self, part: &Part, range: &Range<u64>, counts: &Counts, shared: &mut Resident) {
        *self.part(part) += counts.present;
        *shared.part(part) += counts.shared;
        self.swapped += counts.swapped;
        self.mapped += range.end - range.start;
        if matches!(part, Part::Areas) {
            self.mapped_areas += range.end - range.start;
        }
    }

    fn part(&mut self, part: &Part) -> &mut u64 {
        match part {
            Part::Window => &mut self.window,
            Part::Areas => &mut self.areas,
            Part::Huge => &mut self.huge,
        }
    }

    /// Memory that was read and never written is mapped to pages of zeros, which are present and no memory of the
    /// process's. From outside they look as those that forks share. What is above all that is anonymous is of them.
    fn leave_out_zeros(&mut self, shared: &Resident, anonymous: u64) {
        let mut above = (self.window + self.areas + self.huge).saturating_sub(anonymous);
        for (own, shared) in
            [(&mut self.huge, shared.huge), (&mut self.window, shared.window), (&mut self.areas, shared.areas)]
        {
            let zeros = above.min(shared);
            *own -= zeros;
            above -= zeros;
        }
    }
}

/// The kernel has a name for those that a program named (PR_SET_VMA_ANON_NAME).
fn is_anonymous(map: &Mapping) -> bool {
    map.path.is_empty() || map.path.starts_with("[anon:")
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

    fn counts(&self, range: Range<u64>) -> Result<Counts> {
        match self.scanned(&range) {
            Some(counts) => Ok(counts),
            None => self.read(range),
        }
    }

    /// None: an older kernel. It tells pages of zeros from others.
    fn scanned(&self, range: &Range<u64>) -> Option<Counts> {
        let mut sums = Counts::default();
        let mut scan = Scan::of(&self.file, range.start / self.size * self.size..range.end.next_multiple_of(self.size));
        while !scan.is_over() {
            for stretch in scan.next().ok()? {
                let bytes = stretch.end - stretch.start;
                sums.present += if stretch.is_present() && !stretch.is_zeros() { bytes } else { 0 };
                sums.swapped += if stretch.is_swapped() { bytes } else { 0 };
            }
            std::thread::sleep(PAUSE);
        }
        Some(sums)
    }

    fn read(&self, range: Range<u64>) -> Result<Counts> {
        let mut sums = Counts::default();
        let mut entries = [0; PIECE];
        let (mut page, end) = (range.start / self.size, range.end.div_ceil(self.size));
        while page < end {
            let wanted = (8 * (end - page)).min(entries.len() as u64) as usize;
            let read = self.file.read_at(&mut entries[..wanted], page * 8)?;
            if read < 8 {
                break;
            }
            for word in entries[..read].chunks_exact(8) {
                let entry = u64::from_ne_bytes(word.try_into().expect("8 bytes"));
                sums.present += if entry & PRESENT != 0 { self.size } else { 0 };
                sums.shared += if entry & (PRESENT | ALONE) == PRESENT { self.size } else { 0 };
                sums.swapped += if entry & SWAPPED != 0 { self.size } else { 0 };
            }
            page += read as u64 / 8;
            if read == PIECE {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(sums)
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
        let range = start..start + 10 * page as u64;
        for counts in [pages.counts(range.clone()).unwrap(), pages.read(range).unwrap()] {
            assert_eq!((counts.present, counts.swapped), (10 * page as u64, 0));
        }
    }

    #[test]
    fn pages_of_zeros_are_not_resident() {
        let page = procfs::page_size();
        // SAFETY: new memory, which this test alone has.
        let start = unsafe {
            let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(std::ptr::null_mut(), 4 * page as usize, access, kind, -1, 0)
        } as *mut u8;
        // SAFETY: the first page of it.
        let zero = unsafe { start.read_volatile() };
        let (pages, range) = (Pages::of(std::process::id() as i32).unwrap(), start as u64..start as u64 + page);
        let counts = pages.read(range.clone()).unwrap();
        assert_eq!((zero, counts.present, counts.shared), (0, page, page));
        assert!(pages.scanned(&range).is_none_or(|counts| counts == Counts::default()));
        let shared = Resident { window: 40, areas: 5, huge: 30, ..Resident::default() };
        let sums = |anonymous: u64| {
            let mut sums = Resident { window: 100, areas: 20, huge: 30, ..Resident::default() };
            sums.leave_out_zeros(&shared, anonymous);
            [sums.window, sums.areas, sums.huge]
        };
        assert_eq!([1000, 150].map(sums), [[100, 20, 30]; 2]);
        assert_eq!([140, 110, 0].map(sums), [[100, 20, 20], [90, 20, 0], [60, 15, 0]]);
    }
}
