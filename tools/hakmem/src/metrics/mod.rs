// SPDX-License-Identifier: MIT
//! `hakmem metrics`: the figures of processes for Prometheus and what reads its formats.

mod format;

pub use format::Format;

use crate::attach::select::{cgroup_of, each_with_hakmem, Targets};
use crate::attach::snapshot::Snapshot;
use crate::attach::Attached;
use crate::output::say;
use anyhow::{Context, Result};
use clap::Args;
use format::Source;
use procfs::process::Process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// node_exporter reads every file of this ending.
const FILE: &str = "hakmem.prom";

#[derive(Args, Debug)]
pub struct MetricsArgs {
    #[command(flatten)]
    targets: Targets,

    /// Write DIR/hakmem.prom for node_exporter's textfile collector, at once as a whole, instead of standard output
    #[arg(long, value_name = "DIR")]
    textfile: Option<PathBuf>,
}

impl MetricsArgs {
    pub fn run(&self) -> Result<ExitCode> {
        let (figures, code) =
            if self.targets.is_empty() { (Figures::of_all(true)?, ExitCode::SUCCESS) } else { self.chosen()? };
        match &self.textfile {
            Some(folder) => write_whole(folder, &figures.text(Format::Prometheus))?,
            None => say(figures.text(Format::OpenMetrics))?,
        }
        Ok(code)
    }

    fn chosen(&self) -> Result<(Figures, ExitCode)> {
        let mut sources = Vec::new();
        let code = self.targets.for_each(|pid| {
            sources.push(source(Attached::to(pid)?)?);
            Ok(())
        })?;
        Ok((Figures { sources, refused: None }, code))
    }
}

/// Of one moment.
pub struct Figures {
    sources: Vec<Source>,
    /// Processes that may not be looked into, where all were to be.
    refused: Option<usize>,
}

impl Figures {
    /// Of every process that has hakmem and may be looked into.
    pub fn of_host() -> Result<Figures> {
        Figures::of_all(false)
    }

    fn of_all(tell: bool) -> Result<Figures> {
        let (mut sources, refused) = each_with_hakmem(source, tell)?;
        sources.sort_by_key(|source| source.pid);
        Ok(Figures { sources, refused: Some(refused) })
    }

    pub fn text(&self, format: Format) -> String {
        format::text(&self.sources, self.refused, format)
    }
}

fn source(process: Attached) -> Result<Source> {
    let pid = process.pid;
    let snapshot: Snapshot = process.snapshot()?;
    let cgroup = Process::new(pid).map(|process| cgroup_of(&process)).unwrap_or_default();
    Ok(Source { pid, comm: process.comm.clone(), cgroup, version: process.record.version()?, snapshot })
}

/// Readers see the old file or the new one.
fn write_whole(folder: &Path, text: &str) -> Result<()> {
    let (file, part) = (folder.join(FILE), folder.join(format!(".{FILE}.{}", std::process::id())));
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &file));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written.with_context(|| format!("cannot write {}", file.display()))
}
