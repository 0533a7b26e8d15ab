// SPDX-License-Identifier: MIT
//! `hakmem run`: starts a program on hakmem.

mod report;
mod supervised;

use crate::failure::Failure;
use crate::flags::OptionFlags;
use crate::library;
use crate::output;
use crate::program::Program;
use anyhow::{bail, ensure, Result};
use clap::Args;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const PRELOAD: &str = "LD_PRELOAD";

#[derive(Args, Debug)]
pub struct RunArgs {
    /// The library (default: beside this tool, in the build tree, or installed)
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,

    #[command(flatten)]
    options: OptionFlags,

    /// Sample the program and leave a page of where its memory was from when it ends, also by a signal (.html; other
    /// endings as `hakmem heap -o`); one that is over at once by _exit or a signal leaves none
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// The program and its arguments; `--` before it is needed only where its name begins with a dash
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM ARGS")]
    program: Vec<OsString>,
}

impl RunArgs {
    /// Becomes the program, and then returns only when it could not. For a report this stays beside it.
    pub fn run(&self) -> Result<ExitCode> {
        let name = Path::new(&self.program[0]);
        let program = Program::find(name)?;
        let mut command = Command::new(name);
        command.args(&self.program[1..]).envs(self.options.environment.iter().map(|(name, value)| (name, value)));
        if !program.has_hakmem {
            let library = library::find(self.library.as_deref(), program.libc)?;
            check(&program, &library)?;
            command.env(PRELOAD, with_ours(std::env::var_os(PRELOAD), &library));
        }
        output::pass_on_sigpipe(&mut command);
        if let Some(path) = &self.report {
            return report::run(command, path, &self.options);
        }
        let error = command.exec();
        Err(not_started(&command, &error).into())
    }
}

/// The kernel says so too of what starts the program: its interpreter or its dynamic linker.
fn not_started(command: &Command, error: &io::Error) -> Failure {
    let text = format!("cannot start {}: {error}", Path::new(command.get_program()).display());
    match error.kind() {
        io::ErrorKind::NotFound => Failure::NoProgram(text),
        _ => Failure::NotExecutable(text),
    }
}

/// Whether preloading can do anything for the program.
fn check(program: &Program, library: &Path) -> Result<()> {
    let path = program.path.display();
    ensure!(
        program.interpreter.is_some(),
        "{path} is linked statically: no library can be preloaded into it; link it with libhakmem.a"
    );
    if let Some(how) = program.secure {
        bail!("{path} is {how}: the dynamic linker ignores LD_PRELOAD for it; list the library in /etc/ld.so.preload, or link the program with hakmem");
    }
    let text = library.to_string_lossy();
    ensure!(
        !text.contains([' ', ':']),
        "{text}: the dynamic linker separates names at spaces and colons; give the library another path"
    );
    Ok(())
}

/// Behind what is preloaded already.
fn with_ours(before: Option<OsString>, library: &Path) -> OsString {
    let mut all = before.unwrap_or_default();
    let is_there = all.to_string_lossy().split([' ', ':']).any(|one| Path::new(one) == library);
    if !is_there {
        if !all.is_empty() {
            all.push(":");
        }
        all.push(library);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_comes_behind_what_is_there_and_once() {
        let ours = Path::new("/l/libhakmem.so.0");
        assert_eq!(with_ours(None, ours), "/l/libhakmem.so.0");
        assert_eq!(with_ours(Some("/a.so".into()), ours), "/a.so:/l/libhakmem.so.0");
        assert_eq!(with_ours(Some("/a.so:/l/libhakmem.so.0".into()), ours), "/a.so:/l/libhakmem.so.0");
    }
}
