// SPDX-License-Identifier: MIT
//! licences.md has every crate that is linked into the tool, with its licence. HAKMEM_WRITE_LICENCES=1 writes it anew.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/licences.md");
const PLATFORM: &str = "x86_64-unknown-linux-gnu";
const HEAD: &str = "\
# Licences of what is linked into the tool

The library hakmem links nothing but the C library. The tool `hakmem` is MIT as all of this repository, and links these
crates, unchanged, on Linux. inferno, which draws flame graphs, is under CDDL-1.0: who passes the tool on as a program
says where inferno's source is (crates.io). All others ask for their notices alone. A test keeps this list
(`cargo test -p hakmem-cli --test licences`).

";

fn metadata() -> Option<Value> {
    let arguments = ["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", PLATFORM];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Those that are linked: not what builds run or tests need.
fn linked(metadata: &Value) -> BTreeSet<&str> {
    let id = |package: &'_ Value| package["name"] == "hakmem-cli";
    let root = list(metadata, "packages").iter().find(|package| id(package)).expect("the tool is there");
    let nodes = list(&metadata["resolve"], "nodes");
    let (mut found, mut waiting) = (BTreeSet::new(), vec![root["id"].as_str().unwrap()]);
    while let Some(id) = waiting.pop() {
        if !found.insert(id) {
            continue;
        }
        let node = nodes.iter().find(|node| node["id"] == id).unwrap();
        let is_linked = |of: &&Value| list(of, "dep_kinds").iter().any(|kind| kind["kind"].is_null());
        waiting.extend(list(node, "deps").iter().filter(is_linked).map(|of| of["pkg"].as_str().unwrap()));
    }
    found
}

fn text(metadata: &Value) -> String {
    let linked = linked(metadata);
    let mut licences: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for package in list(metadata, "packages").iter().filter(|of| linked.contains(of["id"].as_str().unwrap())) {
        if package["name"] != "hakmem-cli" {
            let licence = package["license"].as_str().expect("a crate names its licence").replace('/', " OR ");
            let licence = licence.split_whitespace().collect::<Vec<_>>().join(" ");
            licences.entry(licence).or_default().insert(package["name"].as_str().unwrap());
        }
    }
    let mut text = HEAD.to_string() + "| Licence | Crates |\n|---|---|\n";
    for (licence, crates) in licences {
        text += &format!("| {licence} | {} |\n", crates.into_iter().collect::<Vec<_>>().join(", "));
    }
    text
}

#[test]
fn the_list_is_true() {
    let Some(metadata) = metadata() else {
        let why = "skipped: the list of licences: cargo metadata needs crates that are not here";
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{why}\n")); // not kept by the harness
        return;
    };
    let text = text(&metadata);
    if std::env::var_os("HAKMEM_WRITE_LICENCES").is_some() {
        std::fs::write(LIST, &text).unwrap();
    }
    let there = std::fs::read_to_string(LIST).unwrap_or_default();
    assert_eq!(there, text, "HAKMEM_WRITE_LICENCES=1 cargo test -p hakmem-cli --test licences writes it anew");
    assert!(text.contains("| CDDL-1.0 | inferno |"), "{text}");
}
