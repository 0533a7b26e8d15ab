// SPDX-License-Identifier: MIT
//! Makes tables of the lists and structures that the library itself is made of, so that the tool and the library cannot
//! differ.
//!
//! A list is a file of `NAME(argument, ...)`, arguments being words, expressions or strings: src/core/options.def and
//! its like.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../src");

struct Entry {
    name: String,
    arguments: Vec<String>,
}

fn main() {
    let mut made = String::new();
    words(&mut made);
    options(&mut made);
    statistics(&mut made);
    packed_bits(&mut made);
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    std::fs::write(out.join("lists.rs"), made).expect("OUT_DIR can be written");
    let mut made = String::new();
    layout(&mut made);
    std::fs::write(out.join("layout.rs"), made).expect("OUT_DIR can be written");
}

/// The structures of src/sample/format.h: a module each, with the place of each field; and its constants.
fn layout(made: &mut String) {
    let path = Path::new(SOURCE).join("sample/format.h");
    println!("cargo::rerun-if-changed={}", path.display());
    let text = without_comments(&std::fs::read_to_string(&path).expect("format.h is there"));
    let mut constants = std::collections::BTreeMap::new();
    for line in text.lines() {
        let assigned = line.trim().trim_end_matches(',').split_once(" = ").map(|(name, value)| (name.trim(), value));
        let defined = line.strip_prefix("#define ").and_then(|rest| rest.split_once(' '));
        let Some((name, value)) = assigned.or(defined) else { continue };
        if let Ok(value) = value.trim().parse::<usize>() {
            writeln!(made, "pub const {name}: usize = {value};").expect("a string grows");
            constants.insert(name.to_string(), value);
        }
    }
    for part in text.split("typedef struct ").skip(1) {
        let (name, rest) = part.split_once('{').expect("a structure has a body");
        let (body, _) = rest.split_once('}').expect("a structure ends");
        if body.contains("_t ") && body.contains("profile_") {
            continue; // made of the others
        }
        structure(made, name.trim().trim_start_matches("profile_"), body, &constants);
    }
}

/// A field lies behind the one before it: the format has no padding.
fn structure(made: &mut String, name: &str, body: &str, constants: &std::collections::BTreeMap<String, usize>) {
    writeln!(made, "pub mod {name} {{\n    use super::Place;").expect("a string grows");
    let mut offset = 0;
    for declaration in body.split(';').map(str::trim).filter(|text| !text.is_empty()) {
        let (kind, names) = declaration.split_once(char::is_whitespace).expect("a type and names");
        let size = match kind {
            "uint64_t" => 8,
            "uint32_t" => 4,
            "uint16_t" => 2,
            "uint8_t" | "char" => 1,
            other => panic!("format.h: {other} in {name}"),
        };
        for field in names.split(',').map(str::trim) {
            let (field, count) = match field.split_once('[') {
                Some((field, count)) => {
                    let count = count.trim_end_matches(']').trim();
                    (field.trim(), count.parse().unwrap_or_else(|_| constants[count]))
                }
                None => (field, 1),
            };
            let constant = field.to_ascii_uppercase();
            writeln!(made, "    pub const {constant}: Place = Place {{ offset: {offset}, size: {size} }};")
                .expect("a string grows");
            offset += size * count;
        }
    }
    writeln!(made, "    pub const STRIDE_BYTES: usize = {offset};\n}}").expect("a string grows");
}

fn words(made: &mut String) {
    made.push_str("#[allow(dead_code)]\n#[derive(Clone, Copy, Debug, PartialEq)]\npub enum Word {\n");
    let entries = list("inspect/record.def");
    for entry in &entries {
        writeln!(made, "    {},", camel(&entry.arguments[0])).expect("a string grows");
    }
    made.push_str("}\n");
}

fn options(made: &mut String) {
    made.push_str("pub const OPTIONS: &[OptionInfo] = &[\n");
    for entry in list("core/options.def") {
        let [_, name, kind, initial, min, max, choices, when, help] = &entry.arguments[..] else {
            panic!("options.def: {} has {} arguments", entry.arguments[0], entry.arguments.len());
        };
        let [initial, min, max] = [initial, min, max].map(|text| number(text));
        let at_start = when == "START";
        writeln!(
            made,
            "    OptionInfo {{ name: {name:?}, kind: {kind:?}, initial: {initial}, min: {min}, max: {max}, \
             choices: {choices:?}, at_start: {at_start}, help: {help:?} }},"
        )
        .expect("a string grows");
    }
    made.push_str("];\n");
}

fn number(text: &str) -> i64 {
    let parsed = match text.strip_prefix("0x") {
        _ if text == "INT64_MAX" => Ok(i64::MAX),
        Some(hex) => i64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|error| panic!("options.def: {text}: {error}"))
}

/// How an option of the kind PROFILE is packed.
fn packed_bits(made: &mut String) {
    let path = Path::new(SOURCE).join("core/options.h");
    println!("cargo::rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(&path).expect("options.h is there");
    for name in ["PROFILE_LOG2_BITS"] {
        let (_, rest) = text.split_once(&format!("HK_{name} = ")).expect("options.h has the number");
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next().expect("a number");
        writeln!(made, "pub const {name}: u32 = {digits};").expect("a string grows");
    }
}

fn statistics(made: &mut String) {
    made.push_str("pub const STATISTICS: &[Statistic] = &[\n");
    let mut group = String::new();
    for entry in list("api/stats.def") {
        if entry.name == "HK_STAT_GROUP" {
            group.clone_from(&entry.arguments[0]);
            continue;
        }
        let [field, unit, label] = &entry.arguments[..3] else { unreachable!("three of three") };
        let bytes = unit == "BYTES";
        writeln!(made, "    Statistic {{ group: {group:?}, field: {field:?}, bytes: {bytes}, label: {label:?} }},")
            .expect("a string grows");
    }
    made.push_str("];\n");
}

fn list(path: &str) -> Vec<Entry> {
    let path = Path::new(SOURCE).join(path);
    println!("cargo::rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    entries(&without_comments(&text))
}

fn without_comments(text: &str) -> String {
    let mut left = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        left.push_str(&rest[..start]);
        let end = rest[start..].find("*/").expect("comments end");
        rest = &rest[start + end + 2..];
    }
    left + rest
}

fn entries(text: &str) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('(') {
        let name = rest[..open].trim().to_string();
        let (arguments, length) = arguments(&rest[open + 1..]);
        found.push(Entry { name, arguments });
        rest = &rest[open + 1 + length..];
    }
    found
}

/// Up to the parenthesis that closes them. Strings lose their quotes, and neighbours become one.
fn arguments(text: &str) -> (Vec<String>, usize) {
    let mut all = vec![String::new()];
    let (mut depth, mut in_string) = (0, false);
    for (at, c) in text.char_indices() {
        let last = all.last_mut().expect("there is one");
        match c {
            '"' => in_string = !in_string,
            _ if in_string => last.push(c),
            ')' if depth == 0 => {
                return (all, at + 1);
            }
            ',' if depth == 0 => all.push(String::new()),
            _ if c.is_whitespace() => {}
            _ => {
                depth += i32::from(c == '(') - i32::from(c == ')');
                last.push(c);
            }
        }
    }
    panic!("a list ends within its arguments")
}

fn camel(name: &str) -> String {
    name.split('_').map(|part| part[..1].to_uppercase() + &part[1..]).collect()
}
