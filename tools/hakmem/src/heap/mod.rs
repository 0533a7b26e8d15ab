// SPDX-License-Identifier: MIT
//! `hakmem heap`, `profile`, `leaks` and `diff`: where the memory of a program is from.

mod diff;
mod input;
mod leaks;
mod profile;
mod stop;
mod watch;

pub use diff::DiffArgs;
pub use leaks::LeaksArgs;
pub use profile::{sampled, ProfileArgs};
pub use watch::Time;

pub use input::of_file;
use input::Input;

use crate::output::{remark, say};
use crate::report::text::{self, Size};
use crate::report::view::{By, Show};
use crate::report::{self, Form};
use crate::symbols::{self, Places, Symbols};
use crate::{failure::Failure, image::Profile};
use anyhow::{bail, Result};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// How a profile is shown.
#[derive(Args, Debug)]
pub struct Output {
    /// What to show
    #[arg(long, value_enum, default_value_t)]
    show: Show,

    /// By what
    #[arg(long, value_enum, default_value_t)]
    by: By,

    /// Write a file instead: .html (a page), .pb.gz (pprof), .svg (flame graph), .json, .folded
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write JSON
    #[arg(long)]
    json: bool,

    /// Lines of the table
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,

    /// Show each stack whole, a line a frame
    #[arg(long)]
    stacks: bool,

    #[command(flatten)]
    names: Names,
}

#[derive(Args, Debug)]
pub struct Names {
    /// Leave addresses as they are, for a server that knows the names
    #[arg(long)]
    no_symbols: bool,

    /// A folder with separate debug files (.build-id/12/3456.debug), before /usr/lib/debug
    #[arg(long, value_name = "FOLDER")]
    debug_dir: Vec<PathBuf>,
}

impl Names {
    /// What has no name is told.
    pub fn of(&self, profile: &Profile) -> Symbols {
        if self.no_symbols {
            return symbols::none(profile);
        }
        let symbols = symbols::find(profile, &Places { debug_dirs: self.debug_dir.clone() });
        symbols.remarks().iter().for_each(|line| remark(format_args!("hakmem: {line}")));
        symbols
    }
}

impl Output {
    /// Before anything takes time.
    pub fn check(&self, targets: impl Fn() -> Result<usize>) -> Result<()> {
        let wrong = |what: &str| bail!(Failure::Usage(what.into()));
        if let Some(path) = &self.output {
            let form = Form::of(path).map_err(|error| Failure::Usage(error.to_string()))?;
            if form == Form::Page && self.show != Show::Inuse {
                return wrong("a page has all that is known: leave out --show");
            }
            if targets()? > 1 {
                return wrong("one file can be written of one profile");
            }
            report::check_place(path)?;
        }
        if self.by != By::Site && (self.output.is_some() || self.json) {
            return wrong("--by is for the table: leave it out with -o and with --json");
        }
        if self.by != By::Site && self.show != Show::Inuse {
            return wrong("by thread and by class only what is in use is known: leave out --show");
        }
        Ok(())
    }

    pub fn write(&self, profile: &Profile) -> Result<()> {
        let symbols = self.names.of(profile);
        let Some(path) = &self.output else {
            let size = Size { rows: self.top, stacks: self.stacks };
            return match self.json {
                true => say(String::from_utf8_lossy(&report::bytes_of(profile, &symbols, self.show, Form::Json)?)),
                false => say(text::table(profile, &symbols, self.show, self.by, size)),
            };
        };
        let bytes = report::bytes_of(profile, &symbols, self.show, Form::of(path)?)?;
        report::leave(path, &bytes)
    }
}

#[derive(Args, Debug)]
pub struct HeapArgs {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    output: Output,
}

impl HeapArgs {
    pub fn run(&self) -> Result<ExitCode> {
        self.output.check(|| self.input.count())?;
        self.input.for_each(|profile| self.output.write(&profile))
    }
}
