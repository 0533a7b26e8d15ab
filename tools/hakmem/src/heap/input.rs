// SPDX-License-Identifier: MIT
//! Which profiles a command is about: those of processes, or files.

use crate::attach::maps;
use crate::attach::select::Targets;
use crate::attach::source::Source;
use crate::failure::Failure;
use crate::image::{self, Profile};
use anyhow::{Context, Result};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct Input {
    /// Process ids, or files that a process wrote (a file whose name is a number: ./123)
    #[arg(value_name = "PID|FILE")]
    given: Vec<String>,

    /// All processes of this name that have hakmem (as `ps -o comm` shows it)
    #[arg(long, value_name = "NAME")]
    comm: Vec<String>,

    /// All processes of this control group, and of those below it, that have hakmem
    #[arg(long, value_name = "PATH")]
    cgroup: Vec<PathBuf>,
}

pub enum One<'a> {
    File(&'a Path),
    Process(i32),
}

impl Input {
    /// How many there are at least.
    pub fn named(&self) -> usize {
        self.given.len() + self.comm.len() + self.cgroup.len()
    }

    pub fn for_each(&self, mut show: impl FnMut(Profile) -> Result<()>) -> Result<ExitCode> {
        self.visit(|one| {
            show(match one {
                One::File(path) => of_file(path)?,
                One::Process(pid) => of_process(pid)?,
            })
        })
    }

    /// Files first.
    pub fn visit(&self, mut show: impl FnMut(One) -> Result<()>) -> Result<ExitCode> {
        let (pids, files): (Vec<&String>, Vec<&String>) =
            self.given.iter().partition(|text| process_id(text).is_some());
        for file in &files {
            show(One::File(Path::new(file)))?;
        }
        let targets = Targets {
            pids: pids.into_iter().filter_map(|text| process_id(text)).collect(),
            comm: self.comm.clone(),
            cgroup: self.cgroup.clone(),
        };
        if targets.is_empty() && !files.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        targets.for_each(|pid| show(One::Process(pid)))
    }

    /// In the order in which they were given; what is chosen by name or control group last.
    pub fn profiles(&self) -> Result<Vec<Profile>> {
        let mut profiles = self.given.iter().map(|text| of(text)).collect::<Result<Vec<Profile>>>()?;
        let chosen = Targets { pids: Vec::new(), comm: self.comm.clone(), cgroup: self.cgroup.clone() };
        if !chosen.is_empty() {
            chosen.for_each(|pid| {
                profiles.push(of_process(pid)?);
                Ok(())
            })?;
        }
        Ok(profiles)
    }
}

pub fn process_id(text: &str) -> Option<i32> {
    text.parse().ok().filter(|&pid| pid > 0)
}

/// Fails with what to do when the process has no profile.
pub fn of_process(pid: i32) -> Result<Profile> {
    Source::to(pid)?.profile()?.ok_or_else(|| Failure::NoHakmem(image::no_profile(pid)).into())
}

pub fn of_file(path: &Path) -> Result<Profile> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut profile = image::from_bytes(&bytes, path).with_context(|| path.display().to_string())?;
    maps::add_build_ids(&mut profile.maps, |map| maps::build_id_of(Path::new(&map.path)));
    Ok(profile)
}

/// A process's number, or a file's name.
fn of(text: &str) -> Result<Profile> {
    match process_id(text) {
        Some(pid) => of_process(pid),
        None => of_file(Path::new(text)),
    }
}
