// SPDX-License-Identifier: MIT
//! `hakmem profile`: samples a process from now on, for a time.

use super::watch::{watched, Time};
use super::{stop, Output};
use crate::attach::select::Targets;
use crate::image::Profile;
use crate::output::say;
use crate::signals;
use anyhow::Result;
use clap::Args;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Args, Debug)]
pub struct ProfileArgs {
    #[command(flatten)]
    targets: Targets,

    /// How long: 30s, 500ms, 5m
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = super::watch::time)]
    time: Duration,

    /// Bytes between samples on average, 1 for each allocation (default: by how much the process allocates)
    #[arg(long, value_name = "SIZE", value_parser = super::watch::interval)]
    every: Option<u64>,

    /// End the sampling instead, whoever began it
    #[arg(long, conflicts_with_all = ["time", "every", "show", "by", "output", "top", "stacks", "no_symbols", "debug_dir"])]
    stop: bool,

    #[command(flatten)]
    output: Output,
}

impl ProfileArgs {
    pub fn run(&self) -> Result<ExitCode> {
        if self.stop {
            return self.targets.for_each(|pid| say(stop::ended(pid)?.told(self.output.json)?));
        }
        self.output.check(|| self.targets.count())?;
        signals::hold();
        self.targets.for_each(|pid| match signals::came() {
            true => Ok(()),
            false => self.output.write(&sampled(pid, self.every, Time::of(self.time))?),
        })
    }
}

/// What the process allocated and freed in that time, and what of it is in use at the end.
pub fn sampled(pid: i32, every: Option<u64>, time: Time) -> Result<Profile> {
    let (before, after) = watched(pid, every, time)?;
    Ok(match &before {
        Some(before) => after.since(before),
        None => after,
    })
}
