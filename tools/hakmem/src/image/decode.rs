// SPDX-License-Identifier: MIT
//! From the bytes of a profile to what they mean. A file that is cut or damaged is an error that says so.

use super::layout::{self, header, point, sample, section, site, stack, thread, Place};
use super::{Amount, Figures, Node, Point, Profile, Sample, Site, Thread};
use crate::attach::maps;
use crate::output;
use anyhow::{bail, ensure, Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

const MAGIC: &[u8; 16] = b"hakmem-profile\0\0";

/// A part of a table, as the header's list has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Section {
    pub kind: u64,
    pub stride: u64,
    pub place: u64,
    pub bytes: u64,
}

/// A table: its entries one behind the other, without what this reader does not know of them.
#[derive(Debug, Default)]
pub struct Table {
    pub bytes: Vec<u8>,
    pub entry: usize,
}

impl Table {
    pub fn entries(&self) -> std::slice::ChunksExact<'_, u8> {
        self.bytes.chunks_exact(self.entry.max(1))
    }
}

/// Whether these 16 bytes begin a profile.
pub fn is_profile(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

pub fn check_format(head: &[u8]) -> Result<()> {
    let format = header::FORMAT.of(head);
    ensure!(
        format == layout::PROFILE_FORMAT as u64,
        "is a profile of format {format}, and this tool reads format {}: use the hakmem tool of its version ({})",
        layout::PROFILE_FORMAT,
        version(header::LIBRARY_VERSION.of(head))
    );
    Ok(())
}

pub fn version(number: u64) -> String {
    format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100)
}

/// Where the list of sections lies, its stride, and how many there are.
pub fn section_list(head: &[u8]) -> Result<(u64, usize, usize)> {
    let stride = header::SECTION_STRIDE.of(head) as usize;
    let count = header::SECTION_COUNT.of(head) as usize;
    ensure!(stride >= section::STRIDE_BYTES && stride <= 4096 && count <= 65536, "has a damaged list of sections");
    Ok((header::HEADER_BYTES.of(head), stride, count))
}

pub fn sections(list: &[u8], stride: usize) -> Vec<Section> {
    let of = |bytes: &[u8]| Section {
        kind: section::KIND.of(bytes),
        stride: section::STRIDE.of(bytes),
        place: section::PLACE.of(bytes),
        bytes: section::BYTES.of(bytes),
    };
    list.chunks_exact(stride).map(of).filter(|section| section.kind != layout::PROFILE_UNUSED as u64).collect()
}

/// All pieces of a table. `read` brings the bytes of a section.
pub fn table(
    sections: &[Section],
    kind: usize,
    entry: usize,
    mut read: impl FnMut(&Section) -> Result<Vec<u8>>,
) -> Result<Table> {
    let mut table = Table { bytes: Vec::new(), entry };
    for section in sections.iter().filter(|section| section.kind == kind as u64) {
        let stride = section.stride as usize;
        ensure!(stride >= entry, "has entries of {stride} bytes where {entry} are needed (section {kind})");
        let bytes = read(section)?;
        if stride == entry {
            table.bytes.extend_from_slice(&bytes[..bytes.len() / entry * entry]);
        } else {
            bytes.chunks_exact(stride).for_each(|one| table.bytes.extend_from_slice(&one[..entry]));
        }
    }
    Ok(table)
}

/// Of a file.
pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Profile> {
    read_file(bytes).map(|mut profile| {
        profile.origin = path.display().to_string();
        profile
    })
}

