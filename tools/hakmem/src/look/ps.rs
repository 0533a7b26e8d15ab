// SPDX-License-Identifier: MIT
//! `hakmem ps`: which processes run hakmem, and what each has.

use super::human;
use crate::attach::select::each_with_hakmem;
use crate::attach::snapshot::Snapshot;
use crate::attach::Attached;
use crate::output::say;
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct PsArgs {
    /// Write JSON: an array of objects
    #[arg(long)]
    json: bool,
}

struct Row {
    pid: i32,
    comm: String,
    version: String,
    snapshot: Snapshot,
}

impl Row {
    fn of(process: Attached) -> Result<Row> {
        Ok(Row {
            pid: process.pid,
            version: process.record.version()?,
            snapshot: process.snapshot()?,
            comm: process.comm,
        })
    }

    fn value(&self, name: &str) -> u64 {
        self.snapshot.value(name)
    }
}

impl PsArgs {
    pub fn run(&self) -> Result<ExitCode> {
        let (mut rows, _) = each_with_hakmem(Row::of, true)?;
        rows.sort_by_key(|row| row.pid);
        say(if self.json { as_json(&rows)? } else { as_text(&rows) })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn as_text(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>8} {:<16} {:<8} {:>10} {:>10} {:>10} {:>7}\n",
        "PID", "COMM", "VERSION", "LIVE", "CACHED", "RESIDENT", "THREADS"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:>8} {:<16} {:<8} {:>10} {:>10} {:>10} {:>7}",
            row.pid,
            row.comm,
            row.version,
            human(row.value("live")),
            human(row.value("cached")),
            human(row.value("resident")),
            row.value("heaps_now")
        );
    }
    text
}

fn as_json(rows: &[Row]) -> Result<String> {
    let object = |row: &Row| {
        json!({
            "process": row.pid,
            "program": row.comm,
            "version": row.version,
            "live": row.value("live"),
            "cached": row.value("cached"),
            "resident": row.value("resident"),
            "heaps_now": row.value("heaps_now"),
        })
    };
    let all: Vec<_> = rows.iter().map(object).collect();
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}
