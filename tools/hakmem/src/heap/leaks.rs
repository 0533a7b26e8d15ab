// SPDX-License-Identifier: MIT
//! `hakmem leaks`: the stacks whose blocks only become more.

use super::input::{of_file, of_process, Input, One};
use super::profile::sampled;
use super::watch::Time;
use super::Names;
use crate::image::Profile;
use crate::output::say;
use crate::report::growth::{self, Growth};
use crate::report::text;
use crate::report::view::{bytes, count, duration};
use crate::signals;
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

const PLACE_FRAMES: usize = 5;

#[derive(Args, Debug)]
pub struct LeaksArgs {
    #[command(flatten)]
    input: Input,

    /// Look at a process for so long (30s, 5m), and only at what it allocates meanwhile
    #[arg(long = "for", value_name = "TIME", value_parser = super::watch::time)]
    time: Option<Duration>,

    /// Bytes between samples on average, 1 for each allocation (default: by how much the process allocates)
    #[arg(long, value_name = "SIZE", value_parser = super::watch::interval, requires = "time")]
    every: Option<u64>,

    /// Write JSON: an object for each
    #[arg(long)]
    json: bool,

    /// Lines of the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    /// Show each stack whole, a line a frame
    #[arg(long)]
    stacks: bool,

    #[command(flatten)]
    names: Names,
}

impl LeaksArgs {
    pub fn run(&self) -> Result<ExitCode> {
        if self.time.is_some() {
            signals::hold();
        }
        self.input.visit(|one| {
            if signals::came() {
                return Ok(());
            }
            let profile = match (self.time, one) {
                (Some(time), One::Process(pid)) => sampled(pid, self.every, Time::of(time))?,
                (None, One::Process(pid)) => of_process(pid)?,
                (_, One::File(path)) => of_file(path)?,
            };
            let symbols = self.names.of(&profile);
            let grown = growth::of(&profile, &symbols);
            say(match self.json {
                true => as_json(&profile, &grown)?,
                false => self.as_text(&profile, &grown),
            })
        })
    }

    fn as_text(&self, profile: &Profile, grown: &[Growth]) -> String {
        let span = duration(profile.elapsed_us as f64);
        let mut text = text::summary(profile);
        if grown.is_empty() {
            return text
                + &format!("\nnothing grows steadily: no stack left blocks behind in most parts of the {span}\n");
        }
        let _ = writeln!(
            text,
            "\nblocks of the last {span} that are still in use, where most parts of that time left some:\n\n{:>12} {:>12} {:>14} {:>8}  site",
            "bytes", "blocks", "a minute", "samples"
        );
        for growth in grown.iter().take(self.top) {
            let Growth { left, rate, samples, row, .. } = growth;
            let rate = bytes(rate * 60.0);
            let (bytes, blocks) = (bytes(left.bytes), count(left.objects));
            let _ = writeln!(text, "{bytes:>12} {blocks:>12} {rate:>14} {samples:>8}  {}", row.place(PLACE_FRAMES));
            if self.stacks {
                text += &text::stack(&row.frames);
            }
        }
        text
    }
}

fn as_json(profile: &Profile, grown: &[Growth]) -> Result<String> {
    let one = |growth: &Growth| {
        json!({
            "bytes": growth.left.bytes.round() as i64, "blocks": growth.left.objects.round() as i64,
            "bytes_per_second": growth.rate, "samples": growth.samples,
            "bytes_by_age": growth.ages.map(|bytes| bytes.round() as i64),
            "stack": growth.row.frames.iter().map(|frame| &frame.name).collect::<Vec<_>>(),
        })
    };
    let object = json!({"origin": profile.origin, "interval": profile.interval, "growing": grown.iter().map(one).collect::<Vec<_>>()});
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}
