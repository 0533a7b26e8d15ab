// SPDX-License-Identifier: MIT
// Collections, threads and channels.
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

fn job(seed: u32) -> u64 {
    let mut state = seed;
    let mut number = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 8) as usize
    };
    let mut tree: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut map: HashMap<usize, Box<[u8]>> = HashMap::new();
    let mut queue: VecDeque<String> = VecDeque::new();
    for i in 0..50000 {
        tree.entry(format!("key{}", number() % 4000)).or_default().push(i);
        map.insert(number() % 6000, vec![i as u8; number() % 300].into_boxed_slice());
        queue.push_back("q".repeat(number() % 80));
        if queue.len() > 1000 {
            queue.pop_front();
        }
    }
    let mut sum = 0u64;
    for (key, values) in &tree {
        for v in values {
            sum = sum.wrapping_mul(31).wrapping_add((*v + key.len()) as u64);
        }
    }
    for key in 0..6000 {
        if let Some(block) = map.get(&key) {
            sum = sum.wrapping_mul(31).wrapping_add(block.len() as u64);
        }
    }
    sum.wrapping_add(queue.iter().map(|s| s.len() as u64).sum())
}

fn main() {
    println!("{}", job(1));
    let answers: Vec<u64> = (2..8)
        .map(|i| thread::spawn(move || job(i)))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|t| t.join().unwrap())
        .collect();
    println!("{:?}", answers);
    let (sender, receiver) = mpsc::channel::<Vec<u64>>();
    let held = Arc::new(Mutex::new(Vec::new()));
    for t in 0..4u64 {
        let (sender, held) = (sender.clone(), held.clone());
        thread::spawn(move || {
            for i in 0..20000u64 {
                sender.send(vec![t; (i % 200) as usize + 1]).unwrap();
                if i % 100 == 0 {
                    held.lock().unwrap().push(Box::new([t; 32]));
                }
            }
        });
    }
    drop(sender);
    println!(
        "{}",
        receiver
            .iter()
            .map(|v| v.iter().sum::<u64>() + v.len() as u64)
            .sum::<u64>()
    );
    println!("{}", held.lock().unwrap().len());
}