fn read_file(bytes: &[u8]) -> Result<Profile> {
    ensure!(bytes.len() >= 16 && is_profile(bytes), "is no heap profile of hakmem's");
    let cut = |what: &str, end: u64| {
        format!(
            "is cut: {what} ends at byte {end}, and the file has {}; was the program killed as it wrote?",
            bytes.len()
        )
    };
    ensure!(bytes.len() >= header::STRIDE_BYTES, "{}", cut("its header", header::STRIDE_BYTES as u64));
    check_format(bytes)?;
    ensure!(
        header::FLAGS.of(bytes) & layout::PROFILE_IS_LIVE as u64 == 0,
        "is a copy of memory, with addresses for places"
    );
    let (start, stride, count) = section_list(bytes)?;
    let end = start.saturating_add((stride * count) as u64);
    let list = bytes.get(start as usize..end as usize).with_context(|| cut("its list of sections", end))?;
    let sections = sections(list, stride);
    let of = |section: &Section| {
        let end = section.place.saturating_add(section.bytes);
        let part = bytes.get(section.place as usize..end as usize);
        part.map(<[u8]>::to_vec).with_context(|| cut(&format!("section {}", section.kind), end))
    };
    let mut profile = from_header(bytes);
    let get = |kind, entry| table(&sections, kind, entry, of);
    add_stacks(&mut profile, &get(layout::PROFILE_STACKS, stack::STRIDE_BYTES)?);
    add_sites(&mut profile, &get(layout::PROFILE_SITES, site::STRIDE_BYTES)?, header::PEAK_EPOCH.of(bytes));
    add_samples(&mut profile, &get(layout::PROFILE_SAMPLES, sample::STRIDE_BYTES)?);
    add_timeline(&mut profile, &get(layout::PROFILE_TIMELINE, point::STRIDE_BYTES)?);
    add_threads(&mut profile, &get(layout::PROFILE_THREADS, thread::STRIDE_BYTES)?);
    let text = |kind| get(kind, 1).map(|table| String::from_utf8_lossy(&table.bytes).into_owned());
    profile.maps = maps::parse(&text(layout::PROFILE_MAPS)?);
    profile.options = options(&text(layout::PROFILE_OPTIONS)?);
    profile.figures = figures(&text(layout::PROFILE_FIGURES)?);
    if profile.sites.is_empty() && header::ALLOC_BYTES.of(bytes) > 0 {
        bail!("has no table of sites");
    }
    Ok(profile)
}

