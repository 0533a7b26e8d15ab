// SPDX-License-Identifier: MIT
//! A Rust job of the benchmark suite: maps of strings, boxed trees, and vectors handed between threads, all on the
//! system allocator, which is whatever library is preloaded.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn count_words(random: &mut Random) -> usize {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for _ in 0..400_000 {
        let word = format!("word{}-{}", random.below(30_000), random.below(3));
        *counts.entry(word).or_default() += 1;
    }
    let sorted: BTreeMap<usize, Vec<String>> = counts.into_iter().fold(BTreeMap::new(), |mut map, (word, count)| {
        map.entry(count).or_insert_with(Vec::new).push(word);
        map
    });
    sorted.len()
}

struct Tree {
    children: Vec<Tree>,
    label: String,
}

fn grow(depth: u64, random: &mut Random) -> Tree {
    let count = if depth == 0 { 0 } else { 2 + random.below(4) };
    Tree { children: (0..count).map(|_| grow(depth - 1, random)).collect(), label: format!("depth {depth}") }
}

fn weigh(tree: &Tree) -> usize {
    tree.label.len() + tree.children.iter().map(weigh).sum::<usize>()
}

fn pass_vectors() -> usize {
    let (sender, receiver) = mpsc::sync_channel::<Vec<u8>>(256);
    let producer = std::thread::spawn(move || {
        let mut random = Random(7);
        for _ in 0..300_000 {
            let length = 16 + random.below(2048) as usize;
            if sender.send(vec![1; length]).is_err() {
                return;
            }
        }
    });
    let total = receiver.iter().map(|v| v.len()).sum();
    let _ = producer.join();
    total
}

fn main() {
    let mut random = Random(42);
    let words = count_words(&mut random);
    let weight = weigh(&grow(9, &mut random));
    println!("{words} {weight} {}", pass_vectors());
}
