// SPDX-License-Identifier: MIT
//! What the kernel of this machine lets hakmem do, and this tool.

use super::finding::Diagnosis;
use crate::attach::refusal;
use nix::sys::utsname::uname;
use std::fs;

const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const OVERCOMMIT: &str = "/proc/sys/vm/overcommit_memory";
/// Below it, programs with many mappings meet the end of them before that of the memory.
const MAPS_MIN: u64 = 65530;

/// What came with which version, and what hakmem does without it.
const FEATURES: [(u32, u32, &str, &str); 4] = [
    (4, 14, "MADV_WIPEONFORK", "children that were made without fork handlers are not noticed"),
    (4, 17, "MAP_FIXED_NOREPLACE", "each piece of memory takes a hint and a look"),
    (5, 9, "CLOSE_RANGE_UNSHARE", "the helper shares the program's table of file descriptors"),
    (5, 14, "MADV_POPULATE_WRITE", "pages are made resident by touching them"),
];

pub fn examine() -> Diagnosis {
    let release = uname().map_or_else(|_| "?".into(), |about| about.release().to_string_lossy().into_owned());
    let mut found = Diagnosis::of(format!("this machine (Linux {release}, {})", std::env::consts::ARCH));
    features(&mut found, &release);
    huge_pages(&mut found, read(THP).as_deref());
    overcommit(&mut found, read(OVERCOMMIT).as_deref(), read("/proc/sys/vm/max_map_count").as_deref());
    access(&mut found);
    found
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_string())
}

/// What cannot be read is not judged.
pub fn not_known(found: &mut Diagnosis, id: &'static str, what: &str, path: &str) {
    let remedy = "have /proc and /sys mounted as a whole, and readable for this user";
    found.note(id, format!("{what}: not known, as there is nothing to read at {path}"), remedy);
}

fn features(found: &mut Diagnosis, release: &str) {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0u32));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let missed: Vec<_> = FEATURES.iter().filter(|feature| version < (feature.0, feature.1)).collect();
    for (major, minor, name, without) in &missed {
        found.note("kernel", format!("the kernel has no {name}: {without}"), format!("Linux {major}.{minor} has it"));
    }
    if missed.is_empty() {
        found.ok("kernel", "the kernel has all that hakmem uses");
    }
}

fn huge_pages(found: &mut Diagnosis, text: Option<&str>) {
    let Some(chosen) = text.and_then(|text| text.split(['[', ']']).nth(1)) else {
        return not_known(found, "thp", "transparent huge pages", THP);
    };
    match chosen {
        "never" => found.note(
            "thp",
            "transparent huge pages are off: large heaps are served by small pages",
            format!("echo madvise | sudo tee {THP}"),
        ),
        "always" => found.note(
            "thp",
            "transparent huge pages are given to everybody: what hakmem leaves small may become huge all the same",
            format!("echo madvise | sudo tee {THP}"),
        ),
        _ => found.ok("thp", format!("transparent huge pages: {chosen}")),
    }
}

fn overcommit(found: &mut Diagnosis, mode: Option<&str>, maps: Option<&str>) {
    match mode {
        None => not_known(found, "overcommit", "vm.overcommit_memory", OVERCOMMIT),
        Some("2") => found.note(
            "overcommit",
            "the kernel commits strictly (vm.overcommit_memory 2): what is mapped counts, used or not",
            "hakmem maps what it uses; where programs are refused memory, raise vm.overcommit_ratio or add swap",
        ),
        Some(mode) => found.ok("overcommit", format!("vm.overcommit_memory is {mode}")),
    }
    if let Some(maps) = maps.filter(|maps| maps.parse().is_ok_and(|count: u64| count < MAPS_MIN)) {
        let what = format!("vm.max_map_count is {maps}: a large heap may meet it");
        found.note("max_map_count", what, format!("sudo sysctl vm.max_map_count={MAPS_MIN}"));
    }
}

/// Who may look into whom.
fn access(found: &mut Diagnosis) {
    match refusal::known_yama() {
        Some(yama) => traced(found, yama, refusal::may_trace()),
        None => not_known(found, "yama", "whether Yama restricts who may look into a process", refusal::PTRACE_SCOPE),
    }
    if let Some(option) = refusal::hidepid() {
        hidden(found, &option, refusal::may_trace());
    }
}

fn traced(found: &mut Diagnosis, yama: u32, may_trace: bool) {
    let remedy = || refusal::remedy(true);
    match yama {
        0 => found.ok("yama", "users may look into their own processes"),
        1 | 2 if may_trace => found.ok("yama", format!("Yama (ptrace_scope {yama}) does not restrict this user")),
        1 => found.note("yama", "Yama (ptrace_scope 1): only ancestors may look into a process", remedy()),
        2 => found.note("yama", "Yama (ptrace_scope 2): only root may look into a process", remedy()),
        _ => found.problem(
            "yama",
            "Yama (ptrace_scope 3): nobody may look into a process until the next boot",
            "HAKMEM_STATS=text prints statistics at a program's end",
        ),
    }
}

fn hidden(found: &mut Diagnosis, option: &str, may_trace: bool) {
    if may_trace {
        return found.ok("hidepid", format!("/proc is mounted with {option}, which does not restrict this user"));
    }
    let what = format!("/proc is mounted with {option}: other users' processes are not visible");
    found.note("hidepid", what, refusal::remedy(false));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(examine: impl Fn(&mut Diagnosis)) -> String {
        let mut found = Diagnosis::of("");
        examine(&mut found);
        super::super::finding::as_text(&[found])
    }

    #[test]
    fn old_kernels_are_told_what_they_miss() {
        assert!(said(|found| features(found, "6.1.0-13-amd64")).contains("has all"));
        let old = said(|found| features(found, "4.15.0"));
        assert!(old.contains("MAP_FIXED_NOREPLACE") && old.contains("POPULATE_WRITE") && !old.contains("WIPEONFORK"));
    }

    #[test]
    fn settings_that_matter_come_with_a_remedy() {
        assert!(said(|found| huge_pages(found, Some("always madvise [never]"))).contains("-> echo madvise"));
        assert!(said(|found| huge_pages(found, Some("always [madvise] never"))).contains("ok "));
        assert!(said(|found| overcommit(found, Some("2"), Some("65530"))).contains("commits strictly"));
        assert!(said(|found| overcommit(found, Some("0"), Some("1000"))).contains("sysctl vm.max_map_count=65530"));
    }

    #[test]
    fn what_cannot_be_read_is_not_known() {
        let said = said(|found| {
            huge_pages(found, None);
            overcommit(found, None, None);
        });
        for what in ["transparent huge pages: not known, as", "vm.overcommit_memory: not known, as"] {
            assert!(said.contains(&format!("\n  note     {what} there is nothing to read at /")), "{said}");
        }
    }

    /// Root is told what it lacks, others the command that would work.
    #[test]
    fn who_may_not_look_is_told_what_would_do() {
        let remedy = if nix::unistd::geteuid().is_root() { "-> this is root without CAP_SYS_PTRACE" } else { "-> try `sudo hakmem " };
        for scope in [1, 2] {
            assert!(said(|found| traced(found, scope, false)).contains(remedy));
            assert!(said(|found| traced(found, scope, true)).contains("does not restrict this user"));
        }
        assert!(said(|found| hidden(found, "hidepid=2", false)).contains(remedy));
        assert!(said(|found| hidden(found, "hidepid=2", true)).contains("does not restrict this user"));
    }
}
