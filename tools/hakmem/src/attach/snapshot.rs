// SPDX-License-Identifier: MIT
//! The figures of a process, put together from where its allocator keeps them while it goes on allocating.
//!
//! A heap is copied in one call, what is behind its magazines twice: before them and after. A class of which both
//! copies agree was neither refilled nor flushed meanwhile, so its parts belong together. Between the heaps of two
//! threads there may be blocks that one has allocated and the other has freed a moment later: sums are exact to so
//! many.

use super::record::{table_bytes, Field, Record};
use super::resident::Resident;
use super::settings::Limits;
use super::Attached;
use crate::lists::Word;
use anyhow::{ensure, Context, Result};
use std::collections::BTreeMap;

/// Attempts at a heap whose magazines are being refilled.
const TRIES: usize = 4;
const HEAPS_MAX: u64 = 1 << 22;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    pub block_size: u64,
    /// Bytes of a slab, or of a run of large classes.
    pub span: u64,
    pub alloc_count: u64,
    pub free_local: u64,
    pub free_remote: u64,
    pub refill_count: u64,
    pub flush_count: u64,
    pub cached_blocks: u64,
    pub slab_count: u64,
    refilled: u64,
    flushed: u64,
}

impl Class {
    pub fn live_blocks(&self) -> u64 {
        self.alloc_count.saturating_sub(self.free_local + self.free_remote)
    }

    fn add(&mut self, other: &Class) {
        self.alloc_count = self.alloc_count.wrapping_add(other.alloc_count);
        self.free_local = self.free_local.wrapping_add(other.free_local);
        self.free_remote += other.free_remote;
        self.refill_count += other.refill_count;
        self.flush_count += other.flush_count;
        self.cached_blocks += other.cached_blocks;
        self.slab_count += other.slab_count;
        self.refilled += other.refilled;
        self.flushed += other.flushed;
    }

    pub fn is_empty(&self) -> bool {
        self.alloc_count == 0 && self.slab_count == 0 && self.cached_blocks == 0
    }
}

#[derive(Debug, Default)]
pub struct Pool {
    pub superslabs: u64,
    pub slots: u64,
    pub free_slots: u64,
    pub dirty_slots: u64,
    pub purging_slots: u64,
    pub slot_bytes: u64,
}

/// What adds up: resident = live - untouched + cached + fragmented + retained + metadata.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The statistics of src/api/stats.def by their names there, but for those that only the process itself can tell.
    pub values: BTreeMap<&'static str, u64>,
    pub classes: Vec<Class>,
    pub pool: Pool,
    pub swapped: u64,
    pub heaps: u64,
}

impl Snapshot {
    /// 0: it has none of that name.
    pub fn value(&self, name: &str) -> u64 {
        self.values.get(name).copied().unwrap_or(0)
    }
}

/// Sums over all heaps.
#[derive(Default)]
struct Sums {
    classes: Vec<Class>,
    large_live: i64,
    large_cached: u64,
    large_allocs: u64,
    large_frees: u64,
    lock_takes: u64,
    live_heaps: u64,
    heaps: u64,
}