fn options(text: &str) -> Vec<(String, String)> {
    let pairs = text.trim_end_matches('\0').lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// None: from a library before them, or it knew of nothing. Of classes the file says nothing.
fn figures(text: &str) -> Option<Figures> {
    let named: BTreeMap<&str, u64> =
        text.lines().filter_map(|line| line.split_once('=')).filter_map(|(n, v)| Some((n, v.parse().ok()?))).collect();
    let value = |name| named.get(name).copied();
    Some(Figures {
        resident: value("resident")?,
        live: value("live")?,
        untouched: value("untouched")?,
        cached: value("cached")?,
        fragmented: value("fragmented")?,
        retained: value("retained")?,
        metadata: value("metadata")?,
        given_back: value("purged_bytes")?,
        classes: Vec::new(),
    })
}

fn bytes_of(sum: u64) -> f64 {
    sum as f64 / f64::from(1u32 << layout::PROFILE_BYTES_SHIFT)
}

fn objects_of(sum: u64) -> f64 {
    sum as f64 / f64::from(1u32 << layout::PROFILE_OBJECTS_SHIFT)
}

/// A sum of bytes and one of objects, of what only grows.
fn whole(structure: &[u8], bytes: Place, objects: Place) -> Amount {
    Amount { bytes: bytes_of(bytes.of(structure)), objects: objects_of(objects.of(structure)) }
}

/// Of what is live. Freed may be beyond allocated for a moment, and live then wraps.
fn amount(structure: &[u8], bytes: Place, objects: Place) -> Amount {
    let sane = |value: u64| if value > i64::MAX as u64 { 0 } else { value };
    Amount { bytes: bytes_of(sane(bytes.of(structure))), objects: objects_of(sane(objects.of(structure))) }
}

pub fn from_header(head: &[u8]) -> Profile {
    use header as h;
    let interval = |place: Place| 1u64 << place.of(head).min(62);
    let flags = h::FLAGS.of(head);
    Profile {
        pid: h::PROCESS_ID.of(head) as u32,
        is_running: flags & layout::PROFILE_IS_LIVE as u64 != 0,
        is_active: flags & layout::PROFILE_IS_ACTIVE as u64 != 0,
        is_asked: flags & layout::PROFILE_IS_ASKED as u64 != 0,
        interval: interval(h::INTERVAL_LOG2),
        first_interval: interval(h::FIRST_INTERVAL_LOG2),
        longest_interval: interval(h::LONGEST_LOG2),
        thinnings: h::THINNINGS.of(head),
        resets: h::RESETS.of(head),
        samples_taken: h::SAMPLES.of(head),
        samples_lost: h::LOST.of(head),
        start_unix_ns: h::START_UNIX_NS.of(head),
        elapsed_us: h::ELAPSED_US.of(head),
        alloc: whole(head, h::ALLOC_BYTES, h::ALLOC_OBJECTS),
        live: amount(head, h::LIVE_BYTES, h::LIVE_OBJECTS),
        peak: amount(head, h::PEAK_BYTES, h::PEAK_OBJECTS),
        peak_us: h::PEAK_US.of(head),
        ..Profile::default()
    }
}

pub fn add_stacks(profile: &mut Profile, table: &Table) {
    let node = |entry: &[u8]| Node { pc: stack::PC.of(entry), parent: stack::PARENT.of(entry) as u32 };
    profile.nodes = table.entries().map(node).collect();
}

/// A site that did not change since the peak had then what it has now.
pub fn add_sites(profile: &mut Profile, table: &Table, peak_epoch: u64) {
    use site as s;
    let of = |entry: &[u8]| {
        let live = amount(entry, s::LIVE_BYTES, s::LIVE_OBJECTS);
        let changed = s::PEAK_EPOCH.of(entry) == peak_epoch;
        let mut lifetimes = [0.0; super::LIFETIMES];
        for (index, objects) in lifetimes.iter_mut().enumerate() {
            *objects = objects_of(s::LIFETIMES.at(entry, index));
        }
        Site {
            stack: s::STACK.of(entry) as u32,
            samples: s::ALLOC_SAMPLES.of(entry),
            freed_samples: s::FREE_SAMPLES.of(entry),
            alloc: whole(entry, s::ALLOC_BYTES, s::ALLOC_OBJECTS),
            freed: whole(entry, s::FREE_BYTES, s::FREE_OBJECTS),
            live,
            peak: if changed { amount(entry, s::PEAK_BYTES, s::PEAK_OBJECTS) } else { live },
            temporary: whole(entry, s::TEMPORARY_BYTES, s::TEMPORARY_OBJECTS),
            same_thread: objects_of(s::SAME_THREAD_OBJECTS.of(entry)),
            lifetimes,
        }
    };
    profile.sites = table.entries().map(of).collect();
}

/// What a sampled block stands for.
pub fn weight(size: u64, interval_log2: u64) -> Amount {
    let size = size.max(1) as f64;
    let interval = (interval_log2.min(62) as f64).exp2();
    let probability = if interval_log2 == 0 { 1.0 } else { -(-size / interval).exp_m1() };
    Amount { bytes: size / probability, objects: 1.0 / probability }
}

pub fn add_samples(profile: &mut Profile, table: &Table) {
    use sample as s;
    let sites = profile.sites.len() as u64;
    let there = |entry: &&[u8]| s::ADDRESS.of(entry) != 0 && s::SITE.of(entry) < sites;
    let of = |entry: &[u8]| Sample {
        address: s::ADDRESS.of(entry),
        size: s::SIZE.of(entry),
        slack: s::SLACK.of(entry),
        time_us: s::TIME_US.of(entry),
        site: s::SITE.of(entry) as u32,
        thread: s::THREAD.of(entry) as u32,
        weight: weight(s::SIZE.of(entry), s::INTERVAL_LOG2.of(entry)),
    };
    profile.samples = table.entries().filter(there).map(of).collect();
}

pub fn add_timeline(profile: &mut Profile, table: &Table) {
    use point as p;
    let of = |entry: &[u8]| Point {
        time_us: p::TIME_US.of(entry),
        live: amount(entry, p::LIVE_BYTES, p::LIVE_OBJECTS),
        resident: Some(p::RESIDENT_BYTES.of(entry)).filter(|&bytes| bytes != 0),
        mapped: p::MAPPED_BYTES.of(entry),
    };
    profile.timeline = table.entries().map(of).collect();
    profile.timeline.sort_by_key(|point| point.time_us);
}

pub fn add_threads(profile: &mut Profile, table: &Table) {
    let of = |entry: &[u8]| {
        let name = &entry[thread::NAME.offset..];
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let name = output::name(&String::from_utf8_lossy(&name[..end]));
        Thread { id: thread::THREAD.of(entry) as u32, name }
    };
    profile.threads = table.entries().map(of).filter(|thread| thread.id != 0).collect();
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Block, Fixture};
    use super::*;
    use crate::report::{groups, text};

    fn refusal(bytes: &[u8]) -> String {
        from_bytes(bytes, Path::new("f")).unwrap_err().to_string()
    }

    #[test]
    fn a_file_is_read_whole() {
        let mut fixture = Fixture::new(0);
        let stack = fixture.stack(&[0x1000, 0x2000]);
        fixture.block(Block { stack, size: 100, slack: 12, thread: 7, ..Block::default() });
        fixture.freed(stack, 50, 20);
        fixture.thread(7, "work\ner");
        fixture.point(5, 100, 4096);
        fixture.maps = "1000-3000 r-xp 00000000 00:00 0 /bin/x\n".into();
        fixture.options = "HAKMEM_SAFE=2\n".into();
        assert_eq!(from_bytes(&fixture.bytes(), Path::new("heap.1")).unwrap().figures, None);
        let names = ["resident", "live", "untouched", "cached", "fragmented", "retained", "metadata", "purged_bytes"];
        fixture.figures = names.iter().enumerate().map(|(at, name)| format!("{name}={at}\n")).collect();
        let profile = from_bytes(&fixture.bytes(), Path::new("heap.1")).unwrap();
        assert_eq!((profile.interval, &profile.origin[..]), (1, "heap.1"));
        let (_, site) = profile.real_sites().next().unwrap();
        assert_eq!(site.live, Amount { bytes: 100.0, objects: 1.0 });
        assert_eq!(site.alloc, Amount { bytes: 150.0, objects: 2.0 });
        assert_eq!(site.lifetimes[2], 1.0);
        assert_eq!(profile.stack(site.stack), [0x1000, 0x2000]);
        assert_eq!((profile.samples[0].slack, profile.samples[0].thread), (12, 7));
        assert_eq!(profile.thread_name(7), "work?er");
        assert_eq!(profile.timeline[0].resident, Some(4096));
        assert_eq!(profile.options, [("HAKMEM_SAFE".to_string(), "2".to_string())]);
        let figures = profile.figures.clone().unwrap();
        assert_eq!((figures.resident, figures.live, figures.cached, figures.given_back), (0, 1, 3, 7));
        assert!(profile.mapping(0x1234).unwrap().is_code);
    }

    #[test]
    fn weights_are_unbiased() {
        assert_eq!(weight(100, 0), Amount { bytes: 100.0, objects: 1.0 });
        let small = weight(16, 19);
        assert!((small.bytes - 524_296.0).abs() < 1.0 && (small.objects - 32768.5).abs() < 1.0, "{small:?}");
        let large = weight(1 << 30, 19);
        assert_eq!(large, Amount { bytes: f64::from(1 << 30), objects: 1.0 });
    }

    /// The time of a copy of it is that of the second one alone.
    #[test]
    fn what_was_before_is_taken_away() {
        let mut fixture = Fixture::new(0);
        let stack = fixture.stack(&[0x1000]);
        fixture.block(Block { stack, size: 100, time_us: 1_000_000, ..Block::default() });
        fixture.point(1_000_000, 100, 4096);
        fixture.elapsed_us = 2_000_000;
        let before = from_bytes(&fixture.bytes(), Path::new("f")).unwrap();
        fixture.block(Block { stack, size: 50, time_us: 9_000_000, ..Block::default() });
        fixture.point(9_000_000, 150, 8192);
        fixture.elapsed_us = 10_000_000;
        let both = from_bytes(&fixture.bytes(), Path::new("f")).unwrap();
        let profile = both.clone().since(&before);
        assert_eq!((profile.elapsed_us, profile.samples_taken), (8_000_000, 1));
        assert_eq!(profile.start_unix_ns, both.start_unix_ns + 2_000_000_000);
        assert_eq!((profile.alloc.bytes, profile.live.bytes, profile.peak.bytes), (50.0, 50.0, 50.0));
        assert_eq!(profile.samples.iter().map(|sample| sample.time_us).collect::<Vec<_>>(), [7_000_000]);
        let site = &profile.sites[1];
        assert_eq!((site.samples, site.live.bytes, site.peak.bytes), (1, 50.0, 50.0));
        assert_eq!(profile.timeline[0].live.bytes, 50.0);
        assert_eq!(profile.timeline.iter().map(|point| point.time_us).collect::<Vec<_>>(), [7_000_000]);
    }

    /// What was before it is of another profile, whose sites had these numbers.
    #[test]
    fn a_profile_that_the_program_began_anew_has_nothing_before_it() {
        let mut fixture = Fixture::new(0);
        let stack = fixture.stack(&[0x1000]);
        (0..5).for_each(|_| fixture.freed(stack, 100, 5));
        let before = from_bytes(&fixture.bytes(), Path::new("f")).unwrap();
        let mut fixture = Fixture::new(0);
        fixture.resets = 1;
        let stack = fixture.stack(&[0x2000]);
        fixture.block(Block { stack, size: 50, time_us: 9_000_000, ..Block::default() });
        let profile = from_bytes(&fixture.bytes(), Path::new("f")).unwrap().since(&before);
        assert_eq!((profile.elapsed_us, profile.samples_taken, profile.alloc.bytes), (10_000_000, 1, 50.0));
        assert_eq!((profile.sites[1].samples, profile.sites[1].alloc.bytes), (1, 50.0));
        assert_eq!(profile.samples[0].time_us, 9_000_000);
    }

    /// After hours of nothing but large blocks; what is live is less than nothing for a moment only.
    #[test]
    fn what_was_allocated_may_be_as_much_as_fits() {
        let mut fixture = Fixture::new(19);
        let stack = fixture.stack(&[0x1000]);
        fixture.freed(stack, 100, 5);
        let mut bytes = fixture.bytes();
        let full = |place: Place, bytes: &mut [u8]| bytes[place.offset..place.offset + 8].fill(0xff);
        full(header::ALLOC_BYTES, &mut bytes);
        full(header::LIVE_BYTES, &mut bytes);
        let profile = from_bytes(&bytes, Path::new("f")).unwrap();
        assert_eq!((profile.alloc.bytes, profile.live.bytes), (60f64.exp2(), 0.0));
    }

    /// A sample counts by its own interval wherever it is summed, and the reader is told.
    #[test]
    fn a_thread_in_haste_has_an_interval_of_its_own() {
        let mut fixture = Fixture::new(19);
        let stack = fixture.stack(&[0x1000]);
        fixture.block(Block { stack, size: 64, thread: 7, longer_log2: 10, ..Block::default() });
        let profile = from_bytes(&fixture.bytes(), Path::new("f")).unwrap();
        assert_eq!((profile.interval, profile.longest_interval), (1 << 19, 1 << 29));
        let expected = f64::from((1u32 << 29) + 32);
        let near = |bytes: f64| (bytes - expected).abs() < 1.0;
        let (thread, class) = (&groups::by_thread(&profile)[0], &groups::by_class(&profile)[0]);
        assert!(near(profile.live.bytes) && near(profile.samples[0].weight.bytes));
        assert!(near(thread.live.bytes) && near(class.live.bytes));
        let said = &text::remarks(&profile)[0];
        assert!(said.contains("sampled less often, down to one each 512"), "{said}");
        assert!(text::remarks(&from_bytes(&Fixture::new(19).bytes(), Path::new("f")).unwrap()).is_empty());
    }

    #[test]
    fn what_is_no_profile_is_refused_with_a_reason() {
        assert_eq!(refusal(b""), "is no heap profile of hakmem's");
        let mut fixture = Fixture::new(19);
        let stack = fixture.stack(&[0x1000]);
        fixture.block(Block { stack, size: 100, ..Block::default() });
        let whole = fixture.bytes();
        let said = refusal(&whole[..100]);
        assert!(said.starts_with("is cut: its header ends at byte 160, and the file has 100"), "{said}");
        let said = refusal(&whole[..whole.len() - 1]);
        assert!(said.starts_with("is cut: section"), "{said}");
        let mut newer = whole.clone();
        newer[header::FORMAT.offset] = 2;
        let said = refusal(&newer);
        assert!(said.contains("format 2, and this tool reads format 1: use the hakmem tool of its version"), "{said}");
    }

    /// Any single byte may be wrong: an error or other figures, and no panic.
    #[test]
    fn damage_does_not_end_the_reader() {
        let mut fixture = Fixture::new(12);
        let stack = fixture.stack(&[0x1000, 0x2000, 0x3000]);
        fixture.block(Block { stack, size: 100, ..Block::default() });
        fixture.point(1, 1, 1);
        let whole = fixture.bytes();
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                if let Ok(profile) = from_bytes(&damaged, Path::new("f")) {
                    for (_, site) in profile.real_sites() {
                        profile.stack(site.stack);
                    }
                }
            }
        }
    }
}
