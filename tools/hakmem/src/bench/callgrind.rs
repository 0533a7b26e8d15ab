// SPDX-License-Identifier: MIT
//! Instruction counts by callgrind: the figure that noise cannot touch. A workload runs with two iteration counts; what
//! the longer run adds, divided by the iterations it adds, is the cost of one iteration without start-up.

use super::model::{Allocator, Row};
use super::run::Runner;
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::process::Command;

const SHORT: u64 = 20_000;
const LONG: u64 = 120_000;
/// What timeout(1) ends with.
const TIMED_OUT: i32 = 124;

/// `{iterations}` in the row's arguments is the count.
pub fn count(runner: &Runner, workload: &str, row: &Row, allocator: &Allocator) -> Result<BTreeMap<String, f64>> {
    let short = run(runner, workload, row, allocator, SHORT)?;
    let long = run(runner, workload, row, allocator, LONG)?;
    let each = (long as f64 - short as f64) / (LONG - SHORT) as f64;
    Ok(BTreeMap::from([("instructions".to_string(), each)]))
}

fn run(runner: &Runner, workload: &str, row: &Row, allocator: &Allocator, iterations: u64) -> Result<u64> {
    let out = runner.file("callgrind.out");
    let preload: Vec<_> = allocator.preload.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    let mut command = Command::new("timeout");
    command.arg(row.timeout_s.to_string()).args(["valgrind", "--quiet", "--tool=callgrind"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    command.arg(runner.places.workloads().join(workload));
    command.args(row.arguments.iter().map(|a| a.replace("{iterations}", &iterations.to_string())));
    command.env("LD_PRELOAD", preload.join(":")).envs(allocator.environment.iter().chain(&row.environment).cloned());
    let output = command.output().context("valgrind cannot be started")?;
    if output.status.code() == Some(TIMED_OUT) {
        bail!("hung: not done after {} s", row.timeout_s);
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("callgrind: {}{}", output.status, super::run::last_words(&said));
    }
    check_proof(&String::from_utf8_lossy(&output.stderr), allocator)?;
    total(&std::fs::read_to_string(&out).context("callgrind wrote nothing")?).context("callgrind gave no total")
}

fn check_proof(said: &str, allocator: &Allocator) -> Result<()> {
    let proofs = super::parse::proofs(said);
    let proof = proofs.first().context("no proof of the allocator")?;
    let library = allocator.preload.first().context("no library to prove")?;
    proof.check(library).map_err(anyhow::Error::msg)
}

fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("totals:").or_else(|| l.strip_prefix("summary:")))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn the_total_is_found() {
        assert_eq!(total("events: Ir\nsummary: 12345\n"), Some(12345));
        assert_eq!(total("totals: 7 8\n"), Some(7));
        assert_eq!(total("none"), None);
    }
}
