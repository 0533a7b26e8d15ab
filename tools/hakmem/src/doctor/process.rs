// SPDX-License-Identifier: MIT
//! A process that runs: which malloc serves it, and why that is not hakmem's.

use super::allocators::{by_name, Brought};
use super::finding::Diagnosis;
use super::surroundings;
use crate::attach::memory::Memory;
use crate::attach::refusal::{quoted, Situation};
use crate::attach::{self, Attached, Without};
use crate::failure::Failure;
use crate::program::{Image, Libc};
use anyhow::Result;
use procfs::process::Process;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

const AT_SECURE: u64 = 23;

/// A file of machine code that a process has mapped, or will have.
#[derive(Debug)]
pub struct Code {
    /// As the process names it.
    pub path: String,
    pub brought: Brought,
}

impl Code {
    pub fn allocator(&self) -> String {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        match by_name(&self.path).or(self.brought.allocators.first().copied()) {
            Some(known) => known.into(),
            None if name.starts_with("libc.") || name.starts_with("libc-") => "the C library's malloc".into(),
            None if name.starts_with("ld-musl") => "musl's malloc".into(),
            None => format!("the malloc of {name}"),
        }
    }

    pub fn is_hakmem(&self) -> bool {
        by_name(&self.path) == Some("hakmem") || self.brought.allocators.contains(&"hakmem")
    }

    /// It has the allocator, and not only names that lead to it, as libhakmem-jemalloc.so.
    fn has_copy(&self) -> bool {
        self.brought.allocators.contains(&"hakmem") || (self.is_hakmem() && self.brought.malloc)
    }

    fn is_c_library(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        ["libc.", "libc-", "ld-"].iter().any(|start| name.starts_with(start))
    }
}

/// The first that defines it, in the order in which the dynamic linker looks.
pub fn serving(codes: &[Code]) -> Option<&Code> {
    codes.iter().find(|code| code.brought.malloc)
}

pub fn examine(pid: i32) -> Result<Diagnosis> {
    let process = Process::new(pid).map_err(|error| attach::gone(pid, &error))?;
    let comm = attach::comm_of(&process);
    let mut found = Diagnosis::of(format!("process {pid} ({comm})"));
    (found.process, found.program) = (Some(pid), Some(comm));
    if let Some(without) = attach::without_program(&process) {
        found.active = Some(false);
        let (id, what) = match without {
            Without::Kernel => ("kernel", "this is a kernel thread: it runs no program and has no malloc".into()),
            Without::Ended => ("ended", format!("it {}", attach::WAITS)),
        };
        found.problem(id, what, "nothing to do");
        return Ok(found);
    }
    let process = Process::new(attach::living(pid)).map_err(|error| attach::gone(pid, &error))?;
    let environment = process.environ().ok();
    let attached = match Attached::to(pid) {
        Ok(attached) => Some(attached),
        Err(error) => match error.downcast_ref::<Failure>() {
            Some(Failure::NoHakmem(_)) => None,
            Some(Failure::NotPermitted(text)) => {
                refused(&mut found, text);
                None
            }
            _ => return Err(error),
        },
    };
    let codes = codes(&process, environment.as_ref());
    activity(&mut found, &process, attached.as_ref(), codes.as_deref(), environment.as_ref());
    copies(&mut found, codes.as_deref().unwrap_or_default());
    others(&mut found, codes.as_deref().unwrap_or_default());
    if let Some(attached) = &attached {
        readable(&mut found, attached);
        in_force(&mut found, attached);
    }
    surroundings::options(&mut found, environment.iter().flatten());
    surroundings::limits(&mut found, &process);
    let is_off = attached.as_ref().is_some_and(|attached| {
        let settings = attached.settings().unwrap_or_default();
        settings.iter().any(|setting| setting.name == "LIMIT" && setting.value == "off")
    });
    surroundings::group(&mut found, &process, is_off);
    surroundings::confinement(&mut found, &process);
    Ok(found)
}

