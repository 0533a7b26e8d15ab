// SPDX-License-Identifier: MIT
//! What grows: stacks that leave blocks behind in most parts of the time that was sampled.
//!
//! One image tells it, as each sampled block that is in use has the time of its allocation. A cache that was filled at
//! the start has old blocks alone, work in progress new ones alone, and a leak has some of most parts of the time. What
//! the first and the last part left says nothing: of those between, two thirds have to have left some.

use super::view::{Row, Show};
use crate::image::{Amount, Profile};
use crate::symbols::Symbols;

pub const PARTS: usize = 8;
/// Of the parts in between, so many have to have left something.
const STEADY: usize = (PARTS - 2) * 2 / 3;

#[derive(Clone, Debug)]
pub struct Growth {
    pub row: Row,
    /// Bytes in use, by when they were allocated: the oldest first.
    pub ages: [f64; PARTS],
    /// In use, of the time that was looked at.
    pub left: Amount,
    /// Blocks of it that were sampled.
    pub samples: usize,
    /// Bytes a second.
    pub rate: f64,
}

impl Growth {
    fn is_steady(&self) -> bool {
        let between = &self.ages[1..PARTS - 1];
        between.iter().filter(|bytes| **bytes > 0.0).count() >= STEADY
    }
}

/// The fastest first.
pub fn of(profile: &Profile, symbols: &Symbols) -> Vec<Growth> {
    let span = profile.elapsed_us.max(1);
    let rows = super::view::rows(profile, symbols, Show::Inuse);
    let mut row_of = vec![usize::MAX; profile.sites.len()];
    for (index, row) in rows.iter().enumerate() {
        row.sites.iter().for_each(|&site| row_of[site] = index);
    }
    let grown = |row| Growth { row, ages: [0.0; PARTS], left: Amount::default(), samples: 0, rate: 0.0 };
    let mut all: Vec<Growth> = rows.into_iter().map(grown).collect();
    for sample in &profile.samples {
        let Some(growth) = row_of.get(sample.site as usize).and_then(|&row| all.get_mut(row)) else { continue };
        let part = sample.time_us as u128 * PARTS as u128 / span as u128;
        growth.ages[(part as usize).min(PARTS - 1)] += sample.weight.bytes;
        growth.left.add(sample.weight);
        growth.samples += 1;
    }
    all.retain(Growth::is_steady);
    all.iter_mut().for_each(|growth| growth.rate = growth.left.bytes / (span as f64 / 1e6));
    all.sort_by(|a, b| b.left.bytes.total_cmp(&a.left.bytes));
    all
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::image::fixture::{Block, Fixture};
    use crate::symbols;
    use std::path::Path;

    /// Ten seconds with a leak at 0x1000, a cache at 0x2000, work in progress at 0x3000 and temporary blocks at 0x4000.
    pub fn a_service() -> Fixture {
        let mut fixture = Fixture::new(0);
        let [leak, cache, work, temporary] = [0x1000, 0x2000, 0x3000, 0x4000].map(|pc| fixture.stack(&[pc, 0x9000]));
        for second in 0..10 {
            let time_us = second * 1_000_000 + 500_000;
            fixture.block(Block { stack: leak, size: 4096, time_us, thread: 7, ..Block::default() });
            fixture.freed(temporary, 1 << 20, 50);
            fixture.point(time_us, (1 << 20) + second * 4096, 3 << 20);
        }
        for _ in 0..10 {
            fixture.block(Block {
                stack: cache,
                size: 100_000,
                slack: 4448,
                time_us: 1000,
                thread: 7,
                ..Block::default()
            });
            fixture.block(Block {
                stack: work,
                size: 50_000,
                slack: 176,
                time_us: 9_900_000,
                thread: 8,
                ..Block::default()
            });
        }
        fixture.thread(7, "main");
        fixture.thread(8, "worker");
        fixture
    }

    #[test]
    fn a_leak_is_told_from_a_cache_and_from_work_in_progress() {
        let profile = crate::image::from_bytes(&a_service().bytes(), Path::new("f")).unwrap();
        let grown = of(&profile, &symbols::none(&profile));
        assert_eq!(grown.len(), 1);
        assert_eq!(grown[0].row.frames[0].name, "0xfff");
        assert_eq!((grown[0].left.bytes, grown[0].rate, grown[0].samples), (40960.0, 4096.0, 10));
    }

    /// Neither do the old blocks of a leak count, nor a cache that was filled before.
    #[test]
    fn what_was_allocated_before_the_time_of_a_profile_does_not_grow_in_it() {
        let profile = crate::image::from_bytes(&a_service().bytes(), Path::new("f")).unwrap();
        let since = |elapsed_us| profile.clone().since(&Profile { elapsed_us, ..Profile::default() });
        let half = since(2_000_000);
        let grown = of(&half, &symbols::none(&half));
        assert_eq!((grown.len(), grown[0].left.bytes, grown[0].rate), (1, 32768.0, 4096.0));
        let end = since(9_800_000);
        assert!(of(&end, &symbols::none(&end)).is_empty());
    }
}
