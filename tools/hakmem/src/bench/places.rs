// SPDX-License-Identifier: MIT
//! Where things are, relative to the root of the repository.

use crate::output::remark;
use anyhow::{bail, Context, Result};
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

    /// Compiles the workloads, and the peers that are not there yet.
    pub fn build(&self, with_peers: bool) -> Result<()> {
        run_quietly(Command::new("make").arg("-C").arg(self.root.join("bench")), "building the workloads")?;
        if with_peers && !self.manifest().is_file() {
            remark("building the other allocators; this takes some minutes, once");
            run_quietly(&mut Command::new(self.root.join("bench/peers/build.sh")), "building the peers")?;
        }
        Ok(())
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

fn run_quietly(command: &mut Command, what: &str) -> Result<()> {
    let output = command.output().with_context(|| format!("{what}: cannot start"))?;
    if !output.status.success() {
        bail!("{what} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