/// In the order in which the dynamic linker looks: as it says itself, or as the environment lets guess, over which a
/// program may have written its title. None: the kernel does not show what it has mapped.
fn codes(process: &Process, environment: Option<&HashMap<OsString, OsString>>) -> Option<Vec<Code>> {
    let program = process.exe().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let mut codes: Vec<Code> = Vec::new();
    let maps = attach::maps::of_process(process.pid()).ok()?;
    for path in maps.iter().filter(|map| map.is_code && map.path.starts_with('/')).map(|map| map.shown()) {
        if codes.iter().all(|code| code.path != path) {
            let file = if path == program {
                PathBuf::from(format!("/proc/{}/exe", process.pid()))
            } else {
                seen(process, &path)
            };
            codes.push(Code { brought: Brought::by(&file).unwrap_or_else(|| unread(&path)), path });
        }
    }
    match attach::order::of(&Memory::of(process.pid()), &maps, &program) {
        Some(order) => codes.sort_by_key(|code| order.iter().position(|path| *path == code.path).unwrap_or(usize::MAX)),
        None => guess_order(&mut codes, process, &program, &preloads(process, environment)),
    }
    Some(codes)
}

fn guess_order(codes: &mut [Code], process: &Process, program: &str, preloaded: &[String]) {
    let rank = |code: &Code| match preloaded.iter().position(|name| names(name, &code.path, process)) {
        _ if code.path == program => 0,
        Some(at) => 1 + at,
        None if code.is_c_library() => usize::MAX,
        None => usize::MAX - 1,
    };
    codes.sort_by_key(rank);
}

/// Of a file that is gone or not to be read.
fn unread(path: &str) -> Brought {
    Brought { malloc: by_name(path).is_some(), ..Brought::default() }
}

/// A file as the process sees it.
fn seen(process: &Process, path: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/root{path}", process.pid()))
}

fn preloads(process: &Process, environment: Option<&HashMap<OsString, OsString>>) -> Vec<String> {
    let list = environment.and_then(|all| all.get(OsStr::new("LD_PRELOAD")));
    let mut all = surroundings::preloaded(list.map(OsString::as_os_str));
    let of_all = std::fs::read_to_string(seen(process, "/etc/ld.so.preload")).unwrap_or_default();
    all.extend(of_all.split_whitespace().map(str::to_string));
    all
}

/// Whether a preload is that mapped file: names may be links.
fn names(preload: &str, path: &str, process: &Process) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_default();
    preload == path
        || (preload.starts_with('/') && real(&seen(process, preload)) == real(&seen(process, path)))
        || (!preload.contains('/') && path.rsplit('/').next() == Some(preload))
}

fn activity(
    found: &mut Diagnosis,
    process: &Process,
    attached: Option<&Attached>,
    codes: Option<&[Code]>,
    environment: Option<&HashMap<OsString, OsString>>,
) {
    let Some(codes) = codes else {
        if attached.is_none() && found.findings.is_empty() {
            let (why, remedy) = Situation::of(process.pid()).cause();
            found.problem("access", format!("the kernel does not show what it has mapped: {why}"), remedy);
        }
        return;
    };
    let server = serving(codes);
    let is_there = attached.is_some() || codes.iter().any(Code::is_hakmem);
    let serves = server.map_or(attached.is_some_and(|process| process.started), Code::is_hakmem);
    found.active = Some(is_there && serves);
    match (server, attached) {
        (server, Some(attached)) if serves && server.is_none_or(|server| server.path == attached.library) => {
            let version = attached.record.version().unwrap_or_default();
            found.ok("active", format!("hakmem {version} serves malloc: {}", attached.library));
            if !attached.started {
                found.note("unused", "it has not allocated yet", "nothing to do");
            }
        }
        (Some(server), _) if serves => found.ok("active", format!("hakmem serves malloc: {}", server.path)),
        (Some(server), _) if is_there && server.is_c_library() => {
            let inside: Vec<&str> = codes.iter().filter(|code| code.has_copy()).map(|code| &code.path[..]).collect();
            let what = format!(
                "{} serves it ({}), and hakmem is inside {}, which the program loaded itself or named behind that",
                server.allocator(),
                server.path,
                inside.join(" and ")
            );
            found.problem("inside", what, again(process));
        }
        (Some(server), _) if is_there => found.problem(
            "shadowed",
            format!("hakmem is loaded, and {} comes before it ({})", server.allocator(), server.path),
            "take the other one out of LD_PRELOAD or of what the program is linked with, or put hakmem before it",
        ),
        (server, _) => {
            let what = server.map_or("no malloc that is known".into(), Code::allocator);
            let place = server.map_or(String::new(), |code| format!(" ({})", code.path));
            let (why, remedy) = why_not(process, environment);
            found.problem("inactive", format!("{what} serves it{place}, not hakmem: {why}"), remedy);
        }
    }
}

