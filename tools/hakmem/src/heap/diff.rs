// SPDX-License-Identifier: MIT
//! `hakmem diff`: what one profile has more than another.

use super::input::Input;
use super::Names;
use crate::failure::Failure;
use crate::image::Amount;
use crate::output::say;
use crate::report::view::{bytes, count, rows, Row, Show};
use crate::report::{self, folded};
use anyhow::{bail, Result};
use clap::Args;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

const PLACE_FRAMES: usize = 4;

#[derive(Args, Debug)]
pub struct DiffArgs {
    #[command(flatten)]
    input: Input,

    /// What to compare
    #[arg(long, value_enum, default_value_t)]
    show: Show,

    /// Write a file instead: .svg (a flame graph of B, red where it has more), .folded (A and B a line)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write JSON
    #[arg(long)]
    json: bool,

    /// Lines of the table
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,

    #[command(flatten)]
    names: Names,
}

/// A stack, by its names: addresses differ from run to run.
struct Line {
    row: Row,
    before: Amount,
    after: Amount,
}

impl Line {
    fn more(&self) -> Amount {
        self.after.minus(self.before)
    }
}

impl DiffArgs {
    pub fn run(&self) -> Result<ExitCode> {
        let form = self.output.as_ref().map(|path| match path.extension().and_then(|end| end.to_str()) {
            Some("svg") => Ok(true),
            Some("folded") => Ok(false),
            _ => bail!(Failure::Usage(format!("{}: a comparison is written as .svg or .folded", path.display()))),
        });
        let is_svg = form.transpose()?;
        self.output.as_deref().map_or(Ok(()), report::check_place)?;
        let (lines, title) = self.lines()?;
        if let (Some(path), Some(is_svg)) = (&self.output, is_svg) {
            let folded = lines
                .iter()
                .filter(|line| line.before.bytes > 0.5 || line.after.bytes > 0.5)
                .map(|line| format!("{} {:.0} {:.0}", folded::stack(&line.row), line.before.bytes, line.after.bytes));
            let folded: Vec<String> = folded.collect();
            let bytes = match is_svg {
                true => folded::picture(&folded, title, "bytes of B")?,
                false => (folded.join("\n") + "\n").into_bytes(),
            };
            report::leave(path, &bytes)?;
            return Ok(ExitCode::SUCCESS);
        }
        say(if self.json { as_json(&lines)? } else { self.as_text(&lines) })?;
        Ok(ExitCode::SUCCESS)
    }

    /// The largest change first; and what is compared.
    fn lines(&self) -> Result<(Vec<Line>, String)> {
        let profiles = self.input.profiles()?;
        let [before, after] = &profiles[..] else {
            let count = profiles.len();
            bail!(Failure::Usage(format!("name two profiles, before and after; these are {count}: process ids, files that a process wrote, or --comm NAME and --cgroup PATH for one process each")));
        };
        let mut lines: BTreeMap<Vec<(String, String)>, Line> = BTreeMap::new();
        for (is_after, profile) in [(false, before), (true, after)] {
            for row in rows(profile, &self.names.of(profile), self.show) {
                let key = row.frames.iter().map(|frame| (frame.name.clone(), frame.module.clone())).collect();
                let amount = row.amount;
                let none = Amount::default();
                let line = lines.entry(key).or_insert(Line { row, before: none, after: none });
                if is_after { &mut line.after } else { &mut line.before }.add(amount);
            }
        }
        let mut lines: Vec<Line> = lines.into_values().collect();
        lines.sort_by(|a, b| b.more().bytes.abs().total_cmp(&a.more().bytes.abs()));
        Ok((lines, format!("{} to {}", before.origin, after.origin)))
    }

    fn as_text(&self, lines: &[Line]) -> String {
        let mut all = Line { row: Row::default(), before: Amount::default(), after: Amount::default() };
        for line in lines {
            all.before.add(line.before);
            all.after.add(line.after);
        }
        let row = |line: &Line, place: &str| {
            let [before, after, more] = [line.before, line.after, line.more()].map(|amount| bytes(amount.bytes));
            let more = if line.more().bytes > 0.5 { format!("+{more}") } else { more };
            format!("{before:>12} {after:>12} {more:>12} {:>12}  {place}\n", count(line.more().objects))
        };
        let mut text = format!("{:>12} {:>12} {:>12} {:>12}  site\n", "A", "B", "change", "blocks");
        text += &row(&all, "all");
        for line in lines.iter().filter(|line| line.more().bytes.abs() >= 0.5).take(self.top) {
            let _ = write!(text, "{}", row(line, &line.row.place(PLACE_FRAMES)));
        }
        text
    }
}

fn as_json(lines: &[Line]) -> Result<String> {
    let one = |line: &Line| {
        json!({
            "before": report::json::amount(line.before), "after": report::json::amount(line.after),
            "stack": line.row.frames.iter().map(|frame| &frame.name).collect::<Vec<_>>(),
        })
    };
    Ok(serde_json::to_string_pretty(&lines.iter().map(one).collect::<Vec<_>>())? + "\n")
}
