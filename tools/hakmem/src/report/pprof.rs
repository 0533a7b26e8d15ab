// SPDX-License-Identifier: MIT
//! The profile as pprof has it (github.com/google/pprof, proto/profile.proto), compressed as its readers want it.

use super::view::{amount, Show};
use crate::image::layout::PROFILE_STACK_CODE_MIN;
use crate::image::{Profile, Sample as Block};
use crate::symbols::{call_site, Frame, Symbols};
use anyhow::Result;
use flate2::write::GzEncoder;
use flate2::Compression;
use prost::Message;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::io::Write;

#[derive(Clone, PartialEq, Message)]
pub struct Proto {
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub period: i64,
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct ValueType {
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Label {
    #[prost(int64, tag = "1")]
    pub key: i64,
    #[prost(int64, tag = "2")]
    pub str: i64,
    #[prost(int64, tag = "3")]
    pub num: i64,
    #[prost(int64, tag = "4")]
    pub num_unit: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Mapping {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    #[prost(int64, tag = "5")]
    pub filename: i64,
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Location {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    #[prost(uint64, tag = "3")]
    pub address: u64,
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Line {
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    #[prost(int64, tag = "2")]
    pub line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Function {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "2")]
    pub name: i64,
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

const TYPES: [(&str, &str); 5] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
    ("peak_space", "bytes"),
];

/// The places of a table's entries, from 0 on.
struct Places<Key>(HashMap<Key, u64>);

impl<Key: Eq + Hash> Places<Key> {
    fn new() -> Places<Key> {
        Places(HashMap::new())
    }

    /// With whether this is the first time, and so the entry is to be made.
    fn of(&mut self, key: Key) -> (u64, bool) {
        let next = self.0.len() as u64;
        let place = *self.0.entry(key).or_insert(next);
        (place, place == next)
    }
}

/// Puts the tables together. Functions and locations have numbers from 1 on.
struct Builder<'a> {
    proto: Proto,
    strings: Places<String>,
    functions: Places<(String, String)>,
    locations: Places<u64>,
    profile: &'a Profile,
    symbols: &'a Symbols,
}

pub fn write(profile: &Profile, symbols: &Symbols, show: Show) -> Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&build(profile, symbols, show).encode_to_vec())?;
    Ok(packed.finish()?)
}

pub fn build(profile: &Profile, symbols: &Symbols, show: Show) -> Proto {
    let mut builder = Builder {
        proto: Proto::default(),
        strings: Places::new(),
        functions: Places::new(),
        locations: Places::new(),
        profile,
        symbols,
    };
    builder.string("");
    builder.head(show);
    builder.mappings();
    builder.sites();
    builder.proto
}

impl Builder<'_> {
    fn string(&mut self, text: &str) -> i64 {
        let (place, is_new) = self.strings.of(text.to_string());
        if is_new {
            self.proto.string_table.push(text.to_string());
        }
        place as i64
    }

