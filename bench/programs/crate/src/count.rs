// SPDX-License-Identifier: MIT
//! Words counted by any key.

use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

pub fn by<K: Hash + Eq + Ord + Clone + Debug>(text: &str, key: impl Fn(&str) -> K) -> HashMap<K, usize> {
    let mut counts = HashMap::new();
    let mut last: VecDeque<K> = VecDeque::new();
    let mut seen = HashSet::new();
    for word in text.split_whitespace() {
        let key = key(word);
        *counts.entry(key.clone()).or_insert(0) += 1;
        seen.insert(key.clone());
        last.push_back(key);
        if last.len() > 100 {
            last.pop_front();
        }
    }
    let ordered: BTreeMap<K, usize> = counts.iter().map(|(k, n)| (k.clone(), *n)).collect();
    assert!(ordered.len() == seen.len(), "{:?}", ordered.iter().next());
    counts
}

pub fn most<K: Ord + Clone>(counts: &HashMap<K, usize>) -> Vec<(usize, K)> {
    let mut heap: BinaryHeap<(usize, K)> = counts.iter().map(|(k, n)| (*n, k.clone())).collect();
    let mut first: Vec<(usize, K)> = std::iter::from_fn(|| heap.pop()).take(5).collect();
    first.sort_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)));
    first
}
