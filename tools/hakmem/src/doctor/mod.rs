// SPDX-License-Identifier: MIT
//! `hakmem doctor`: is hakmem active, and if not, why; each finding with what to do.

mod allocators;
mod finding;
mod machine;
mod process;
mod program;
mod surroundings;

use crate::attach::check_proc;
use crate::failure::Failure;
use crate::output::{remark, say};
use anyhow::Result;
use clap::Args;
use finding::{Diagnosis, Level};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Process ids; none, and no program: this machine alone
    #[arg(value_name = "PID", value_parser = process_id)]
    pids: Vec<i32>,

    /// The library that `hakmem run` would be given (default: as `hakmem run` finds it)
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,

    /// Write JSON: an array of objects
    #[arg(long)]
    json: bool,

    /// A program that would be started, and its arguments; it is not started
    #[arg(last = true, value_name = "PROGRAM ARGS")]
    program: Vec<OsString>,
}

fn process_id(text: &str) -> Result<i32, String> {
    let id = text.parse().ok().filter(|&id| id > 0);
    id.ok_or_else(|| format!("not a process id; a program comes behind `--`: hakmem doctor -- {text}"))
}

impl DoctorArgs {
    pub fn run(&self) -> Result<ExitCode> {
        check_proc()?;
        let mut all = vec![machine::examine()];
        let mut code = ExitCode::SUCCESS;
        if !self.program.is_empty() {
            all.push(program::examine(&self.program[0], self.library.as_deref())?);
        }
        for &pid in &self.pids {
            match process::examine(pid) {
                Ok(found) => all.push(found),
                Err(error) => {
                    remark(format_args!("hakmem: {error:#}"));
                    code = crate::failure::exit_code(&error);
                }
            }
        }
        say(if self.json { finding::as_json(&all)? } else { finding::as_text(&all) })?;
        Ok(if code == ExitCode::SUCCESS { verdict(&all) } else { code })
    }
}

/// As the other commands: 4 where hakmem is not, 3 where nobody may say.
fn verdict(all: &[Diagnosis]) -> ExitCode {
    let missing = |one: &&Diagnosis| one.active == Some(false);
    let unknown = |one: &&Diagnosis| one.active.is_none() && one.has(Level::Problem) && one.process.is_some();
    if all.iter().any(|one| missing(&one)) {
        crate::failure::exit_code(&Failure::NoHakmem(String::new()).into())
    } else if all.iter().any(|one| unknown(&one)) {
        crate::failure::exit_code(&Failure::NotPermitted(String::new()).into())
    } else {
        ExitCode::SUCCESS
    }
}