impl Attached {
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.take().map_err(|error| self.told(error))
    }

    fn take(&self) -> Result<Snapshot> {
        let mut snapshot = Snapshot { pool: self.pool()?, ..Snapshot::default() };
        self.add_counters(&mut snapshot.values)?;
        if self.number(Word::WindowBase)? == 0 {
            snapshot.values.extend([("large_allocs", 0), ("large_frees", 0)]);
            return Ok(snapshot); // nobody has allocated yet
        }
        let sums = self.sums()?;
        let resident = Resident::of(self)?;
        let huge = self.number(Word::HugeTotal)?;
        let slab_classes = self.record.size(Word::SlabClasses)?;
        ensure!(slab_classes <= sums.classes.len(), "its record is damaged (SlabClasses)");
        fill(&mut snapshot, sums, &resident, huge, slab_classes);
        let peak = self.number(Word::RegionPeak)? + resident.mapped_areas; // huge blocks are part of it
        let mapped = snapshot.values["mapped"];
        snapshot.values.insert("peak_mapped", peak.max(mapped));
        let limits = Limits::of(self)?;
        snapshot.values.insert("limit_soft", limits.soft.unwrap_or(0));
        snapshot.values.insert("limit_hard", limits.hard.unwrap_or(0));
        Ok(snapshot)
    }

    fn pool(&self) -> Result<Pool> {
        Ok(Pool {
            superslabs: self.number(Word::PoolSuperslabs)?,
            slots: self.number(Word::PoolPresent)?,
            free_slots: self.number(Word::PoolFree)?,
            dirty_slots: self.number(Word::PoolDirty)?,
            purging_slots: self.number(Word::PoolPurging)?,
            slot_bytes: self.record.word(Word::SlotBytes)?,
        })
    }

    fn add_counters(&self, values: &mut BTreeMap<&'static str, u64>) -> Result<()> {
        let names = self.lines(Word::CounterList)?;
        let counts = self.memory.words(self.record.word(Word::Counters)?, names.len())?;
        for (name, count) in names.iter().zip(counts) {
            if let Some(known) = crate::lists::STATISTICS.iter().find(|statistic| statistic.field == name) {
                values.insert(known.field, count);
            }
        }
        values.insert("errors", self.number(Word::Misuses)?);
        values.insert("lock_waits", self.number(Word::LockWaits)?);
        Ok(())
    }

    /// The classes' sizes, with no counts yet.
    fn class_table(&self) -> Result<Vec<Class>> {
        let [size, slots] = [Word::ClassBlockSize, Word::ClassSlabSlots].map(|word| self.record.field(word));
        let (size, slots) = (size?, slots?);
        let (count, stride) =
            (self.record.size(Word::Classes)?, self.record.stride(Word::ClassStride, &[size, slots])?);
        let mut table = vec![0; table_bytes(count, stride)?];
        self.memory.read(self.record.word(Word::ClassInfo)?, &mut table)?;
        let slot = self.record.word(Word::SlotBytes)?;
        let class = |info: &[u8]| Class {
            block_size: size.of(info),
            span: slots.of(info).wrapping_mul(slot),
            ..Class::default()
        };
        Ok(table.chunks_exact(stride).map(class).collect())
    }

    /// Counts of a heap that ends move to the shared heap's: when those changed while the others were read, all are
    /// read again.
    fn sums(&self) -> Result<Sums> {
        let record = &self.record;
        let areas = self.memory.words(record.word(Word::Areas)?, record.size(Word::AreaCount)?)?;
        let base = *areas.get(record.size(Word::AreaOfHeaps)?).context("its record is damaged")?;
        let layout = HeapLayout::of(record, base)?;
        let limit = self.memory.number(self.record.word(Word::HeapLimit)?, 4)?.min(HEAPS_MAX);
        for tries in 1.. {
            let shared = layout.read(self, layout.shared)?;
            let mut sums = Sums { classes: self.class_table()?, ..Sums::default() };
            sums.add(&shared);
            for id in layout.shared + 1..limit {
                sums.add(&layout.read(self, id)?);
            }
            if tries == TRIES || layout.read(self, layout.shared)?.classes == shared.classes {
                sums.heaps = limit.saturating_sub(layout.shared + 1);
                return Ok(sums);
            }
        }
        unreachable!("the last try ends it")
    }
}

impl Sums {
    fn add(&mut self, heap: &Heap) {
        for (sum, class) in self.classes.iter_mut().zip(&heap.classes) {
            sum.add(class);
        }
        self.large_live += heap.large_live;
        self.large_cached += heap.large_cached;
        self.large_allocs += heap.large_allocs;
        self.large_frees += heap.large_frees;
        self.lock_takes += heap.lock_takes;
        self.live_heaps += u64::from(heap.is_live);
    }
}

/// What is read of a heap.
#[derive(Debug, PartialEq)]
struct Heap {
    is_live: bool,
    lock_takes: u64,
    large_live: i64,
    large_cached: u64,
    large_allocs: u64,
    large_frees: u64,
    classes: Vec<Class>,
}

/// Where the parts of a heap lie, as the record says.
struct HeapLayout {
    shared: u64,
    base: u64,
    stride: usize,
    live: u64,
    classes: usize,
    life: Field,
    lock_takes: Field,
    large_live: Field,
    large_cached: Field,
    magazines: usize,
    magazine_stride: usize,
    below: Field,
    pushes: Field,
    granule: u64,
    stats: usize,
    stats_stride: usize,
    array: Field,
    refilled: Field,
    flushed: Field,
    freed_remote: Field,
    kept: Field,
    refills: Field,
    flushes: Field,
    slab_count: Field,
    lanes: Option<LaneLayout>,
    slot_cache: Option<Field>,    // none in older libraries
    large_counts: Option<Counts>, // counters of the process, in older libraries
    slot_bytes: u64,
}

