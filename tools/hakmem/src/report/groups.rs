// SPDX-License-Identifier: MIT
//! What is in use, by thread and by size of the blocks: sums over the sampled blocks.

use crate::image::{Amount, Profile};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub name: String,
    pub live: Amount,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    /// Bytes of a block.
    pub size: u64,
    /// As asked for.
    pub live: Amount,
    /// Bytes beyond what was asked for.
    pub slack: f64,
}

/// The largest first.
pub fn by_thread(profile: &Profile) -> Vec<Group> {
    let mut sums: BTreeMap<u32, Amount> = BTreeMap::new();
    for sample in &profile.samples {
        sums.entry(sample.thread).or_default().add(sample.weight);
    }
    let named = |(id, live)| Group { name: label(profile, id), live };
    let mut groups: Vec<Group> = sums.into_iter().map(named).collect();
    groups.sort_by(|a, b| b.live.bytes.total_cmp(&a.live.bytes));
    groups
}

fn label(profile: &Profile, id: u32) -> String {
    match profile.threads.iter().any(|thread| thread.id == id) {
        true => format!("{} ({id})", profile.thread_name(id)),
        false => format!("thread {id}"),
    }
}

pub fn by_class(profile: &Profile) -> Vec<Class> {
    let mut classes: BTreeMap<u64, Class> = BTreeMap::new();
    for sample in &profile.samples {
        let size = sample.size + sample.slack;
        let class = classes.entry(size).or_insert(Class { size, ..Class::default() });
        class.live.add(sample.weight);
        class.slack += sample.weight.objects * sample.slack as f64;
    }
    let mut classes: Vec<Class> = classes.into_values().collect();
    classes.sort_by(|a, b| b.live.bytes.total_cmp(&a.live.bytes));
    classes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::fixture::{Block, Fixture};
    use std::path::Path;

    #[test]
    fn blocks_are_summed_by_thread_and_by_size() {
        let mut fixture = Fixture::new(0);
        fixture.thread(7, "worker");
        let stack = fixture.stack(&[0x1000]);
        for (thread, size, slack) in [(7, 100, 12), (7, 110, 2), (8, 1000, 24)] {
            fixture.block(Block { stack, thread, size, slack, ..Block::default() });
        }
        let profile = crate::image::from_bytes(&fixture.bytes(), Path::new("f")).unwrap();
        let threads = by_thread(&profile);
        assert_eq!((&threads[0].name[..], threads[0].live.bytes), ("thread 8", 1000.0));
        assert_eq!((&threads[1].name[..], threads[1].live.bytes), ("worker (7)", 210.0));
        let classes = by_class(&profile);
        assert_eq!((classes[1].size, classes[1].live.bytes, classes[1].slack), (112, 210.0, 14.0));
    }
}
