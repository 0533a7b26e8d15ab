// SPDX-License-Identifier: MIT
//! Names of the places in stacks: from the files that the process has mapped, their separate debug files, and the maps
//! that compilers at run time write for `perf`.

mod demangle;
mod files;
mod perf_map;
#[cfg(test)]
mod tests;

use crate::attach::maps::Mapping;
use crate::image::layout;
use crate::image::Profile;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};
use files::File;
use perf_map::PerfMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// Of the function; where it is not known, "file+0x12".
    pub name: String,
    pub file: String,
    /// 0: not known.
    pub line: u32,
    pub module: String,
    pub is_known: bool,
}

/// A file whose functions are not known, or only those that it exports.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    pub path: String,
    pub build_id: String,
    pub why: &'static str,
    /// Places without a name.
    pub places: usize,
}

#[derive(Debug, Default)]
pub struct Symbols {
    /// By the address in the stack; the innermost inlined function first.
    frames: HashMap<u64, Vec<Frame>>,
    pub missing: Vec<Missing>,
    /// Names were asked for.
    pub are_there: bool,
}

impl Symbols {
    pub fn of(&self, pc: u64) -> &[Frame] {
        self.frames.get(&pc).map_or(&[], Vec::as_slice)
    }

    /// From the innermost frame on, with inlined functions.
    pub fn stack(&self, profile: &Profile, stack: u32) -> Vec<&Frame> {
        profile.stack(stack).into_iter().flat_map(|pc| self.of(pc)).collect()
    }

    /// What is not known, and where it can be had; a line a file.
    pub fn remarks(&self) -> Vec<String> {
        let line = |missing: &Missing| {
            let id = if missing.build_id.is_empty() { "unknown" } else { &missing.build_id[..] };
            format!("{}: {} (build-id {id}): {} places without a name", missing.path, missing.why, missing.places)
        };
        let mut lines: Vec<String> = self.missing.iter().map(line).collect();
        if !lines.is_empty() {
            lines.push(
                "names are in the debug package of each file (Debian: NAME-dbgsym), which is found by its build-id in \
                 /usr/lib/debug/.build-id, or in a folder given by --debug-dir"
                    .into(),
            );
        }
        lines
    }
}

/// Where to look beside the usual places.
#[derive(Clone, Debug, Default)]
pub struct Places {
    pub debug_dirs: Vec<PathBuf>,
}

/// The address of the call, of which the stack has the address behind it.
pub fn call_site(pc: u64) -> u64 {
    pc - 1
}

fn mark(pc: u64) -> Frame {
    let why = match pc as usize {
        layout::PROFILE_STACK_DEEPER => "more frames",
        layout::PROFILE_STACK_NO_TABLES => "code without unwind tables",
        layout::PROFILE_STACK_UNSUPPORTED => "unwind tables of another kind",
        layout::PROFILE_STACK_OUT_OF_PLACE => "the next frame is elsewhere",
        layout::PROFILE_STACK_NO_ROOM => "no room for the stack",
        _ => "cut",
    };
    Frame { name: format!("[truncated: {why}]"), is_known: true, ..Frame::default() }
}

fn bare(address: u64, mapping: Option<&Mapping>) -> Frame {
    let Some(mapping) = mapping else {
        return Frame { name: format!("{address:#x}"), ..Frame::default() };
    };
    let module = mapping.name().to_string();
    let place = address - mapping.start + mapping.offset;
    Frame { name: format!("{module}+{place:#x}"), module, ..Frame::default() }
}

fn places_in(profile: &Profile) -> BTreeSet<u64> {
    profile.nodes.iter().skip(1).map(|node| node.pc).collect()
}

/// Addresses as they are.
pub fn none(profile: &Profile) -> Symbols {
    let frame = |pc: u64| {
        if pc < layout::PROFILE_STACK_CODE_MIN as u64 {
            return mark(pc);
        }
        bare(call_site(pc), profile.mapping(call_site(pc)))
    };
    let frames = places_in(profile).into_iter().map(|pc| (pc, vec![frame(pc)])).collect();
    Symbols { frames, ..Symbols::default() }
}

pub fn find(profile: &Profile, places: &Places) -> Symbols {
    let mut symbols = none(profile);
    symbols.are_there = true;
    let mut by_file: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut jitted = Vec::new();
    for pc in places_in(profile).into_iter().filter(|&pc| pc >= layout::PROFILE_STACK_CODE_MIN as u64) {
        match profile.mapping(call_site(pc)) {
            Some(mapping) if mapping.is_file() => by_file.entry(mapping.path.clone()).or_default().push(pc),
            Some(_) => jitted.push(pc),
            None => {}
        }
    }
    symbols.add_jitted(profile, &jitted);
    for (path, pcs) in by_file {
        symbols.add_file(profile, places, &path, &pcs);
    }
    symbols.missing.sort_by_key(|missing| std::cmp::Reverse(missing.places));
    symbols
}

impl Symbols {
    fn add_jitted(&mut self, profile: &Profile, pcs: &[u64]) {
        if pcs.is_empty() {
            return;
        }
        let map = PerfMap::of(profile);
        for &pc in pcs {
            if let Some(name) = map.name(call_site(pc)) {
                let name = name.to_string();
                self.frames
                    .insert(pc, vec![Frame { name, module: "[jit]".into(), is_known: true, ..Frame::default() }]);
            }
        }
    }

    fn add_file(&mut self, profile: &Profile, places: &Places, path: &str, pcs: &[u64]) {
        let Some(mapping) = profile.mapping(call_site(pcs[0])) else { return };
        let file = File::find(profile, mapping, places);
        let mut unknown: Vec<(u64, u64)> =
            pcs.iter().filter_map(|&pc| Some((pc, file.address(profile, pc)?))).collect();
        let lost = pcs.len() - unknown.len();
        for source in file.sources() {
            if !unknown.is_empty() {
                unknown = self.add_from(source, mapping.name(), unknown);
            }
        }
        let places = unknown.len() + lost;
        if let Some(why) = file.lacks().filter(|_| places > 0) {
            let build_id = mapping.build_id.clone();
            self.missing.push(Missing { path: path.to_string(), build_id, why, places });
        }
    }

    /// What this source does not know either.
    fn add_from(&mut self, source: &std::path::Path, module: &str, wanted: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        let symbolizer = Symbolizer::builder().enable_auto_reload(false).build();
        let addresses: Vec<u64> = wanted.iter().map(|&(_, address)| address).collect();
        let found = symbolizer.symbolize(&Source::Elf(Elf::new(source)), Input::VirtOffset(&addresses));
        let Ok(found) = found else { return wanted };
        let mut left = Vec::new();
        for (&(pc, address), symbol) in wanted.iter().zip(found) {
            match symbol {
                Symbolized::Sym(symbol) => {
                    self.frames.insert(pc, frames_of(&symbol, module));
                }
                Symbolized::Unknown(_) => left.push((pc, address)),
            }
        }
        left
    }
}

/// The innermost inlined function first.
fn frames_of(symbol: &Sym, module: &str) -> Vec<Frame> {
    let frame = |name: &str, code: Option<&blazesym::symbolize::CodeInfo>| Frame {
        name: demangle::shown(name),
        file: code.map(|code| code.to_path().to_string_lossy().into_owned()).unwrap_or_default(),
        line: code.and_then(|code| code.line).unwrap_or(0),
        module: module.to_string(),
        is_known: true,
    };
    let inlined = symbol.inlined.iter().rev().map(|inner| frame(&inner.name, inner.code_info.as_ref()));
    inlined.chain([frame(&symbol.name, symbol.code_info.as_deref())]).collect()
}
