// SPDX-License-Identifier: MIT
//! What is set around a process: its environment, its limits, its control group.

use super::finding::Diagnosis;
use super::machine::not_known;
use crate::attach::settings::known;
use crate::flags::checked;
use crate::look::human;
use procfs::process::{LimitValue, Process};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

const GROUPS: &str = "/sys/fs/cgroup";
/// What is behind HAKMEM_ in variables that hakmem leaves alone.
const BENCHMARKS: &str = "BENCH";

const IGNORED: &str = "nothing to do where that is wanted; HAKMEM_LIMIT=0 follows the control group alone";

/// HAKMEM_* that hakmem does not know, or does not understand.
pub fn options<'a>(found: &mut Diagnosis, environment: impl Iterator<Item = (&'a OsString, &'a OsString)>) {
    for (name, value) in environment {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        let Some(short) = name.strip_prefix("HAKMEM_").filter(|short| !short.starts_with(BENCHMARKS)) else { continue };
        match known(short) {
            None => found.problem(
                "option",
                format!("{name} is in its environment and is no option of hakmem's"),
                "`hakmem options` lists them all",
            ),
            Some(option) => {
                if let Err(expected) = checked(option, &value) {
                    found.problem("option", format!("{name}={value} is ignored"), expected);
                }
            }
        }
    }
}

pub fn limits(found: &mut Diagnosis, process: &Process) {
    let Ok(limits) = process.limits() else { return };
    let advice = "limit memory by a control group or HAKMEM_LIMIT instead: those count what is used";
    for (name, id, limit) in [
        ("RLIMIT_AS", "rlimit_as", limits.max_address_space.soft_limit),
        ("RLIMIT_DATA", "rlimit_data", limits.max_data_size.soft_limit),
    ] {
        if let LimitValue::Value(bytes) = limit {
            found.note(id, format!("{name} is {}: what is mapped counts, used or not", human(bytes)), advice);
        }
    }
}

/// The least limit of its group and those above, as seen from here. `is_off`: hakmem is not to keep to any.
pub fn group(found: &mut Diagnosis, process: &Process, is_off: bool) {
    let path = crate::attach::select::cgroup_of(process);
    let least = |file: &str, folder: &str| {
        let whole = Path::new(GROUPS).join(folder).join(path.trim_start_matches('/'));
        let limits = whole.ancestors().take_while(|at| at.starts_with(GROUPS));
        limits.filter_map(|at| fs::read_to_string(at.join(file)).ok()?.trim().parse::<u64>().ok()).min()
    };
    let hard = least("memory.max", "").or(least("memory.limit_in_bytes", "memory")).filter(|&bytes| bytes < 1 << 60);
    let soft = least("memory.high", "");
    match (soft, hard) {
        (None, None) if !has_groups() => not_known(found, "cgroup", "limits of a control group on memory", GROUPS),
        (None, None) => found.ok("cgroup", "no limit of a control group on memory"),
        (soft, hard) => {
            let part = |name: &str, limit: Option<u64>| limit.map(|bytes| format!("{name} {}", human(bytes)));
            let parts: Vec<String> = [part("high", soft), part("max", hard)].into_iter().flatten().collect();
            let what = format!("control group {path}: memory {}; hakmem", parts.join(", "));
            match is_off {
                true => found.note("cgroup", format!("{what} ignores them: HAKMEM_LIMIT=off"), IGNORED),
                false => found.ok("cgroup", format!("{what} keeps to them")),
            }
        }
    }
}

/// The folder is empty where they are not mounted.
fn has_groups() -> bool {
    fs::read_dir(GROUPS).is_ok_and(|mut files| files.next().is_some())
}

/// Huge pages that the process has given up, and a filter that it is under.
pub fn confinement(found: &mut Diagnosis, process: &Process) {
    let Ok(status) = process.status() else { return };
    if status.thp_enabled == Some(false) {
        let what = "it has given up transparent huge pages (PR_SET_THP_DISABLE, or a setting of its service)";
        found.note("thp", what, "large heaps are served by small pages; nothing to do where that is wanted");
    }
    if status.seccomp.unwrap_or(0) != 0 {
        let what =
            "it is under a filter of system calls (seccomp): figures can be read, and what it does itself may be less";
        found.note("seccomp", what, "docs/compatibility.md says which calls hakmem goes without");
    }
}

/// The files that LD_PRELOAD names.
pub fn preloaded(environment: Option<&OsStr>) -> Vec<String> {
    let list = environment.unwrap_or_default().to_string_lossy().into_owned();
    list.split([' ', ':']).filter(|name| !name.is_empty()).map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_do_nothing_are_named() {
        let environment =
            [("HAKMEM_BENCH_X", "1"), ("HAKMEM_SAVE", "2"), ("HAKMEM_SAFE", "7"), ("HAKMEM_STATS", "1"), ("PATH", "/")];
        let environment = environment.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let mut found = Diagnosis::of("");
        options(&mut found, environment.iter().map(|(name, value)| (name, value)));
        let said: Vec<&str> = found.findings.iter().map(|one| &one.what[..]).collect();
        assert_eq!(
            said,
            ["HAKMEM_SAVE is in its environment and is no option of hakmem's", "HAKMEM_SAFE=7 is ignored"]
        );
    }

    #[test]
    fn lists_of_preloads_are_taken_apart() {
        assert_eq!(preloaded(Some(OsStr::new("/a.so:/b.so /c.so"))), ["/a.so", "/b.so", "/c.so"]);
        assert!(preloaded(None).is_empty());
    }
}
