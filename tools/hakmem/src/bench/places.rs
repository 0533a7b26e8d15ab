// SPDX-License-Identifier: MIT
//! Where things are, relative to the root of the repository.

use super::machine;
use crate::output::remark;
use anyhow::{bail, ensure, Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Places {
    pub root: PathBuf,
}

impl Places {
    /// The nearest folder above the working directory, or above this program, that holds the workloads.
    pub fn find() -> Result<Places> {
        let here = std::env::current_dir().context("no working directory")?;
        let program = std::env::current_exe().unwrap_or_default();
        let mut above = here.ancestors().chain(program.ancestors());
        match above.find(|p| p.join("bench/workloads/common.h").is_file()) {
            Some(root) => Ok(Places { root: root.to_path_buf() }),
            None => bail!("not inside the hakmem repository: bench/workloads is not to be found"),
        }
    }

    pub fn workloads(&self) -> PathBuf {
        self.root.join("build/bench")
    }

    pub fn peers(&self) -> PathBuf {
        self.root.join("build/peers")
    }

    /// The list of the peers that were built.
    pub fn manifest(&self) -> PathBuf {
        self.peers().join("manifest.tsv")
    }

    pub fn programs(&self) -> PathBuf {
        self.root.join("bench/programs")
    }

    pub fn baseline(&self) -> PathBuf {
        self.root.join("bench/baseline.json")
    }

    pub fn library(&self) -> PathBuf {
        self.root.join("build/release/libhakmem.so")
    }

    /// `path` as seen from the root, if it is below it.
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }

    /// The names of the allocators that bench/peers can build, in the order of the tables.
    pub fn peer_names(&self) -> Result<Vec<String>> {
        let what = "listing the other allocators";
        let output = run_quietly(Command::new(self.peer_script()).arg("--list"), what)?;
        Ok(output.split_whitespace().map(String::from).collect())
    }

    /// Compiles the workloads, and the peers that are named. Tells what takes its time.
    pub fn build(&self, peers: &[String]) -> Result<()> {
        let mut make = Command::new("make");
        make.arg("-C").arg(self.root.join("bench")).arg(format!("-j{}", machine::cores()));
        if !succeeds(Command::new("make").arg("-q").arg("-C").arg(self.root.join("bench"))) {
            remark("compiling the workloads");
        }
        run_quietly(&mut make, "building the workloads")?;
        if !peers.is_empty() {
            remark(format_args!(
                "building other allocators, once: {}; each takes up to some minutes",
                peers.join(", ")
            ));
            run_shown(Command::new(self.peer_script()).args(peers), "building the peers")?;
        }
        Ok(())
    }

    fn peer_script(&self) -> PathBuf {
        self.root.join("bench/peers/build.sh")
    }

    /// `text` without the paths of this machine.
    pub fn anonymous(&self, text: &str) -> String {
        let mut out = text.replace(&*self.root.to_string_lossy(), ".");
        for folder in [dirs_home(), Some(std::env::temp_dir())].into_iter().flatten() {
            if folder != Path::new("/") {
                out = out.replace(&*folder.to_string_lossy(), "~");
            }
        }
        out
    }
}

fn dirs_home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|p| !p.as_os_str().is_empty())
}

fn run_quietly(command: &mut Command, what: &str) -> Result<String> {
    let output = command.output().with_context(|| format!("{what}: cannot start"))?;
    if !output.status.success() {
        bail!("{what} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What it writes goes to standard error, line by line: standard output is for results.
fn run_shown(command: &mut Command, what: &str) -> Result<()> {
    let status = command.stdout(std::io::stderr()).status().with_context(|| format!("{what}: cannot start"))?;
    ensure!(status.success(), "{what} failed");
    Ok(())
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
