// SPDX-License-Identifier: MIT
//! The machine: what it is, whether it is busy with something else, and warm memory.

use super::peers::glibc_version;
use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Foreign work above this share of one core, during a run, makes the run a busy one.
const BUSY_SHARE: f64 = 0.15;
/// Below this much foreign time the clock ticks of /proc/stat say nothing.
const BUSY_SECONDS: f64 = 0.03;

fn first_line(path: &str) -> String {
    read_to_string(path).ok().and_then(|t| t.lines().next().map(|l| l.trim().to_string())).unwrap_or_default()
}

fn field_of(path: &str, key: &str) -> String {
    let text = read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(key)).unwrap_or_default();
    line.split_once(':').map(|(_, v)| v.trim().to_string()).unwrap_or_default()
}

fn version_of(program: &str) -> String {
    let output = Command::new(program).arg("--version").output().ok();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_string()
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub fn fingerprint() -> BTreeMap<String, String> {
    let memory_gib = field_of("/proc/meminfo", "MemTotal")
        .split_whitespace()
        .next()
        .and_then(|k| k.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1048576.0;
    let facts = [
        ("cpu", field_of("/proc/cpuinfo", "model name")),
        ("architecture", std::env::consts::ARCH.to_string()),
        ("cores", cores().to_string()),
        ("memory", format!("{memory_gib:.1} GiB")),
        ("kernel", first_line("/proc/sys/kernel/osrelease").split('-').next().unwrap_or_default().to_string()),
        (
            "virtual machine",
            if read_to_string("/proc/cpuinfo").unwrap_or_default().contains("hypervisor") { "yes" } else { "no" }
                .into(),
        ),
        ("glibc", glibc_version()),
        ("compiler", version_of("cc")),
        ("transparent huge pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled")),
        ("overcommit", first_line("/proc/sys/vm/overcommit_memory")),
        ("load at start", first_line("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" ")),
    ];
    facts.into_iter().map(|(k, v)| (k.to_string(), v)).collect()
}

/// A name for the result folder that tells the kind of machine, not which one it is.
pub fn host_name(facts: &BTreeMap<String, String>) -> String {
    let cpu = facts.get("cpu").map(String::as_str).unwrap_or_default().to_lowercase();
    let words: Vec<&str> = cpu.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    let useful = words.into_iter().filter(|w| !["r", "tm", "cpu", "processor", "with", "core"].contains(w));
    let short: Vec<&str> = useful.take(2).collect();
    let name = if short.is_empty() { std::env::consts::ARCH.to_string() } else { short.join("-") };
    format!("{name}-{}c", cores())
}

/// Seconds of processor time that the whole machine has spent, stolen time included.
pub fn busy_seconds() -> f64 {
    let line = first_line("/proc/stat");
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|w| w.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    let working = [0, 1, 2, 5, 6, 7].iter().filter_map(|i| ticks.get(*i)).sum::<f64>();
    // SAFETY: a plain query.
    working / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

/// Was the machine busy with others while something of ours used `own` seconds of processor time in `wall` seconds?
pub fn was_busy(foreign_and_own: f64, own: f64, wall: f64) -> bool {
    let foreign = foreign_and_own - own;
    foreign > BUSY_SECONDS && foreign > BUSY_SHARE * wall
}

/// Waits until the machine has been idle for a moment, at most as long as given.
pub fn wait_for_idle(longest: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < longest {
        let before = busy_seconds();
        std::thread::sleep(Duration::from_millis(200));
        if busy_seconds() - before <= BUSY_SECONDS {
            return;
        }
    }
}

/// Touches memory and gives it back, by huge pages where it may. What a virtual machine's host has not backed yet
/// faults eight times slower, and hosts take back what their guests leave free for a few seconds, huge pages first:
/// whoever runs next would pay for it. At most three quarters of what is available, to a container too.
pub fn warm_memory(mib: usize) {
    let available_kib =
        field_of("/proc/meminfo", "MemAvailable").split_whitespace().next().and_then(|k| k.parse::<u64>().ok());
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let in_groups = left_in_groups(Path::new("/sys/fs/cgroup"), &groups).unwrap_or(u64::MAX);
    let available = (available_kib.unwrap_or(0) << 10).min(in_groups);
    let size = mib.min((available >> 20) as usize / 4 * 3) << 20;
    if size == 0 {
        return;
    }
    // SAFETY: a private anonymous mapping of our own, advised and written within its bounds and unmapped.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let memory = libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return;
        }
        libc::madvise(memory, size, libc::MADV_HUGEPAGE); // without it small pages do
        for offset in (0..size).step_by(4096) {
            memory.cast::<u8>().add(offset).write_volatile(1);
        }
        libc::munmap(memory, size);
    }
}

/// What the control groups of /proc/self/cgroup and those above them leave of their limits on memory, in bytes. Their
/// cache of files makes room when it must. None: there is no limit.
fn left_in_groups(mount: &Path, memberships: &str) -> Option<u64> {
    let number = |path: &Path| read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let mut least = None;
    for line in memberships.lines() {
        let [_, controllers, path] = line.splitn(3, ':').collect::<Vec<_>>()[..] else { continue };
        let (folder, limit, usage, cache) = match controllers {
            "" => ("", "memory.max", "memory.current", "inactive_file"),
            some if some.split(',').any(|name| name == "memory") => {
                ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            }
            _ => continue,
        };
        let whole = mount.join(folder).join(path.trim_start_matches('/'));
        for group in whole.ancestors().take_while(|group| group.starts_with(mount)) {
            let Some(limit) = number(&group.join(limit)) else { continue };
            let stat = read_to_string(group.join("memory.stat")).unwrap_or_default();
            let cached = stat.lines().find_map(|l| l.strip_prefix(cache)?.trim().parse().ok()).unwrap_or(0);
            let used = number(&group.join(usage)).unwrap_or(0).saturating_sub(cached);
            let left = limit.saturating_sub(used);
            least = Some(least.map_or(left, |least: u64| least.min(left)));
        }
    }
    least
}

/// Date of today as YYYY-MM-DD.
pub fn today() -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (year, month, day) = civil_date((seconds / 86400) as i64);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Days since 1970-01-01 to a date of the Gregorian calendar; years are counted from March.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The group itself has no limit, the container above it has one; and as the first version has it.
    #[test]
    fn a_container_leaves_less_than_its_host() {
        let mount = std::env::temp_dir().join(format!("hakmem-groups-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = mount.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("box/job/memory.max", "max\n");
        write("box/job/memory.current", "1000\n");
        write("box/memory.max", "10000\n");
        write("box/memory.current", "4000\n");
        write("box/memory.stat", "anon 2500\ninactive_file 1500\n");
        write("memory/memory.limit_in_bytes", "5000\n");
        write("memory/memory.usage_in_bytes", "100\n");
        let left = |text: &str| left_in_groups(&mount, text);
        assert_eq!(left("0::/box/job\n"), Some(7500));
        assert_eq!(left("3:cpu,memory:/seen/from/outside\n1:name=systemd:/x\n0::/none\n"), Some(4900));
        assert_eq!(left("0::/other\n"), None);
        assert_eq!(left(""), None);
        std::fs::remove_dir_all(&mount).unwrap();
    }

    #[test]
    fn dates() {
        assert_eq!(civil_date(0), (1970, 1, 1));
        assert_eq!(civil_date(19_782), (2024, 2, 29));
        assert_eq!(civil_date(20_454), (2026, 1, 1));
    }

    #[test]
    fn foreign_work_makes_a_run_busy() {
        assert!(!was_busy(1.05, 1.0, 1.0));
        assert!(was_busy(1.5, 1.0, 1.0));
        assert!(!was_busy(0.02, 0.0, 0.02));
    }

    #[test]
    fn host_names_are_anonymous() {
        let facts = BTreeMap::from([("cpu".to_string(), "AMD EPYC 9755 Processor".to_string())]);
        assert!(host_name(&facts).starts_with("amd-epyc-"));
    }
}