/// Runs that a heap took and freed.
struct Counts {
    allocs: Field,
    frees: Field,
}

impl Counts {
    fn of(record: &Record) -> Result<Option<Counts>> {
        if record.word(Word::HeapLargeAllocs).is_err() {
            return Ok(None);
        }
        let (allocs, frees) = (record.field(Word::HeapLargeAllocs)?, record.field(Word::HeapLargeFrees)?);
        Ok(Some(Counts { allocs, frees }))
    }
}

/// What hardened heaps have in place of magazines; older libraries count their blocks as flushed.
struct LaneLayout {
    all: Field,
    start: usize,
    stride: usize,
    classes: usize,
    ready: Field,
    delayed: Field,
}

impl LaneLayout {
    fn of(record: &Record) -> Result<Option<LaneLayout>> {
        if record.word(Word::HeapLanes).is_err() {
            return Ok(None);
        }
        let (ready, delayed) = (record.field(Word::LaneReady)?, record.field(Word::LaneDelayed)?);
        Ok(Some(LaneLayout {
            all: record.field(Word::HeapLanes)?,
            start: record.size(Word::Lanes)?,
            stride: record.stride(Word::LaneStride, &[ready, delayed])?,
            classes: record.size(Word::LaneClasses)?,
            ready,
            delayed,
        }))
    }

    /// What the heap at `heap` has, and where its lanes lie; no bytes when it has none.
    fn piece(&self, process: &Attached, heap: u64) -> Result<(u64, (u64, usize))> {
        let all = process.memory.number(heap.wrapping_add(self.all.offset as u64), self.all.size)?;
        let bytes = if all == 0 { 0 } else { table_bytes(self.classes, self.stride)? };
        Ok((all, (all.wrapping_add(self.start as u64), bytes)))
    }

    /// The blocks in the lane of a class; `lanes` may be empty.
    fn count(&self, lanes: &[u8], class: usize) -> u64 {
        let lane = lanes.chunks_exact(self.stride).nth(class);
        lane.map_or(0, |lane| self.ready.of(lane) + self.delayed.of(lane))
    }
}

impl HeapLayout {
    fn of(record: &Record, base: u64) -> Result<HeapLayout> {
        let layout = HeapLayout {
            shared: record.size(Word::HeapShared)? as u64,
            base,
            stride: record.size(Word::HeapStride)?,
            live: record.word(Word::HeapIsLive)?,
            classes: record.size(Word::Classes)?,
            life: record.field(Word::HeapLife)?,
            lock_takes: record.field(Word::HeapLockTakes)?,
            large_live: record.field(Word::HeapLargeLive)?,
            large_cached: record.field(Word::HeapLargeCached)?,
            magazines: record.size(Word::Magazines)?,
            magazine_stride: record.size(Word::MagazineStride)?,
            below: record.field(Word::MagazineBelow)?,
            pushes: record.field(Word::MagazinePushes)?,
            granule: record.word(Word::GranuleBytes)?.max(1),
            stats: record.size(Word::Stats)?,
            stats_stride: record.size(Word::StatsStride)?,
            array: record.field(Word::StatsArray)?,
            refilled: record.field(Word::StatsRefilled)?,
            flushed: record.field(Word::StatsFlushed)?,
            freed_remote: record.field(Word::StatsFreedRemote)?,
            kept: record.field(Word::StatsKept)?,
            refills: record.field(Word::StatsRefills)?,
            flushes: record.field(Word::StatsFlushes)?,
            slab_count: record.field(Word::StatsSlabCount)?,
            lanes: LaneLayout::of(record)?,
            slot_cache: record.word(Word::HeapSlotCache).ok().map(|_| record.array(Word::HeapSlotCache)).transpose()?,
            large_counts: Counts::of(record)?,
            slot_bytes: record.word(Word::SlotBytes)?,
        };
        layout.check(record)?;
        Ok(layout)
    }

    /// Each part lies in what it is a part of, so that reading one needs no look at its bounds.
    fn check(&self, record: &Record) -> Result<()> {
        record.stride(Word::MagazineStride, &[self.below, self.pushes])?;
        let sums = [self.refilled, self.flushed, self.freed_remote, self.kept, self.refills, self.flushes];
        record.stride(Word::StatsStride, &sums)?;
        record.stride(Word::StatsStride, &[self.array, self.slab_count])?;
        let ends = [
            self.magazines + table_bytes(self.classes, self.magazine_stride)?,
            self.stats + table_bytes(self.classes, self.stats_stride)?,
            self.head_bytes(),
        ];
        ensure!(ends.iter().all(|&end| end <= self.stride), "its record is damaged (HeapStride)");
        Ok(())
    }

