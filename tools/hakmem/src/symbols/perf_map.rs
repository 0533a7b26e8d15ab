// SPDX-License-Identifier: MIT
//! /tmp/perf-PID.map: a line `START SIZE NAME` for each function that was compiled at run time, as Node.js
//! (--perf-basic-prof), Java and Python (PYTHONPERFSUPPORT=1) write it.

use crate::image::Profile;
use procfs::process::Process;
use std::collections::BTreeMap;
use std::fs;

#[derive(Default)]
pub struct PerfMap {
    /// By start: end and name. Later lines replace earlier ones.
    functions: BTreeMap<u64, (u64, String)>,
}

impl PerfMap {
    pub fn of(profile: &Profile) -> PerfMap {
        let text = paths(profile).iter().find_map(|path| fs::read(path).ok());
        text.map(|text| PerfMap::parse(&String::from_utf8_lossy(&text))).unwrap_or_default()
    }

    fn parse(text: &str) -> PerfMap {
        let mut map = PerfMap::default();
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let mut hex = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
            if let (Some(start), Some(size)) = (hex(), hex()) {
                let name = words.next().unwrap_or("?").trim().to_string();
                map.functions.insert(start, (start.saturating_add(size), name));
            }
        }
        map
    }

    pub fn name(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some(&name[..])
    }
}

/// In a container the process has another number, and a /tmp of its own.
fn paths(profile: &Profile) -> Vec<String> {
    let pid = profile.pid;
    let plain = format!("/tmp/perf-{pid}.map");
    if !profile.is_running {
        return vec![plain];
    }
    let inner = Process::new(pid as i32).ok().and_then(|process| process.status().ok()?.nspid?.last().copied());
    let inner = inner.unwrap_or(pid as i32);
    vec![format!("/proc/{pid}/root/tmp/perf-{inner}.map"), plain]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_range() {
        let map =
            PerfMap::parse("1000 20 py::first:/srv/a.py\n0x1020 10 LazyCompile:~second x.js:3\nbad\n1000 10 newer\n");
        assert_eq!(map.name(0x1005), Some("newer"));
        assert_eq!(map.name(0x1015), None);
        assert_eq!(map.name(0x102f), Some("LazyCompile:~second x.js:3"));
        assert_eq!((map.name(0x1030), map.name(0)), (None, None));
    }
}
