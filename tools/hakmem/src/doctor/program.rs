// SPDX-License-Identifier: MIT
//! A program that would be started: what the dynamic linker would load, in its order. The program does not run.

use super::allocators::Brought;
use super::finding::Diagnosis;
use super::process::{others, serving, Code};
use super::surroundings;
use crate::library;
use crate::program::{Libc, Program};
use anyhow::Result;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

pub fn examine(name: &OsStr, library: Option<&Path>) -> Result<Diagnosis> {
    let program = Program::find(Path::new(name))?;
    let path = program.path.display().to_string();
    let mut found = Diagnosis::of(format!("program {path}"));
    found.program = Some(path.clone());
    let own = Code { brought: Brought::by(&program.path).unwrap_or_default(), path };
    let codes = if program.has_hakmem {
        found.active = Some(own.brought.malloc);
        found.ok("active", "hakmem is linked into it");
        vec![own]
    } else {
        preloaded(&mut found, &program, own, library)
    };
    others(&mut found, &codes);
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    surroundings::options(&mut found, environment.iter().map(|(name, value)| (name, value)));
    if let Ok(own) = procfs::process::Process::myself() {
        surroundings::limits(&mut found, &own);
        let is_off = std::env::var_os("HAKMEM_LIMIT").is_some_and(|value| value.eq_ignore_ascii_case("off"));
        surroundings::group(&mut found, &own, is_off);
        surroundings::confinement(&mut found, &own);
    }
    Ok(found)
}

/// What `hakmem run` would do for it.
fn preloaded(found: &mut Diagnosis, program: &Program, own: Code, library: Option<&Path>) -> Vec<Code> {
    found.active = Some(false);
    let Some(interpreter) = &program.interpreter else {
        let remedy = "link it with hakmem: -Wl,--undefined=malloc libhakmem.a";
        found.problem("static", "it is linked statically, and nothing can be preloaded into it", remedy);
        return vec![own];
    };
    if let Some(how) = program.secure {
        let remedy = "list the library in /etc/ld.so.preload, or link the program with hakmem";
        found.problem("secure", format!("it is {how}: the dynamic linker ignores LD_PRELOAD for it"), remedy);
    }
    let library = match library::find(library, program.libc) {
        Ok(library) => library,
        Err(error) => {
            found.problem("library", format!("{error:#}"), other_library(program.libc));
            return vec![own];
        }
    };
    let (files, complaint) = loaded(interpreter, program, &library);
    match complaint {
        Some(complaint) if complaint.contains(&*library.to_string_lossy()) => {
            found.problem("library", complaint, "the library and the folders above it must be readable for the user");
        }
        Some(complaint) => found.problem("program", complaint, "without that the program does not start at all"),
        None => {}
    }
    let mut codes = vec![own];
    codes.extend(
        files.into_iter().map(|path| Code { brought: Brought::by(Path::new(&path)).unwrap_or_default(), path }),
    );
    match serving(&codes) {
        Some(code) if code.is_hakmem() && program.secure.is_none() => {
            found.active = Some(true);
            found.ok("active", format!("`hakmem run` preloads {}, which serves malloc", code.path));
        }
        Some(code) if !code.is_hakmem() => {
            let what = format!("{} would serve malloc ({})", code.allocator(), code.path);
            found.problem("shadowed", what, "build the program without it, or take it out of LD_PRELOAD");
        }
        _ => {}
    }
    codes
}

fn other_library(wanted: Libc) -> &'static str {
    match wanted {
        Libc::Musl => {
            "CC=musl-gcc cmake -B build/musl -DHAKMEM_TESTS=OFF && cmake --build build/musl builds it; then hakmem run \
             --library build/musl/libhakmem.so.0"
        }
        Libc::Glibc | Libc::Unknown => "make all, or hakmem run --library PATH",
    }
}

/// The files that the dynamic linker would load, first those that serve first; and what it complains of.
fn loaded(interpreter: &str, program: &Program, library: &Path) -> (Vec<String>, Option<String>) {
    let before = surroundings::preloaded(std::env::var_os("LD_PRELOAD").as_deref());
    let list = before.into_iter().chain([library.to_string_lossy().into_owned()]).collect::<Vec<_>>().join(":");
    // What lies beside a program is sought beside its file, not beside a link to it.
    let file = program.path.canonicalize().unwrap_or_else(|_| program.path.clone());
    let mut command = Command::new(interpreter);
    command.arg("--list").arg(file).env("LD_PRELOAD", list).stdin(Stdio::null());
    let Ok(output) = command.output() else { return (vec![library.to_string_lossy().into_owned()], None) };
    let said = String::from_utf8_lossy(&output.stderr);
    let ours = library.to_string_lossy();
    let complains = |line: &&str| !output.status.success() || line.contains(&*ours);
    let complaint = said.lines().find(complains).map(str::to_string);
    (listed(&String::from_utf8_lossy(&output.stdout)), complaint)
}

/// `NAME => PATH (ADDRESS)`, or `PATH (ADDRESS)`.
fn listed(text: &str) -> Vec<String> {
    let path = |line: &str| {
        let line = line.split_once("=> ").map_or(line, |(_, path)| path).trim();
        line.rsplit_once(" (").map(|(path, _)| path.to_string()).filter(|path| path.starts_with('/'))
    };
    text.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_dynamic_linker_lists_is_read() {
        let text =
            "\tlinux-vdso.so.1 (0x00007ffd)\n\t/b/libhakmem.so.0 (0x00007f)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\
                    \tlibx.so => not found\n";
        assert_eq!(listed(text), ["/b/libhakmem.so.0", "/lib/libc.so.6"]);
    }
}