    /// The bytes from the heap's start that hold all but what is behind the magazines.
    fn head_bytes(&self) -> usize {
        let mut fields = vec![self.life, self.lock_takes, self.large_live, self.large_cached];
        fields.extend(self.lanes.as_ref().map(|lanes| lanes.all));
        fields.extend(self.slot_cache);
        fields.extend(self.large_counts.iter().flat_map(|counts| [counts.allocs, counts.frees]));
        let end = fields.iter().map(|field| field.end()).max().unwrap_or(0);
        end.max(self.magazines + self.classes * self.magazine_stride)
    }

    fn read(&self, process: &Attached, id: u64) -> Result<Heap> {
        let address = self.base.wrapping_add(id.wrapping_mul(self.stride as u64));
        let (stats, head) = (self.classes * self.stats_stride, self.head_bytes());
        let behind = address.wrapping_add(self.stats as u64);
        let mut copy = Vec::new();
        for tries in 1.. {
            let (all, lanes) =
                self.lanes.as_ref().map_or(Ok((0, (address, 0))), |lanes| lanes.piece(process, address))?;
            let pieces = [(behind, stats), lanes, (address, head), (behind, stats)];
            copy.resize(stats + lanes.1 + head + stats, 0);
            let read = process.memory.read_pieces(&pieces, &mut copy);
            let (before, rest) = copy.split_at(stats);
            let (lanes, rest) = rest.split_at(lanes.1);
            let (head, after) = rest.split_at(head);
            let has = |layout: &LaneLayout| layout.all.of(head) == all;
            let are_its_lanes = lanes.is_empty() || read.is_ok() && self.lanes.as_ref().is_some_and(has);
            if tries == TRIES || are_its_lanes && (read.is_err() || self.is_of_one_moment(before, after)) {
                read?;
                return Ok(self.heap(head, if are_its_lanes { lanes } else { &[] }, after));
            }
        }
        unreachable!()
    }

    fn is_of_one_moment(&self, before: &[u8], after: &[u8]) -> bool {
        let mut pairs = before.chunks_exact(self.stats_stride).zip(after.chunks_exact(self.stats_stride));
        let fields = [self.refilled, self.flushed, self.array];
        pairs.all(|(a, b)| fields.iter().all(|field| field.of(a) == field.of(b)))
    }

    fn heap(&self, head: &[u8], lanes: &[u8], stats: &[u8]) -> Heap {
        let magazines = head[self.magazines..].chunks_exact(self.magazine_stride);
        let classes = magazines.zip(stats.chunks_exact(self.stats_stride)).enumerate();
        let classes = classes.map(|(class, (magazine, stats))| {
            let in_lane = self.lanes.as_ref().map_or(0, |layout| layout.count(lanes, class));
            self.class(magazine, in_lane, stats)
        });
        Heap {
            is_live: self.life.of(head) == self.live,
            lock_takes: self.lock_takes.of(head),
            large_live: self.large_live.of(head) as i64,
            large_cached: self.large_cached.of(head).saturating_add(self.slot_cache_bytes(head)),
            large_allocs: self.large_counts.as_ref().map_or(0, |counts| counts.allocs.of(head)),
            large_frees: self.large_counts.as_ref().map_or(0, |counts| counts.frees.of(head)),
            classes: classes.collect(),
        }
    }

    /// Each word has a superslab in its upper half, and a bit for each slot in its lower one.
    fn slot_cache_bytes(&self, head: &[u8]) -> u64 {
        let bytes = self.slot_cache.map_or(&[][..], |field| &head[field.offset..field.end()]);
        let words = bytes.chunks_exact(8).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        words.map(|slots| u64::from(slots.count_ones())).sum::<u64>().saturating_mul(self.slot_bytes)
    }

