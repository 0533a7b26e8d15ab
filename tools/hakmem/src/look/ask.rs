// SPDX-License-Identifier: MIT
//! `hakmem trim`, `hakmem limit`, and the setting of options: what a running process is asked to do.

use super::human;
use crate::attach::request::{Answer, Order};
use crate::attach::rest::Rest;
use crate::attach::select::Targets;
use crate::attach::source::Source;
use crate::failure::Failure;
use crate::flags::bytes;
use crate::output::say;
use anyhow::{bail, Result};
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct TrimArgs {
    #[command(flatten)]
    targets: Targets,

    /// Write JSON: an object for each process
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(allow_missing_positional = true)]
pub struct LimitArgs {
    #[command(flatten)]
    targets: Targets,

    /// Sizes as 512M or 2G; 0 sets none, and the control group's limits still count; off: those neither
    #[arg(value_name = "SOFT[:HARD]|off", required = true, value_parser = limits)]
    limits: Limits,

    /// Write JSON: an object for each process
    #[arg(long)]
    json: bool,
}

/// As they were given, and the order that sets them.
#[derive(Clone, Debug, PartialEq)]
struct Limits {
    text: String,
    order: Order,
}

fn limits(text: &str) -> Result<Limits, String> {
    let of = |order: Order| Limits { text: text.into(), order };
    if text.eq_ignore_ascii_case("off") {
        return Ok(of(Order::Option("LIMIT=off".into())));
    }
    let size = |text: &str| {
        bytes(text).map(|bytes| bytes as u64).ok_or("expected SOFT or SOFT:HARD, sizes as 512M, or off")
    };
    let (soft, hard) = text.split_once(':').unwrap_or((text, "0"));
    let (soft, hard) = (size(soft)?, size(hard)?);
    match hard != 0 && soft > hard {
        true => Err("the value is not valid: SOFT is above HARD".into()),
        false => Ok(of(Order::Limit { soft, hard })),
    }
}

impl Limits {
    /// The only word that was given may be the process.
    fn check(&self, targets: &Targets) -> Result<()> {
        if targets.is_empty() && self.text.parse::<i32>().is_ok_and(|pid| pid > 0) {
            bail!(Failure::Usage(format!("the limit is missing, as 1G in `hakmem limit {} 1G`", self.text)));
        }
        Ok(())
    }
}

impl TrimArgs {
    pub fn run(&self) -> Result<ExitCode> {
        self.targets.for_each(|pid| {
            let process = Source::to(pid)?;
            let answer = process.ask(&Order::Trim, false)?;
            if self.json {
                say(as_json(&process, answer)?)?;
            }
            let said = trimmed(&process, answer)?;
            if self.json { Ok(()) } else { say(said) }
        })
    }
}

impl LimitArgs {
    pub fn run(&self) -> Result<ExitCode> {
        self.limits.check(&self.targets)?;
        self.targets.for_each(|pid| {
            let process = Source::to(pid)?;
            let answer = process.ask(&self.limits.order, true)?;
            if self.json {
                say(as_json(&process, answer)?)?;
            }
            let said = changed(&process, answer, "the limits")?;
            if self.json { Ok(()) } else { say(said) }
        })
    }
}

/// NAME=VALUE, with or without HAKMEM_, in a running process.
pub fn set(process: &Source, setting: &str) -> Result<String> {
    let answer = process.ask(&Order::Option(setting.to_string()), true)?;
    changed(process, answer, setting)
}

/// A refusal is an error, and so is no answer in time.
fn trimmed(process: &Source, answer: Option<Answer>) -> Result<String> {
    let who = process.name();
    let Some(answer) = answer else {
        let of_idle = "What it freed goes back by itself after HAKMEM_PURGE_DELAY, unless that is -1; what is left are \
                       the magazines of its threads.";
        bail!(Failure::AtRest(format!("{who} {}", Rest::of(process.pid).told(of_idle))));
    };
    process.check(answer, "trim")?;
    let by = if answer.by_helper { " by its helper; what threads hold in magazines stays" } else { "" };
    Ok(format!("{who} gave back {}{by}\n", human(answer.result)))
}

fn changed(process: &Source, answer: Option<Answer>, what: &str) -> Result<String> {
    let who = process.name();
    let Some(answer) = answer else {
        let rest = Rest::of(process.pid);
        let (state, end) = (rest.state(), rest.end());
        bail!(Failure::AtRest(format!("{who} is {state} and did not come to it yet: it takes over {what} {end}")));
    };
    process.check(answer, what)?;
    Ok(format!("{who} has taken over {what}\n"))
}

fn as_json(process: &Source, answer: Option<Answer>) -> Result<String> {
    let object = match answer {
        None => json!({"process": process.pid, "program": process.comm, "done": false}),
        Some(answer) => json!({
            "process": process.pid, "program": process.comm, "done": answer.status == 0, "status": answer.status,
            "result": answer.result, "by_helper": answer.by_helper,
        }),
    };
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_the_option_is() {
        let order = |text: &str| limits(text).map(|limits| limits.order);
        assert_eq!(order("1G"), Ok(Order::Limit { soft: 1 << 30, hard: 0 }));
        assert_eq!(order("512M:2G"), Ok(Order::Limit { soft: 512 << 20, hard: 2 << 30 }));
        assert_eq!(order("OFF"), Ok(Order::Option("LIMIT=off".into())));
        assert!(limits("x").is_err() && limits("1G:").is_err() && limits("2G:1G").is_err());
    }
}
