// SPDX-License-Identifier: MIT
//! `hakmem options`: all options, or those in force in a process.

use crate::attach::select::Targets;
use crate::attach::settings::{check_setting, initial, known, values};
use crate::attach::source::Source;
use crate::attach::Attached;
use crate::failure::{is_at_rest, is_not_permitted};
use crate::lists::OPTIONS;
use crate::output::say;
use anyhow::Result;
use clap::Args;
use serde_json::{json, Map, Value};
use std::fmt::Write as _;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct OptionsArgs {
    #[command(flatten)]
    targets: Targets,

    /// Set an option of the processes first, one that can be set at any time
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,

    /// Write JSON: an object for each process, or one with all options
    #[arg(long)]
    json: bool,
}

impl OptionsArgs {
    pub fn run(&self) -> Result<ExitCode> {
        if self.targets.is_empty() && self.set.is_empty() {
            say(if self.json { list_as_json()? } else { list() })?;
            return Ok(ExitCode::SUCCESS);
        }
        self.set.iter().try_for_each(|setting| check_setting(setting))?;
        self.targets.for_each(|pid| {
            let asked = self.ask(pid);
            if asked.as_ref().is_err_and(|error| !is_at_rest(error)) {
                return asked;
            }
            let shown = if self.json { in_force_as_json(pid) } else { in_force(pid) };
            match shown {
                // What was to be set is set, by the socket.
                Err(error) if !self.set.is_empty() && is_not_permitted(&error) => {}
                shown => say(shown?)?,
            }
            asked
        })
    }

    fn ask(&self, pid: i32) -> Result<()> {
        self.set.iter().try_for_each(|setting| {
            let said = super::ask::set(&Source::to(pid)?, setting)?;
            if self.json { Ok(()) } else { say(said) }
        })
    }
}

fn list() -> String {
    let mut text = String::new();
    for option in OPTIONS {
        let when = if option.at_start { "at start" } else { "at any time" };
        let _ = writeln!(text, "HAKMEM_{}={}", option.name, initial(option));
        let _ = writeln!(text, "    {}", option.help);
        let _ = writeln!(text, "    values: {}; set {when}", values(option));
    }
    text
}

fn list_as_json() -> Result<String> {
    let object = |option: &crate::lists::OptionInfo| {
        let about = json!({
            "default": initial(option), "values": values(option), "at_start": option.at_start, "help": option.help
        });
        (format!("HAKMEM_{}", option.name), about)
    };
    let all: Map<String, Value> = OPTIONS.iter().map(object).collect();
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

fn in_force(pid: i32) -> Result<String> {
    let process = Attached::to(pid)?;
    let mut text = format!("process {pid} ({}), {}\n", process.comm, process.build()?);
    for setting in process.settings()? {
        let help = known(&setting.name).map_or("", |option| option.help);
        let name = format!("HAKMEM_{}", setting.name);
        let _ = writeln!(text, "  {name:<21} {:<10} {:<12} {help}", setting.value, setting.origin);
    }
    Ok(text)
}

fn in_force_as_json(pid: i32) -> Result<String> {
    let process = Attached::to(pid)?;
    let settings = process.settings()?.into_iter();
    let all: Map<String, Value> = settings
        .map(|setting| (format!("HAKMEM_{}", setting.name), json!({"value": setting.value, "origin": setting.origin})))
        .collect();
    let object = json!({"process": pid, "program": process.comm, "version": process.record.version()?, "options": all});
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}