/// Why hakmem is not in it, and what to do.
fn why_not(process: &Process, environment: Option<&HashMap<OsString, OsString>>) -> (String, String) {
    let program = Image::of(Path::new(&format!("/proc/{}/exe", process.pid())));
    if let Some(why) = program.as_ref().err().and_then(foreign) {
        return (why, "hakmem serves programs of this machine of 64 bits alone: build the program as one".into());
    }
    let again = again(process);
    if program.as_ref().is_ok_and(|image| image.interpreter.is_none()) {
        let remedy = "link it with hakmem: -Wl,--undefined=malloc libhakmem.a";
        return ("it is linked statically, and nothing can be preloaded into it".into(), remedy.into());
    }
    let Some(environment) = environment else {
        return ("it was not loaded".into(), again);
    };
    let list = environment.get(OsStr::new("LD_PRELOAD")).map(OsString::as_os_str);
    let Some(name) = surroundings::preloaded(list).into_iter().find(|name| name.contains("hakmem")) else {
        return ("LD_PRELOAD did not name it when the program started".into(), again);
    };
    if process.auxv().is_ok_and(|vector| vector.get(&AT_SECURE) == Some(&1)) {
        let why = format!("{name} was asked for, and the dynamic linker ignores LD_PRELOAD of set-uid programs and those with file capabilities");
        return (why, "list the library in /etc/ld.so.preload, or link the program with hakmem".into());
    }
    let library = seen(process, &name);
    if name.contains('/') && !library.exists() {
        return (
            format!("{name} was asked for and is not there (as the process sees files)"),
            "give a path that the process sees; in a container, bring the library into it".into(),
        );
    }
    let wanted =
        program.ok().and_then(|image| image.interpreter).map_or(Libc::Unknown, |path| Libc::of_interpreter(&path));
    let built = Image::of(&library).map_or(Libc::Unknown, |image| image.libc());
    if wanted != Libc::Unknown && built != Libc::Unknown && wanted != built {
        let why = format!("{name} is built for {}, and the program runs on {}", built.name(), wanted.name());
        return (why, "build hakmem for that C library (docs/compatibility.md)".into());
    }
    let why = format!("{name} was asked for, and the dynamic linker could not load it");
    (why, "read what the program printed at its start; the library and the folders above it must be readable for its user".into())
}

/// Of a file that can be read, and is no program that hakmem can be in.
fn foreign(error: &anyhow::Error) -> Option<String> {
    let is_read = error.downcast_ref::<std::io::Error>().is_none();
    error.chain().nth(1).filter(|_| is_read).map(|what| format!("the program {what}"))
}

fn again(process: &Process) -> String {
    format!("start it again: hakmem run -- {}", command_line(process))
}

fn command_line(process: &Process) -> String {
    let whole = |words: Vec<String>| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    process.cmdline().map_or_else(|_| "PROGRAM".into(), whole)
}

/// A program may have hakmem linked in, another one preloaded, and more inside what it opens.
fn copies(found: &mut Diagnosis, codes: &[Code]) {
    let Some(server) = serving(codes).filter(|server| server.is_hakmem()) else { return };
    for copy in codes.iter().filter(|code| code.has_copy() && code.path != server.path) {
        let what = format!("another hakmem is inside {}: the program's own malloc is not that one's", copy.path);
        found.note("copy", what, "one is enough: link that file without libhakmem.a, or do not preload hakmem");
    }
}

