// SPDX-License-Identifier: MIT
//! Writes profiles in the format of docs/profile-format.md, for tests.

use super::decode::weight;
use super::layout::{self, header, point, sample, section, site, stack, thread, Place};
use super::Amount;
use std::collections::HashMap;

#[derive(Clone, Copy, Default)]
pub struct Block {
    pub stack: u32,
    pub size: u64,
    pub slack: u64,
    pub time_us: u64,
    pub thread: u32,
    /// Its thread was sampled less often than was asked for, by this power of two.
    pub longer_log2: u64,
}

#[derive(Clone, Default)]
struct SiteSums {
    stack: u32,
    samples: u64,
    freed_samples: u64,
    alloc: Amount,
    live: Amount,
    peak: Amount,
    temporary: Amount,
    lifetimes: [f64; 16],
}

/// A profile that is being made up.
#[derive(Default)]
pub struct Fixture {
    pub pid: u32,
    pub elapsed_us: u64,
    pub resets: u64,
    pub start_unix_ns: u64,
    pub maps: String,
    pub options: String,
    pub figures: String,
    interval_log2: u64,
    nodes: Vec<(u64, u32)>,
    node_of: HashMap<(u64, u32), u32>,
    site_of: HashMap<u32, usize>,
    sites: Vec<SiteSums>,
    blocks: Vec<Block>,
    points: Vec<(u64, u64, u64)>,
    threads: Vec<(u32, String)>,
}

fn put(structure: &mut [u8], place: Place, value: u64) {
    structure[place.offset..place.offset + place.size].copy_from_slice(&value.to_le_bytes()[..place.size]);
}

fn put_amount(structure: &mut [u8], (bytes, objects): (Place, Place), amount: Amount) {
    put(structure, bytes, (amount.bytes * f64::from(1 << layout::PROFILE_BYTES_SHIFT)) as u64);
    put(structure, objects, (amount.objects * f64::from(1 << layout::PROFILE_OBJECTS_SHIFT)) as u64);
}

impl Fixture {
    pub fn new(interval_log2: u64) -> Fixture {
        Fixture {
            interval_log2,
            pid: 42,
            elapsed_us: 10_000_000,
            start_unix_ns: 1_700_000_000_000_000_000,
            nodes: vec![(0, 0)],
            sites: vec![SiteSums::default()],
            ..Fixture::default()
        }
    }

    /// Innermost frame first.
    pub fn stack(&mut self, frames: &[u64]) -> u32 {
        let mut parent = 0;
        for &pc in frames.iter().rev() {
            let nodes = &mut self.nodes;
            parent = *self.node_of.entry((pc, parent)).or_insert_with(|| {
                nodes.push((pc, parent));
                nodes.len() as u32 - 1
            });
        }
        parent
    }

    fn site(&mut self, stack: u32) -> usize {
        let sites = &mut self.sites;
        *self.site_of.entry(stack).or_insert_with(|| {
            sites.push(SiteSums { stack, ..SiteSums::default() });
            sites.len() - 1
        })
    }

    /// A block that the program has.
    pub fn block(&mut self, block: Block) {
        let amount = weight(block.size, self.interval_log2 + block.longer_log2);
        let site = self.site(block.stack);
        let site = &mut self.sites[site];
        site.samples += 1;
        for sum in [&mut site.alloc, &mut site.live, &mut site.peak] {
            sum.add(amount);
        }
        self.blocks.push(block);
    }

    /// A block that was freed at this age.
    pub fn freed(&mut self, stack: u32, size: u64, age_us: u64) {
        let amount = weight(size, self.interval_log2);
        let site = self.site(stack);
        let site = &mut self.sites[site];
        site.samples += 1;
        site.freed_samples += 1;
        site.alloc.add(amount);
        if age_us < 1000 {
            site.temporary.add(amount);
        }
        site.lifetimes[(age_us.max(1).ilog2() / 2).min(15) as usize] += amount.objects;
    }

    pub fn point(&mut self, time_us: u64, live: u64, resident: u64) {
        self.points.push((time_us, live, resident));
    }

    pub fn thread(&mut self, id: u32, name: &str) {
        self.threads.push((id, name.to_string()));
    }

    pub fn bytes(&self) -> Vec<u8> {
        let tables = [
            (layout::PROFILE_STACKS, stack::STRIDE_BYTES, self.stack_table()),
            (layout::PROFILE_SITES, site::STRIDE_BYTES, self.site_table()),
            (layout::PROFILE_SAMPLES, sample::STRIDE_BYTES, self.sample_table()),
            (layout::PROFILE_TIMELINE, point::STRIDE_BYTES, self.point_table()),
            (layout::PROFILE_THREADS, thread::STRIDE_BYTES, self.thread_table()),
            (layout::PROFILE_MAPS, 1, self.maps.clone().into_bytes()),
            (layout::PROFILE_OPTIONS, 1, self.options.clone().into_bytes()),
            (layout::PROFILE_FIGURES, 1, self.figures.clone().into_bytes()),
        ];
        let mut out = self.header(tables.len());
        let mut place = out.len() + tables.len() * section::STRIDE_BYTES;
        for (kind, stride, bytes) in &tables {
            let mut entry = [0; section::STRIDE_BYTES];
            put(&mut entry, section::KIND, *kind as u64);
            put(&mut entry, section::STRIDE, *stride as u64);
            put(&mut entry, section::PLACE, place as u64);
            put(&mut entry, section::BYTES, bytes.len() as u64);
            out.extend_from_slice(&entry);
            place += bytes.len();
        }
        tables.iter().for_each(|(_, _, bytes)| out.extend_from_slice(bytes));
        out
    }

