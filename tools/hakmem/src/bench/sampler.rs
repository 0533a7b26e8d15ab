// SPDX-License-Identifier: MIT
//! Looks at the memory of a program while it runs.

use super::run::Seen;
use std::collections::HashSet;
use std::fs::read_to_string;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two looks.
pub const SAMPLING: Duration = Duration::from_millis(20);
/// The file that a program makes when its work is done and it rests.
pub const RESTING: &str = "resting";
/// How long it has rested when its memory is taken down.
const REST: Duration = Duration::from_millis(2050);
/// Every process under the allocator has it, and no other.
const PROBE: &str = "proof_probe.so";

pub struct Sampler {
    begin: Instant,
    resting: PathBuf,
    rests_since: Option<Instant>,
    under_the_allocator: HashSet<String>,
}

impl Sampler {
    pub fn new(resting: PathBuf) -> Sampler {
        Sampler { begin: Instant::now(), resting, rests_since: None, under_the_allocator: HashSet::new() }
    }

    /// `report` is what the launcher has said so far. Clients and shells that do not run under the allocator do not
    /// count.
    pub fn look(&mut self, report: &str, seen: &mut Seen) {
        let Some(pid) = report.lines().find_map(|l| l.strip_prefix("pid=")) else { return };
        let group: Vec<String> = with_children(pid).into_iter().filter(|p| self.is_measured(p)).collect();
        let rollups: Vec<String> =
            group.iter().filter_map(|p| read_to_string(format!("/proc/{p}/smaps_rollup")).ok()).collect();
        if rollups.is_empty() {
            return;
        }
        for (key, name) in [("Rss:", "rss"), ("Pss:", "pss"), ("LazyFree:", "lazyfree"), ("AnonHugePages:", "huge")] {
            let Some(kib) = rollups.iter().map(|r| smaps_value(r, key)).sum::<Option<f64>>() else { continue };
            let most = seen.fields.entry(format!("sampled_{name}_max_kib")).or_insert(0.0);
            *most = most.max(kib);
            if name == "rss" {
                self.note_resident(kib, seen);
            }
        }
    }

    fn note_resident(&mut self, kib: f64, seen: &mut Seen) {
        seen.series.push((self.begin.elapsed().as_millis() as f64, kib));
        seen.fields.insert("sampled_rss_last_kib".into(), kib);
        if self.rests_since.is_none() && self.resting.exists() {
            self.rests_since = Some(Instant::now());
        }
        if self.rests_since.is_some_and(|since| since.elapsed() <= REST) {
            seen.fields.insert("sampled_rest_kib".into(), kib);
        }
    }

    fn is_measured(&mut self, pid: &str) -> bool {
        if self.under_the_allocator.contains(pid) {
            return true;
        }
        let measured = read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains(PROBE));
        if measured {
            self.under_the_allocator.insert(pid.into());
        }
        measured
    }
}

/// A process and all that descend from it: a compiler's driver and a script only start the program that matters.
fn with_children(pid: &str) -> Vec<String> {
    let mut all = vec![pid.to_string()];
    let mut next = 0;
    while next < all.len() {
        all.extend(children_of(&all[next]));
        next += 1;
    }
    all
}

/// Each thread has a list of those that it started itself.
fn children_of(pid: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(String::from).collect::<Vec<_>>()).collect()
}

fn smaps_value(rollup: &str, key: &str) -> Option<f64> {
    let line = rollup.lines().find(|l| l.starts_with(key))?;
    line[key.len()..].split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn children_are_found() {
        let mut child = Command::new("sh").args(["-c", "sleep 60; true"]).spawn().unwrap();
        let family = || with_children(&child.id().to_string());
        let begin = Instant::now();
        while family().len() < 2 && begin.elapsed() < Duration::from_secs(50) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(family().len(), 2);
        for pid in family().iter().skip(1) {
            // SAFETY: the sleep that the shell above has started.
            unsafe { libc::kill(pid.parse().unwrap(), libc::SIGKILL) };
        }
        child.wait().unwrap();
    }

    /// As cargo starts compilers. A test has a thread of its own, which is not the first one of its process.
    #[test]
    fn children_of_other_threads_are_found() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let found = with_children(&std::process::id().to_string());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&child.id().to_string()), "{found:?}");
    }

    #[test]
    fn smaps_values_are_found() {
        let text = "Rss:                1234 kB\nPss:   1000 kB\n";
        assert_eq!(smaps_value(text, "Pss:"), Some(1000.0));
        assert_eq!(smaps_value(text, "LazyFree:"), None);
    }

    #[test]
    fn the_last_look_within_the_rest_counts() {
        let file = std::env::temp_dir().join(format!("hakmem-resting-{}", std::process::id()));
        let (mut sampler, mut seen) = (Sampler::new(file.clone()), Seen::default());
        sampler.note_resident(300.0, &mut seen);
        assert!(!seen.fields.contains_key("sampled_rest_kib"));
        std::fs::write(&file, "").unwrap();
        sampler.note_resident(200.0, &mut seen);
        sampler.rests_since = Instant::now().checked_sub(REST + SAMPLING);
        sampler.note_resident(100.0, &mut seen);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(seen.fields["sampled_rest_kib"], 200.0);
    }
}
