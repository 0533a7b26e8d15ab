// SPDX-License-Identifier: MIT
//! Where the names of a mapped file are: the file as the process sees it, and its separate debug file.

use super::{call_site, Places};
use crate::attach::maps::{build_id_of, Mapping};
use crate::image::Profile;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{ElfFile, FileHeader as _, ProgramHeader as _};
use object::{NativeEndian, Object, ObjectSection, ReadCache};
use std::path::{Path, PathBuf};

const DEBUG: &str = "/usr/lib/debug";

/// A segment: its place in the file, its size there, and its address.
type Segment = (u64, u64, u64);

pub struct File {
    path: String,
    /// What is there of it: the debug file first.
    sources: Vec<PathBuf>,
    segments: Vec<Segment>,
    /// Where it is mapped from its first byte on. Without the file this stands for what is to be taken from an address.
    start: Option<u64>,
    is_there: bool,
    /// It is another build by now.
    is_other: bool,
    has_names: bool,
}

impl File {
    pub fn find(profile: &Profile, mapping: &Mapping, places: &Places) -> File {
        let mut file = File {
            path: mapping.path.clone(),
            sources: Vec::new(),
            segments: Vec::new(),
            start: profile.maps.iter().find(|map| map.path == mapping.path && map.offset == 0).map(|map| map.start),
            is_there: false,
            is_other: false,
            has_names: false,
        };
        let debug = debug_file(profile, mapping, places);
        file.has_names = debug.is_some();
        file.sources.extend(debug);
        for path in seen_as(profile, mapping) {
            if !path.exists() {
                continue;
            }
            file.is_other = mapping.is_replaced
                || (!mapping.build_id.is_empty() && build_id_of(&path).is_none_or(|id| id != mapping.build_id));
            if file.is_other {
                continue;
            }
            let Some((segments, has_names)) = about(&path) else { continue };
            file.segments = segments;
            file.has_names |= has_names;
            file.is_there = true;
            file.sources.push(path);
            break;
        }
        file
    }

    /// As the file has it. The mapping has the place in the file, the segments lead to the address.
    pub fn address(&self, profile: &Profile, pc: u64) -> Option<u64> {
        let mapping = profile.mapping(call_site(pc)).filter(|mapping| mapping.path == self.path)?;
        let place = call_site(pc) - mapping.start + mapping.offset;
        if !self.is_there {
            return Some(call_site(pc) - self.start.unwrap_or(call_site(pc) - place));
        }
        let holds = |&&(offset, size, _): &&Segment| place >= offset && place - offset < size;
        let (offset, _, address) = self.segments.iter().find(holds)?;
        Some(place - offset + address)
    }

    pub fn sources(&self) -> &[PathBuf] {
        &self.sources
    }

    pub fn lacks(&self) -> Option<&'static str> {
        if self.is_other && !self.is_there {
            return Some("is of another build by now");
        }
        if !self.is_there && self.sources.is_empty() {
            return Some("is not there");
        }
        (!self.has_names).then_some("is stripped")
    }
}

/// The names under which this process may open the file.
fn seen_as(profile: &Profile, mapping: &Mapping) -> Vec<PathBuf> {
    if !profile.is_running {
        return vec![mapping.path.clone().into()];
    }
    let pid = profile.pid;
    let mut paths = Vec::new();
    if !mapping.is_deleted {
        paths.push(format!("/proc/{pid}/root{}", mapping.path).into());
    }
    paths.push(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end).into());
    paths
}

fn debug_file(profile: &Profile, mapping: &Mapping, places: &Places) -> Option<PathBuf> {
    let id = &mapping.build_id;
    if id.len() < 4 || !id.is_ascii() {
        return None;
    }
    let under = |folder: PathBuf| folder.join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..]));
    let mut candidates: Vec<PathBuf> = places.debug_dirs.iter().cloned().map(under).collect();
    if profile.is_running {
        candidates.push(under(format!("/proc/{}/root{DEBUG}", profile.pid).into()));
    }
    candidates.push(under(DEBUG.into()));
    if let Some(home) = std::env::var_os("HOME") {
        candidates.push(Path::new(&home).join(".cache/debuginfod_client").join(id).join("debuginfo"));
    }
    candidates.into_iter().find(|path| path.exists())
}

/// The segments that are loaded, and whether there are names beyond those that it exports.
fn about(path: &Path) -> Option<(Vec<Segment>, bool)> {
    let data = ReadCache::new(std::fs::File::open(path).ok()?);
    let file = ElfFile::<FileHeader64<NativeEndian>, _>::parse(&data).ok()?;
    let headers = file.elf_header().program_headers(NativeEndian, &data).ok()?;
    let loaded = headers.iter().filter(|s| s.p_type(NativeEndian) == PT_LOAD);
    let segment = |s: &object::elf::ProgramHeader64<NativeEndian>| {
        (s.p_offset(NativeEndian), s.p_memsz(NativeEndian), s.p_vaddr(NativeEndian))
    };
    let has_names = file.sections().any(|section| matches!(section.name(), Ok(".symtab" | ".debug_info")));
    // A .gnu_debuglink leads to a file that lies beside, which the symbolizer follows.
    let link = file.gnu_debuglink().ok().flatten();
    let linked = link.is_some_and(|(name, _)| {
        let name = String::from_utf8_lossy(name).into_owned();
        path.parent().is_some_and(|folder| folder.join(&name).exists() || folder.join(".debug").join(&name).exists())
    });
    Some((loaded.map(segment).collect(), has_names || linked))
}
