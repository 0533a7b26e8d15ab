// SPDX-License-Identifier: MIT
//! Processes are started on the library of this clone and looked into while they run.

mod running;

use running::{hakmem, sleeping};

#[test]
fn a_preloaded_process_is_read_and_its_parts_add_up() {
    let child = sleeping(&["--safe", "2", "--limit", "1G:2G"]);
    let id = child.id();
    let output = hakmem(&["stats", "--json", &id]);
    let stats: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let at = |name: &str| stats[name].as_u64().unwrap();
    assert_eq!(at("process").to_string(), id);
    assert_eq!((at("limit_soft"), at("limit_hard")), (1 << 30, 2 << 30));
    assert!(at("live") > 0 && at("resident") > 0 && at("heaps_now") == 1, "{stats}");
    let parts = at("live") + at("cached") + at("fragmented") + at("retained") + at("metadata");
    assert_eq!(at("resident") + at("untouched"), parts);
    let options = String::from_utf8(hakmem(&["options", &id]).stdout).unwrap();
    assert!(options.lines().any(|line| line.contains("HAKMEM_SAFE  ") && line.contains(" 2  ")), "{options}");
    let ps = String::from_utf8(hakmem(&["ps"]).stdout).unwrap();
    assert!(ps.lines().any(|line| line.split_whitespace().next() == Some(&id)), "{ps}");
}

#[test]
fn exit_codes_tell_what_went_wrong() {
    let own = std::process::id().to_string();
    let output = hakmem(&["stats", &own]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no hakmem in process"));
    assert_eq!(hakmem(&["stats", "2147483647"]).status.code(), Some(1));
    assert_eq!(hakmem(&["stats"]).status.code(), Some(2));
    assert_eq!(hakmem(&["stats", "0"]).status.code(), Some(2));
    assert_eq!(hakmem(&["run", "--safe", "9", "--", "true"]).status.code(), Some(2));
    assert_eq!(hakmem(&["run", "--", "no-such-program"]).status.code(), Some(1));
}
