// SPDX-License-Identifier: MIT
//! Which profiles a command is about: those of processes, or files.

use crate::attach::maps;
use crate::attach::select::Targets;
use crate::attach::source::Source;
use crate::failure::Failure;
use crate::image::{self, Profile};
use anyhow::{Context, Result};
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

#[derive(Args, Debug)]
pub struct Input {
    /// Process ids, or files that a process wrote (a file whose name is a number: ./123)
    #[arg(value_name = "PID|FILE")]
    given: Vec<OsString>,

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
    /// How many there are, as far as is known before.
    pub fn count(&self) -> Result<usize> {
        let chosen = self.chosen();
        Ok(self.given.len() + if chosen.is_empty() { 0 } else { chosen.count()? })
    }

    fn chosen(&self) -> Targets {
        Targets { pids: Vec::new(), comm: self.comm.clone(), cgroup: self.cgroup.clone() }
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
        let (pids, files): (Vec<&OsString>, Vec<&OsString>) =
            self.given.iter().partition(|text| process_id(text).is_some());
        for file in &files {
            show(One::File(Path::new(file)))?;
        }
        let pids = pids.into_iter().filter_map(|text| process_id(text)).collect();
        let targets = Targets { pids, ..self.chosen() };
        if targets.is_empty() && !files.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        targets.for_each(|pid| show(One::Process(pid)))
    }

    /// In the order in which they were given; what is chosen by name or control group last.
    pub fn profiles(&self) -> Result<Vec<Profile>> {
        let mut profiles = self.given.iter().map(|text| of(text)).collect::<Result<Vec<Profile>>>()?;
        let chosen = self.chosen();
        if !chosen.is_empty() {
            chosen.for_each(|pid| {
                profiles.push(of_process(pid)?);
                Ok(())
            })?;
        }
        Ok(profiles)
    }
}

pub fn process_id(text: &OsStr) -> Option<i32> {
    text.to_str()?.parse().ok().filter(|&pid| pid > 0)
}

/// Fails with what to do when the process has no profile.
pub fn of_process(pid: i32) -> Result<Profile> {
    Source::to(pid)?.profile()?.ok_or_else(|| Failure::NoProfile(image::no_profile(pid)).into())
}

pub fn of_file(path: &Path) -> Result<Profile> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut profile = image::from_bytes(&bytes, path).with_context(|| path.display().to_string())?;
    if profile.start_unix_ns != 0 {
        let end = Duration::from_nanos(profile.start_unix_ns) + Duration::from_micros(profile.elapsed_us);
        maps::mark_replaced(&mut profile.maps, SystemTime::UNIX_EPOCH + end);
    }
    maps::add_build_ids(&mut profile.maps, |map| {
        (!map.is_replaced).then(|| maps::build_id_of(Path::new(&map.path))).flatten()
    });
    Ok(profile)
}

/// A process's number, or a file's name.
fn of(text: &OsStr) -> Result<Profile> {
    match process_id(text) {
        Some(pid) => of_process(pid),
        None => of_file(Path::new(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::fixture::Fixture;

    /// The file has no build-ids: by its time it is known that a program was built again.
    #[test]
    fn a_file_that_was_built_again_is_not_taken_for_the_one_that_was_mapped() {
        let folder = std::env::temp_dir().join(format!("hakmem-input-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (program, file) = (folder.join("program"), folder.join("f.heap"));
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let end = SystemTime::now() - Duration::from_secs(1000);
        let mut fixture = Fixture::new(0);
        let start = end - Duration::from_micros(fixture.elapsed_us);
        fixture.start_unix_ns = start.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
        fixture.maps = format!("1000-2000 r-xp 00000000 00:00 0 {}\n", program.display());
        fs::write(&file, fixture.bytes()).unwrap();
        let map = |seconds: u64| {
            let built = end + Duration::from_secs(seconds) - Duration::from_secs(60);
            fs::File::options().write(true).open(&program).unwrap().set_modified(built).unwrap();
            of_file(&file).unwrap().maps.remove(0)
        };
        let (before, after) = (map(0), map(120));
        fs::remove_dir_all(&folder).unwrap();
        assert!(!before.is_replaced && !before.build_id.is_empty(), "{before:?}");
        assert!(after.is_replaced && after.build_id.is_empty(), "{after:?}");
    }

    #[test]
    fn names_of_files_are_of_any_bytes() {
        use std::os::unix::ffi::OsStrExt;
        assert_eq!(process_id(OsStr::from_bytes(b"12")), Some(12));
        assert_eq!(process_id(OsStr::from_bytes(b"a\xff.heap")), None);
    }
}