    fn head(&mut self, show: Show) {
        for (name, unit) in TYPES {
            let value = ValueType { r#type: self.string(name), unit: self.string(unit) };
            self.proto.sample_type.push(value);
        }
        let default = match show {
            Show::Alloc | Show::Lifetime | Show::Temporary => "alloc_space",
            Show::Peak => "peak_space",
            Show::Inuse => "inuse_space",
        };
        self.proto.default_sample_type = self.string(default);
        self.proto.period_type = Some(ValueType { r#type: self.string("space"), unit: self.string("bytes") });
        self.proto.period = self.profile.interval as i64;
        self.proto.time_nanos = (self.profile.start_unix_ns + self.profile.elapsed_us * 1000) as i64;
        self.proto.duration_nanos = (self.profile.elapsed_us * 1000) as i64;
        let comment = format!("hakmem: {}; {}", self.profile.origin, self.profile.sampling());
        let comment = self.string(&comment);
        self.proto.comment.push(comment);
    }

    /// The code of each file. pprof takes the first for the program.
    fn mappings(&mut self) {
        let code: Vec<_> = self.profile.maps.iter().filter(|map| map.is_code && !map.path.is_empty()).collect();
        for (at, map) in code.into_iter().enumerate() {
            let (filename, build_id) = (self.string(&map.path), self.string(&map.build_id));
            let named = self.symbols.are_there;
            self.proto.mapping.push(Mapping {
                id: at as u64 + 1,
                memory_start: map.start,
                memory_limit: map.end,
                file_offset: map.offset,
                filename,
                build_id,
                has_functions: named,
                has_filenames: named,
                has_line_numbers: named,
                has_inline_frames: named,
            });
        }
    }

    /// A sample for each site, thread and size of what is in use, and one for what is not any more.
    fn sites(&mut self) {
        let mut live: HashMap<u32, BTreeMap<(u32, u64), [f64; 2]>> = HashMap::new();
        for block in &self.profile.samples {
            let Block { site, thread, size, weight, .. } = block;
            let sum = live.entry(*site).or_default().entry((*thread, *size)).or_default();
            sum[0] += weight.objects;
            sum[1] += weight.bytes;
        }
        let (thread_key, bytes_key, unit) = (self.string("thread"), self.string("bytes"), self.string("bytes"));
        let profile = self.profile;
        for (number, site) in profile.real_sites() {
            let location_id = self.stack(site.stack);
            let [all, now, peak] = [Show::Alloc, Show::Inuse, Show::Peak].map(|show| amount(site, show));
            let mut rest = [all.objects, all.bytes, now.objects, now.bytes, peak.bytes];
            for ((thread, size), sum) in live.remove(&(number as u32)).unwrap_or_default() {
                let label = |key, str, num, num_unit| Label { key, str, num, num_unit };
                let thread = self.string(&profile.thread_name(thread));
                let label = vec![label(thread_key, thread, 0, 0), label(bytes_key, 0, size as i64, unit)];
                rest[2] -= sum[0];
                rest[3] -= sum[1];
                let value = [0.0, 0.0, sum[0], sum[1], 0.0].map(|of: f64| of.round() as i64).to_vec();
                self.proto.sample.push(Sample { location_id: location_id.clone(), value, label });
            }
            let value: Vec<i64> = rest.iter().map(|of| (of.round() as i64).max(0)).collect();
            self.proto.sample.push(Sample { location_id, value, label: Vec::new() });
        }
    }

    fn stack(&mut self, stack: u32) -> Vec<u64> {
        self.profile.stack(stack).into_iter().map(|pc| self.location(pc)).collect()
    }

    fn location(&mut self, pc: u64) -> u64 {
        let (place, is_new) = self.locations.of(pc);
        let id = place + 1;
        if !is_new {
            return id;
        }
        let is_code = pc >= PROFILE_STACK_CODE_MIN as u64;
        let address = if is_code { call_site(pc) } else { 0 };
        let holds = |map: &&Mapping| (map.memory_start..map.memory_limit).contains(&address);
        let mapping_id = self.proto.mapping.iter().find(holds).map_or(0, |map| map.id);
        let symbols = self.symbols;
        let named = symbols.of(pc).iter().filter(|frame| frame.is_known && (symbols.are_there || !is_code));
        let line = named.map(|frame| Line { function_id: self.function(frame), line: frame.line.into() }).collect();
        self.proto.location.push(Location { id, mapping_id, address, line });
        id
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let (place, is_new) = self.functions.of((frame.name.clone(), frame.file.clone()));
        let id = place + 1;
        if !is_new {
            return id;
        }
        let (name, filename) = (self.string(&frame.name), self.string(&frame.file));
        self.proto.function.push(Function { id, name, system_name: name, filename });
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::fixture::{Block as FixtureBlock, Fixture};
    use crate::symbols;
    use flate2::read::GzDecoder;
    use std::io::Read;
    use std::path::Path;

    #[test]
    fn what_is_written_is_read_back() {
        let mut fixture = Fixture::new(0);
        fixture.maps = "1000-9000 r-xp 00000000 00:00 0 /bin/x\n".into();
        fixture.thread(7, "worker");
        let stack = fixture.stack(&[0x1100, 0x2100, 1]);
        for _ in 0..3 {
            fixture.block(FixtureBlock { stack, size: 100, thread: 7, ..FixtureBlock::default() });
        }
        fixture.freed(stack, 1000, 5);
        let profile = crate::image::from_bytes(&fixture.bytes(), Path::new("f")).unwrap();
        let packed = write(&profile, &symbols::none(&profile), Show::Inuse).unwrap();
        let mut bytes = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let proto = Proto::decode(&bytes[..]).unwrap();
        let text = |number: i64| &proto.string_table[number as usize][..];
        assert_eq!(proto.string_table[0], "");
        assert_eq!(text(proto.default_sample_type), "inuse_space");
        assert_eq!((text(proto.mapping[0].filename), proto.mapping[0].has_functions), ("/bin/x", false));
        let sums = |at: usize| proto.sample.iter().map(|sample| sample.value[at]).sum::<i64>();
        assert_eq!([0, 1, 2, 3, 4].map(sums), [4, 1300, 3, 300, 300]);
        let labels = &proto.sample[0].label;
        assert_eq!((text(labels[0].key), text(labels[0].str), labels[1].num), ("thread", "worker", 100));
        assert_eq!((proto.location[0].address, proto.location[0].mapping_id), (0x10ff, 1));
        assert_eq!(proto.location[2].mapping_id, 0);
        assert!(text(proto.function[0].name).starts_with("[truncated"));
    }

    /// The one that comes with Go.
    #[test]
    fn the_reader_of_go_reads_it() {
        let go = ["go", "/usr/local/go/bin/go"].into_iter().find(|go| {
            std::process::Command::new(go).arg("version").output().is_ok_and(|output| output.status.success())
        });
        let Some(go) = go else {
            crate::output::remark("skipped: go tool pprof: go is not installed");
            return;
        };
        let mut fixture = Fixture::new(19);
        fixture.maps = "10000-90000 rwxp 00000000 00:00 0\n".into();
        fixture.pid = 6_000_000 + std::process::id();
        let map = format!("/tmp/perf-{}.map", fixture.pid);
        std::fs::write(&map, "10000 100 keeps_it\n20000 100 main\n").unwrap();
        let stack = fixture.stack(&[0x10010, 0x20010]);
        for _ in 0..4 {
            fixture.block(FixtureBlock { stack, size: 8 << 20, ..FixtureBlock::default() });
        }
        let profile = crate::image::from_bytes(&fixture.bytes(), Path::new("f")).unwrap();
        let names = symbols::find(&profile, &symbols::Places::default());
        std::fs::remove_file(map).unwrap();
        let path = std::env::temp_dir().join(format!("hakmem-{}.pb.gz", fixture.pid));
        std::fs::write(&path, write(&profile, &names, Show::Inuse).unwrap()).unwrap();
        let output = std::process::Command::new(go).args(["tool", "pprof", "-top"]).arg(&path).output().unwrap();
        std::fs::remove_file(path).unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("Type: inuse_space"), "{said}");
        assert!(said.lines().any(|line| line.contains("32MB") && line.ends_with("keeps_it")), "{said}");
    }
}
