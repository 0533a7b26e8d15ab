// SPDX-License-Identifier: MIT
//! Which processes a command is about.

use super::{check_proc, comm_of, ended, has_moved, Attached};
use crate::failure::{exit_code, is_not_permitted, is_nothing, Failure};
use crate::output::remark;
use anyhow::{bail, Result};
use clap::Args;
use procfs::process::{all_processes, Process};
use procfs::ProcessCGroup;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args, Debug, Default)]
pub struct Targets {
    /// Process ids
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pids: Vec<i32>,

    /// All processes of this name that have hakmem (as `ps -o comm` shows it)
    #[arg(long, value_name = "NAME")]
    pub comm: Vec<String>,

    /// All processes of this control group, and of those below it, that have hakmem
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<PathBuf>,
}

impl Targets {
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty() && self.comm.is_empty() && self.cgroup.is_empty()
    }

    /// Calls `show` for each. Those that were named by their id have to have what it shows, of the others at least one.
    /// What goes wrong with one of several is told, and the exit code is that of the first.
    pub fn for_each(&self, mut show: impl FnMut(i32) -> Result<()>) -> Result<ExitCode> {
        let mut code = ExitCode::SUCCESS;
        let found = self.found()?;
        let (mut first, mut without) = (true, None);
        for (pid, named) in &found {
            match show(*pid).map_err(|error| ended(*pid, error)) {
                Ok(()) => first = false,
                Err(error) if !named && is_nothing(&error) => {
                    without.get_or_insert(error);
                }
                Err(error) if found.len() == 1 => return Err(error),
                Err(error) => {
                    remark(format_args!("hakmem: {error:#}"));
                    code = if code == ExitCode::SUCCESS { exit_code(&error) } else { code };
                }
            }
        }
        if first && code == ExitCode::SUCCESS {
            let none = || Failure::NoHakmem("there is no process of that name or control group".into()).into();
            return Err(without.unwrap_or_else(none));
        }
        Ok(code)
    }

    /// How many have something to show, as far as is known before.
    pub fn count(&self) -> Result<usize> {
        let has_hakmem = |pid: i32| !Attached::now(pid).is_err_and(|error| is_nothing(&error));
        Ok(self.found()?.into_iter().filter(|&(pid, named)| named || has_hakmem(pid)).count())
    }

    /// The processes, and whether they were named by their ids.
    fn found(&self) -> Result<Vec<(i32, bool)>> {
        if self.is_empty() {
            bail!(Failure::Usage("name a process: its id, --comm NAME or --cgroup PATH".into()));
        }
        let mut found: Vec<(i32, bool)> = self.pids.iter().map(|&pid| (pid, true)).collect();
        if !self.comm.is_empty() || !self.cgroup.is_empty() {
            let wanted = all()?.filter(|process| self.wants(process)).map(|process| process.pid());
            let more: Vec<i32> = wanted.filter(|pid| !self.pids.contains(pid)).collect();
            found.extend(more.into_iter().map(|pid| (pid, false)));
        }
        Ok(found)
    }

    fn wants(&self, process: &Process) -> bool {
        let comm = || comm_of(process);
        self.comm.iter().any(|name| *name == comm()) || self.cgroup.iter().any(|path| is_in(process, path))
    }
}

/// All that can be seen but this one.
pub fn all() -> Result<impl Iterator<Item = Process>> {
    check_proc()?;
    let own = std::process::id() as i32;
    let seen = all_processes().into_iter().flatten().flatten();
    Ok(seen.filter(move |process| process.pid() != own))
}

/// What `see` sees in each process that has hakmem and may be looked into, and how many processes may not. Which may
/// not, and which this tool cannot read, is told, if it is to be.
pub fn each_with_hakmem<Seen>(see: impl Fn(Attached) -> Result<Seen>, tell: bool) -> Result<(Vec<Seen>, usize)> {
    let (mut all_seen, mut refusals, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for process in all()? {
        match Attached::now(process.pid()).and_then(&see) {
            Ok(seen) => all_seen.push(seen),
            Err(error) => match ended(process.pid(), error) {
                error if is_nothing(&error) || has_moved(&error) => {}
                error if is_not_permitted(&error) => refusals.push(error),
                error => others.push(error),
            },
        }
    }
    if tell {
        tell_of(&refusals);
        tell_of(&others);
    }
    Ok((all_seen, refusals.len()))
}

/// The first stands for all.
fn tell_of(errors: &[anyhow::Error]) {
    match errors.first() {
        Some(only) if errors.len() == 1 => remark(format_args!("hakmem: {only:#}")),
        Some(first) => remark(format_args!("hakmem: {first:#} (and {} more)", errors.len() - 1)),
        None => {}
    }
}

/// The path of its group, as the kernel writes it: in the hierarchy of version 1 that limits memory, else in that of
/// version 2, else in the first.
pub fn cgroup_of(process: &Process) -> String {
    group_of(process).map(|group| group.pathname).unwrap_or_default()
}

fn group_of(process: &Process) -> Option<ProcessCGroup> {
    process.cgroups().ok()?.into_iter().min_by_key(|group| (!has_memory(group), group.hierarchy))
}

fn has_memory(group: &ProcessCGroup) -> bool {
    group.controllers.iter().any(|controller| controller == "memory")
}

fn is_in(process: &Process, path: &Path) -> bool {
    group_of(process).is_some_and(|group| holds(path, &group))
}

/// The path may be that of the group's folder.
fn holds(path: &Path, group: &ProcessCGroup) -> bool {
    let of_memory = path.strip_prefix("/sys/fs/cgroup/memory").ok().filter(|_| has_memory(group));
    let path = of_memory.unwrap_or_else(|| path.strip_prefix("/sys/fs/cgroup").unwrap_or(path));
    let path = path.strip_prefix("/").unwrap_or(path);
    Path::new(group.pathname.trim_start_matches('/')).starts_with(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_holds_those_below_it() {
        let own = Process::myself().unwrap();
        assert!(is_in(&own, std::path::Path::new("/")));
        assert!(is_in(&own, std::path::Path::new(&cgroup_of(&own))));
        assert!(!is_in(&own, std::path::Path::new("/no/such/group")));
        let group = |controllers: &[&str]| ProcessCGroup {
            hierarchy: 5,
            controllers: controllers.iter().map(|name| name.to_string()).collect(),
            pathname: "/memory/a/b".into(),
        };
        let held = |path: &str, group: ProcessCGroup| holds(Path::new(path), &group);
        assert!(held("/sys/fs/cgroup/memory/memory/a", group(&["memory"])) && held("/memory/a", group(&["memory"])));
        assert!(held("/sys/fs/cgroup/memory/a", group(&[])) && !held("/sys/fs/cgroup/a", group(&[])));
    }
}