/// Blocks that come from another allocator and go to hakmem's `free`.
fn mixed(found: &mut Diagnosis, codes: &[Code]) {
    if !serving(codes).is_some_and(Code::is_hakmem) {
        return;
    }
    let has_names = codes.iter().any(|code| code.path.contains("/libhakmem-jemalloc."));
    for code in codes {
        let file = code.path.rsplit('/').next().unwrap_or(&code.path);
        match code.brought.calls {
            Some((_, "jemalloc")) if has_names => {}
            Some((name, allocator)) if by_name(&code.path) != Some(allocator) => {
                let what = format!(
                    "{file} calls {name} of {allocator}: such a block ends the program where it goes to free or \
                     malloc_usable_size, which are hakmem's"
                );
                let remedy = match allocator {
                    "jemalloc" => "preload libhakmem-jemalloc.so.0 as well (docs/from-jemalloc.md)".into(),
                    _ => format!("build the program without {allocator}, or leave hakmem out"),
                };
                found.note("mixed", what, remedy);
            }
            _ => {}
        }
    }
}

/// Allocators beside the one that serves.
pub fn others(found: &mut Diagnosis, codes: &[Code]) {
    mixed(found, codes);
    let server = serving(codes).map(|code| code.path.clone());
    for code in codes {
        let file = code.path.rsplit('/').next().unwrap_or(&code.path);
        for allocator in code.brought.allocators.iter().filter(|name| **name != "hakmem") {
            if server.as_ref() != Some(&code.path) {
                found.note(
                    "brought",
                    format!("{file} brings {allocator} along: what is asked of that by name does not come to malloc"),
                    "build the program without it to have that memory in hakmem too",
                );
            }
        }
        if code.brought.go {
            let what =
                format!("{file} is written in Go, whose memory does not come from malloc: only its C code is served");
            found.note("brought", what, "GOMEMLIMIT and Go's own profiles tell of the rest");
        }
    }
    // The one that programs load, and the one that its launcher is linked to.
    if codes.iter().any(|code| ["/libjvm.", "/libjli."].iter().any(|name| code.path.contains(name))) {
        let what = "Java's heap does not come from malloc: hakmem serves what is native";
        found.note("brought", what, "-Xmx limits the heap");
    }
}

fn refused(found: &mut Diagnosis, text: &str) {
    let (what, remedy) = text.rsplit_once("; ").unwrap_or((text, ""));
    found.problem("access", what, remedy);
}

/// What leads to hakmem may be permitted, and its figures not.
fn readable(found: &mut Diagnosis, attached: &Attached) {
    if let Err(error) = attached.snapshot() {
        if let Some(Failure::NotPermitted(text)) = error.downcast_ref() {
            refused(found, text);
        }
    }
}

fn in_force(found: &mut Diagnosis, attached: &Attached) {
    let Ok(settings) = attached.settings() else { return };
    let set: Vec<String> = settings
        .iter()
        .filter(|setting| setting.origin != "default")
        .map(|setting| format!("HAKMEM_{}={} ({})", setting.name, setting.value, setting.origin))
        .collect();
    let what = if set.is_empty() { "all at their defaults".into() } else { set.join(", ") };
    found.ok("options", format!("options in force: {what}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_another_kind_is_not_to_be_preloaded() {
        let path = std::env::temp_dir().join(format!("hakmem-foreign-{}", std::process::id()));
        let head = [b"\x7fELF\x01\x01\x01".as_slice(), &[0; 57]].concat();
        std::fs::write(&path, head).unwrap();
        let why = foreign(&Image::of(&path).unwrap_err());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(why.unwrap(), "the program is no ELF file of 64 bits");
        assert_eq!(foreign(&Image::of(&path).unwrap_err()), None, "it cannot be read");
    }

    fn only_finding(pid: i32) -> (&'static str, String) {
        let mut found = examine(pid).unwrap();
        assert_eq!((found.active, found.findings.len()), (Some(false), 1));
        let one = found.findings.remove(0);
        let remedy = one.remedy.unwrap_or_default();
        assert!(!remedy.contains("hakmem run"), "{remedy}");
        (one.id, one.what)
    }

    #[test]
    fn a_process_that_has_ended_is_told_as_that() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        while Process::new(pid).unwrap().stat().unwrap().state != 'Z' {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let (id, what) = only_finding(pid);
        child.wait().unwrap();
        assert!(id == "ended" && what.contains("waits for its parent"), "{what}");
    }

    /// Number 2 is one, but in a container.
    #[test]
    fn a_kernel_thread_is_told_as_that() {
        if Process::new(2).is_ok_and(|process| attach::comm_of(&process) == "kthreadd") {
            assert_eq!(only_finding(2).0, "kernel");
        }
    }
}
