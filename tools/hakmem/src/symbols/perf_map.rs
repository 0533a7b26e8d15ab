// SPDX-License-Identifier: MIT
//! /tmp/perf-PID.map: a line `START SIZE NAME` for each function that was compiled at run time, as Node.js
//! (--perf-basic-prof), Java and Python (PYTHONPERFSUPPORT=1) write it.

use crate::attach::age;
use crate::image::Profile;
use procfs::process::Process;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime};

/// A clock may step so much between two looks.
const SLACK: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct PerfMap {
    /// By start: end and name. Later lines replace earlier ones.
    functions: BTreeMap<u64, (u64, String)>,
}

impl PerfMap {
    pub fn of(profile: &Profile) -> PerfMap {
        let written = |path: &String| fs::metadata(path).and_then(|file| file.modified());
        let mut own = paths(profile).into_iter().filter(|path| written(path).is_ok_and(|at| may_be_of(profile, at)));
        let text = own.find_map(|path| fs::read(path).ok());
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

/// Numbers of processes come again: whether the process can have written to its map at that time last.
fn may_be_of(profile: &Profile, written: SystemTime) -> bool {
    if profile.is_running {
        let began = age(profile.pid as i32).and_then(|age| SystemTime::now().checked_sub(age + SLACK));
        return began.is_none_or(|began| written >= began);
    }
    let end = Duration::from_nanos(profile.start_unix_ns) + Duration::from_micros(profile.elapsed_us) + SLACK;
    !profile.has_ended || written <= SystemTime::UNIX_EPOCH + end
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
    fn maps_of_other_processes_are_told_by_their_time() {
        let now = SystemTime::now();
        let unix = now.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let running = Profile { pid: std::process::id(), is_running: true, ..Profile::default() };
        assert!(may_be_of(&running, now));
        assert!(!may_be_of(&running, now - Duration::from_secs(365 * 24 * 3600)));
        let start_unix_ns = (unix - Duration::from_secs(1000)).as_nanos() as u64;
        let ended = Profile { has_ended: true, start_unix_ns, elapsed_us: 100_000_000, ..Profile::default() };
        assert!(may_be_of(&ended, now - Duration::from_secs(900)));
        assert!(may_be_of(&ended, now - Duration::from_secs(5000)));
        assert!(!may_be_of(&ended, now));
    }

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