    fn header(&self, sections: usize) -> Vec<u8> {
        let mut head = vec![0; header::STRIDE_BYTES];
        head[..14].copy_from_slice(b"hakmem-profile");
        let sum = |of: fn(&SiteSums) -> Amount| {
            self.sites.iter().map(of).fold(Amount::default(), |mut all, one| {
                all.add(one);
                all
            })
        };
        let longer = self.blocks.iter().map(|block| block.longer_log2).max().unwrap_or(0);
        for (place, value) in [
            (header::FORMAT, layout::PROFILE_FORMAT as u64),
            (header::HEADER_BYTES, header::STRIDE_BYTES as u64),
            (header::SECTION_COUNT, sections as u64),
            (header::SECTION_STRIDE, section::STRIDE_BYTES as u64),
            (header::PROCESS_ID, self.pid.into()),
            (header::LIBRARY_VERSION, 100),
            (header::INTERVAL_LOG2, self.interval_log2),
            (header::FIRST_INTERVAL_LOG2, self.interval_log2),
            (header::START_UNIX_NS, self.start_unix_ns),
            (header::ELAPSED_US, self.elapsed_us),
            (header::SAMPLES, self.sites.iter().map(|site| site.samples).sum()),
            (header::PEAK_EPOCH, 3),
            (header::RESETS, self.resets),
            (header::LONGEST_LOG2, if longer > 0 { self.interval_log2 + longer } else { 0 }),
        ] {
            put(&mut head, place, value);
        }
        put_amount(&mut head, (header::ALLOC_BYTES, header::ALLOC_OBJECTS), sum(|site| site.alloc));
        put_amount(&mut head, (header::LIVE_BYTES, header::LIVE_OBJECTS), sum(|site| site.live));
        put_amount(&mut head, (header::PEAK_BYTES, header::PEAK_OBJECTS), sum(|site| site.peak));
        head
    }

    fn stack_table(&self) -> Vec<u8> {
        let entry = |&(pc, parent): &(u64, u32)| {
            let mut entry = [0; stack::STRIDE_BYTES];
            put(&mut entry, stack::PC, pc);
            put(&mut entry, stack::PARENT, parent.into());
            entry
        };
        self.nodes.iter().flat_map(entry).collect()
    }

    fn site_table(&self) -> Vec<u8> {
        let entry = |sums: &SiteSums| {
            let mut entry = [0; site::STRIDE_BYTES];
            put(&mut entry, site::STACK, sums.stack.into());
            put(&mut entry, site::ALLOC_SAMPLES, sums.samples);
            put(&mut entry, site::FREE_SAMPLES, sums.freed_samples);
            put(&mut entry, site::PEAK_EPOCH, 3);
            put_amount(&mut entry, (site::ALLOC_BYTES, site::ALLOC_OBJECTS), sums.alloc);
            put_amount(&mut entry, (site::FREE_BYTES, site::FREE_OBJECTS), sums.alloc.minus(sums.live));
            put_amount(&mut entry, (site::LIVE_BYTES, site::LIVE_OBJECTS), sums.live);
            put_amount(&mut entry, (site::PEAK_BYTES, site::PEAK_OBJECTS), sums.peak);
            put_amount(&mut entry, (site::TEMPORARY_BYTES, site::TEMPORARY_OBJECTS), sums.temporary);
            for (index, objects) in sums.lifetimes.iter().enumerate() {
                let place = Place { offset: site::LIFETIMES.offset + 8 * index, size: 8 };
                put(&mut entry, place, (objects * 1024.0) as u64);
            }
            entry
        };
        self.sites.iter().flat_map(entry).collect()
    }

    fn sample_table(&self) -> Vec<u8> {
        let of_site = |stack: u32| self.site_of.get(&stack).map_or(0, |&site| site as u64);
        let entry = |(index, block): (usize, &Block)| {
            let mut entry = [0; sample::STRIDE_BYTES];
            put(&mut entry, sample::ADDRESS, 0x7f00_0000_0000 + 16 * index as u64);
            put(&mut entry, sample::SIZE, block.size);
            put(&mut entry, sample::TIME_US, block.time_us);
            put(&mut entry, sample::SITE, of_site(block.stack));
            put(&mut entry, sample::SLACK, block.slack);
            put(&mut entry, sample::THREAD, block.thread.into());
            put(&mut entry, sample::INTERVAL_LOG2, self.interval_log2 + block.longer_log2);
            entry
        };
        let none = vec![0; sample::STRIDE_BYTES];
        none.into_iter().chain(self.blocks.iter().enumerate().flat_map(entry)).collect()
    }

    fn point_table(&self) -> Vec<u8> {
        let entry = |&(time_us, live, resident): &(u64, u64, u64)| {
            let mut entry = [0; point::STRIDE_BYTES];
            put(&mut entry, point::TIME_US, time_us);
            put(&mut entry, point::LIVE_BYTES, live << layout::PROFILE_BYTES_SHIFT);
            put(&mut entry, point::RESIDENT_BYTES, resident);
            entry
        };
        self.points.iter().flat_map(entry).collect()
    }

    fn thread_table(&self) -> Vec<u8> {
        let entry = |(id, name): &(u32, String)| {
            let mut entry = [0; thread::STRIDE_BYTES];
            put(&mut entry, thread::THREAD, (*id).into());
            entry[thread::NAME.offset..][..name.len()].copy_from_slice(name.as_bytes());
            entry
        };
        self.threads.iter().flat_map(entry).collect()
    }
}
