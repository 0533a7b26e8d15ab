// SPDX-License-Identifier: MIT
//! The suite checked against allocators that are wrong on purpose: one slowed, one that leaks, one that crashes, one
//! that hangs, one that is not there. Each must be seen, and none may stop the run.

use super::figures::Line;
use super::machine;
use super::model::{Allocator, Kind, Results};
use super::places::Places;
use super::rows;
use super::run::{Runner, Scratch};
use super::stats::{compare, Verdict};
use super::suite::{self, Plan};
use crate::output::say;
use anyhow::Result;

pub fn run(places: &Places, glibc: Allocator) -> Result<bool> {
    let shim = |name: &str| {
        let path = places.workloads().join(format!("selftest/lib{name}.so"));
        let missing = (!path.is_file()).then(|| format!("{} is not there", places.shown(&path)));
        Allocator { name: name.into(), missing, preload: vec![path], ..Allocator::default() }
    };
    let mut lying = shim("lying");
    lying.missing = None; // says it is there: only the proof can tell
    let plan = Plan {
        name: "self-test".into(),
        rows: rows::all().into_iter().filter(|r| r.name == "batch fifo 10k").map(shorter).collect(),
        allocators: vec![glibc, shim("slow"), shim("leak"), shim("crash"), shim("hang"), shim("absent"), lying],
        rounds: 5,
        sampled: true,
        budget: None,
        cores: machine::cores(),
    };
    let scratch = Scratch::new(plan.cores)?;
    let results = suite::run(&plan, &Runner::new(places, &scratch), |_| ());
    let checks = check(&results);
    for (what, seen) in &checks {
        say(format_args!("{} {what}\n", if *seen { "ok  " } else { "FAIL" }))?;
    }
    let failed = checks.iter().filter(|c| !c.1).count();
    say(format_args!("{} passed, {failed} failed\n", checks.len() - failed))?;
    Ok(failed == 0)
}

fn shorter(mut row: super::model::Row) -> super::model::Row {
    row.arguments[4] = "100".into();
    row.timeout_s = 3;
    row
}

fn check(results: &Results) -> Vec<(&'static str, bool)> {
    let lines = Line::all(results);
    let more = |kind: Kind, allocator: &str| {
        lines.iter().find(|l| l.metric.kind == kind).is_some_and(|l| {
            let values = |name: &str| results.values(&l.row.name, l.metric, name);
            compare(&values(allocator), &values("glibc")) == Verdict::More
        })
    };
    let median = |kind: Kind, allocator: &str| {
        let line = lines.iter().find(|l| l.metric.kind == kind);
        line.and_then(|l| l.cost(results, allocator)).unwrap_or(f64::NAN)
    };
    let failed = |allocator: &str, words: &str| {
        results.rows.first().and_then(|r| results.failure(&r.name, allocator)).is_some_and(|f| f.contains(words))
    };
    vec![
        ("the sound allocator has figures", !lines.is_empty() && !failed("glibc", "")),
        ("the slowed allocator is really slower", more(Kind::Speed, "slow")),
        ("the leaking allocator really needs more memory", more(Kind::Memory, "leak")),
        (
            "the slowed allocator needs about as much memory",
            median(Kind::Memory, "slow") < 1.1 * median(Kind::Memory, "glibc"),
        ),
        ("the crash became a marked row", failed("crash", "crashed by signal 6")),
        ("the hang became a marked row", failed("hang", "hung: not done after 3 s")),
        ("the missing allocator became a marked row", failed("absent", "not there")),
        ("an allocator that did not run is caught by the proof", failed("lying", "another allocator ran")),
    ]
}
