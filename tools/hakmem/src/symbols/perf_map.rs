// SPDX-License-Identifier: MIT
//! /tmp/perf-PID.map: a line `START SIZE NAME` for each function that was compiled at run time, as Node.js
//! (--perf-basic-prof), Java and Python (PYTHONPERFSUPPORT=1) write it.

use crate::attach::{age, status_of};
use crate::image::Profile;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::time::{Duration, SystemTime};

/// A clock may step so much between two looks.
const SLACK: Duration = Duration::from_secs(60);
/// Many times what large programs write.
const BYTES_MAX: u64 = 1 << 30;

#[derive(Default)]
pub struct PerfMap {
    /// By start: end and name. Later lines replace earlier ones.
    functions: BTreeMap<u64, (u64, String)>,
}

impl PerfMap {
    pub fn of(profile: &Profile) -> PerfMap {
        let text = paths(profile).iter().find_map(|path| text_of(profile, path));
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

/// Everybody may put something at such a name: a file of the process's user or of root counts, and nothing that keeps
/// a reader waiting or is without end.
fn text_of(profile: &Profile, path: &str) -> Option<Vec<u8>> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let about = file.metadata().ok()?;
    let user = profile.is_running.then(|| status_of(profile.pid as i32)).flatten().map(|status| status.euid);
    let is_own = about.uid() == 0 || user.is_none_or(|user| about.uid() == user);
    if !about.is_file() || !is_own || about.len() > BYTES_MAX || !may_be_of(profile, about.modified().ok()?) {
        return None;
    }
    let mut text = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut text).ok()?;
    Some(text)
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
    let inner = status_of(pid as i32).and_then(|status| status.nspid?.last().copied());
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
    fn what_is_no_file_is_not_read() {
        let folder = std::env::temp_dir().join(format!("hakmem-perf-map-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name).display().to_string();
        let profile = Profile { pid: std::process::id(), is_running: true, ..Profile::default() };
        std::fs::write(path("file"), "1000 20 f\n").unwrap();
        nix::unistd::mkfifo(&folder.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
        assert_eq!(text_of(&profile, &path("file")).unwrap(), b"1000 20 f\n");
        assert!(text_of(&profile, &path("fifo")).is_none() && text_of(&profile, &path("zero")).is_none());
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(path("file"), Some(65534), None).unwrap();
            assert!(text_of(&profile, &path("file")).is_none(), "it is another user's");
        }
        std::fs::remove_dir_all(&folder).unwrap();
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