    /// What src/heap/inspect.c does under the heap's lock.
    fn class(&self, magazine: &[u8], in_lane: u64, stats: &[u8]) -> Class {
        let (below, array, pushes) = (self.below.of(magazine), self.array.of(stats), self.pushes.of(magazine));
        let is_there = below != 0 && array != 0 && below >= array;
        let cached = in_lane + if is_there { (below - array) / self.granule + 1 } else { 0 };
        let (refilled, flushed) = (self.refilled.of(stats), self.flushed.of(stats));
        let allocated = pushes.wrapping_add(refilled).wrapping_sub(flushed).wrapping_sub(cached);
        Class {
            alloc_count: allocated,
            free_local: pushes - self.kept.of(stats).min(pushes),
            free_remote: self.freed_remote.of(stats),
            refill_count: self.refills.of(stats),
            flush_count: self.flushes.of(stats),
            cached_blocks: cached,
            slab_count: self.slab_count.of(stats),
            refilled,
            flushed,
            ..Class::default()
        }
    }
}

/// As src/heap/inspect.c puts them together, but for what only `mincore` and bitmaps tell: what remains of the resident
/// memory is fragmented, or where it is less than nothing, live blocks are not touched.
fn fill(snapshot: &mut Snapshot, mut sums: Sums, resident: &Resident, huge: u64, slab_classes: usize) {
    for class in &mut sums.classes {
        class.alloc_count = (class.alloc_count as i64).max(0) as u64;
    }
    let large = sums.classes.split_off(slab_classes);
    let total = |of: &dyn Fn(&Class) -> u64, classes: &[Class]| classes.iter().map(of).sum::<u64>();
    let large_in_magazines = total(&|c| c.cached_blocks * c.span, &large);
    let large_pops = total(&|c| c.alloc_count.saturating_sub(c.refilled), &large);
    let large_pushes = total(&|c| c.free_local.saturating_sub(c.flushed), &large);
    let large_live = (sums.large_live.max(0) as u64).saturating_sub(large_in_magazines);

    let live = total(&|c| c.live_blocks() * c.block_size, &sums.classes) + large_live + huge;
    let cached = total(&|c| c.cached_blocks * c.block_size, &sums.classes) + large_in_magazines + sums.large_cached;
    let retained = snapshot.pool.dirty_slots * snapshot.pool.slot_bytes;
    let whole = resident.window + resident.areas + resident.huge;
    let parts = live + cached + retained + resident.areas;
    let values = &mut snapshot.values;
    for (name, value) in [
        ("mapped", resident.mapped),
        ("resident", whole),
        ("live", live),
        ("untouched", parts.saturating_sub(whole)),
        ("cached", cached),
        ("fragmented", whole.saturating_sub(parts)),
        ("retained", retained),
        ("metadata", resident.areas),
        ("superslabs_now", snapshot.pool.superslabs),
        ("remote_frees", total(&|c| c.free_remote, &sums.classes)),
        ("lock_takes", sums.lock_takes),
        ("heaps_now", sums.live_heaps),
    ] {
        values.insert(name, value);
    }
    for (name, more) in [
        ("large_allocs", sums.large_allocs + large_pops),
        ("large_frees", sums.large_frees + large_pushes),
        ("large_cache_hits", large_pops),
    ] {
        *values.entry(name).or_insert(0) += more;
    }
    snapshot.heaps = sums.heaps;
    snapshot.swapped = resident.swapped;
    snapshot.classes = sums.classes;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_snapshot(live_blocks: u64, window: u64) -> Snapshot {
        let class = Class {
            block_size: 100,
            alloc_count: live_blocks + 5,
            free_local: 5,
            cached_blocks: 2,
            ..Class::default()
        };
        let sums = Sums { classes: vec![class], large_live: 1000, large_cached: 50, ..Sums::default() };
        let resident = Resident { window, areas: 10, ..Resident::default() };
        let pool = Pool { dirty_slots: 1, slot_bytes: 64, ..Pool::default() };
        let mut snapshot = Snapshot { pool, ..Snapshot::default() };
        fill(&mut snapshot, sums, &resident, 0, 1);
        snapshot
    }

    /// A heap of 4096 bytes with 10 classes: all fields at the start of their structures.
    fn a_record(changes: &[(Word, u64)]) -> Record {
        let mut words = vec![8 << 32; 256];
        let sane = [
            (Word::HeapShared, 1),
            (Word::HeapStride, 4096),
            (Word::Classes, 10),
            (Word::Magazines, 64),
            (Word::MagazineStride, 16),
            (Word::Stats, 1024),
            (Word::StatsStride, 64),
            (Word::Lanes, 8),
            (Word::LaneStride, 16),
            (Word::LaneClasses, 2),
            (Word::LaneReady, 4 << 32),
            (Word::LaneDelayed, 2 << 32 | 4),
        ];
        for (word, value) in sane.iter().chain(changes) {
            words[*word as usize] = *value;
        }
        Record::of(words)
    }

    /// Whoever writes a record may have written anything.
    #[test]
    fn a_layout_that_cannot_be_is_refused() {
        let of = |changes: &[(Word, u64)]| HeapLayout::of(&a_record(changes), 0);
        assert!(of(&[]).is_ok());
        for change in [
            (Word::StatsStride, 0),
            (Word::StatsStride, 4),
            (Word::MagazineStride, 0),
            (Word::MagazineStride, 4),
            (Word::MagazinePushes, 8 << 32 | 12),
            (Word::StatsArray, 8 << 32 | 60),
            (Word::HeapLife, 8 << 32 | 4090),
            (Word::HeapLargeAllocs, 8 << 32 | 4090),
            (Word::HeapStride, 0),
            (Word::Classes, 1 << 20),
            (Word::Magazines, u64::MAX),
            (Word::Stats, 4000),
            (Word::LaneStride, 4),
            (Word::LaneDelayed, 2 << 32 | 15),
            (Word::LaneClasses, u64::MAX),
        ] {
            let error = of(&[change]).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains("its record is damaged"), "{change:?}: {error}");
        }
    }

    #[test]
    fn blocks_in_lanes_are_counted() {
        let lanes = LaneLayout::of(&a_record(&[])).unwrap().unwrap();
        let mut copy = [0; 32];
        copy[16..22].copy_from_slice(&[3, 0, 0, 0, 4, 0]);
        assert_eq!([0, 1, 2].map(|class| lanes.count(&copy, class)), [0, 7, 0]);
        assert_eq!(lanes.count(&[], 0), 0, "a heap without lanes");
    }

    #[test]
    fn the_slots_of_a_heap_are_counted() {
        let mut layout =
            HeapLayout::of(&a_record(&[(Word::SlotBytes, 64), (Word::HeapSlotCache, 16 << 32)]), 0).unwrap();
        let head: Vec<u8> =
            [5u64 << 32 | 0b1011, 7 << 32 | 1 << 31].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(layout.slot_cache_bytes(&head), 4 * 64);
        layout.slot_bytes = u64::MAX;
        assert_eq!(layout.slot_cache_bytes(&head), u64::MAX, "a damaged record");
        layout.slot_cache = None;
        assert_eq!(layout.slot_cache_bytes(&head), 0, "an older library");
    }

    /// Older libraries have counters of the process in place of counts of each heap.
    #[test]
    fn runs_are_counted_by_heaps_or_by_the_process() {
        let record = a_record(&[(Word::HeapLargeAllocs, 8 << 32), (Word::HeapLargeFrees, 8 << 32 | 8)]);
        let layout = HeapLayout::of(&record, 0).unwrap();
        let mut head = vec![0; layout.head_bytes()];
        head[..16].copy_from_slice(&[7u64, 3].map(u64::to_le_bytes).concat());
        let mut sums = Sums::default();
        sums.add(&layout.heap(&head, &[], &[]));
        sums.add(&layout.heap(&head, &[], &[]));
        assert_eq!((sums.large_allocs, sums.large_frees), (14, 6));

        let mut snapshot = Snapshot::default();
        snapshot.values.insert("large_allocs", 5);
        fill(&mut snapshot, sums, &Resident::default(), 0, 0);
        assert_eq!((snapshot.values["large_allocs"], snapshot.values["large_frees"]), (19, 6));
    }

    fn adds_up(snapshot: &Snapshot) -> bool {
        let at = |name: &str| snapshot.values[name];
        at("resident") + at("untouched")
            == at("live") + at("cached") + at("fragmented") + at("retained") + at("metadata")
    }

    #[test]
    fn parts_add_up_whatever_is_resident() {
        let full = a_snapshot(3, 5000);
        assert_eq!(full.values["live"], 1300);
        assert_eq!(full.values["cached"], 250);
        assert_eq!(full.values["fragmented"], 5010 - 1300 - 250 - 64 - 10);
        assert!(adds_up(&full) && full.values["untouched"] == 0);
        let bare = a_snapshot(3, 100);
        assert!(adds_up(&bare) && bare.values["fragmented"] == 0 && bare.values["untouched"] > 0);
    }
}
