// SPDX-License-Identifier: MIT
//! `hakmem stats`: what HAKMEM_STATS prints at a program's end, of one that runs.

use super::human;
use crate::attach::rest::Rest;
use crate::attach::select::Targets;
use crate::attach::snapshot::{Class, Snapshot};
use crate::attach::source::Source;
use crate::attach::Attached;
use crate::failure::Failure;
use crate::lists::STATISTICS;
use crate::output::say;
use anyhow::{bail, Result};
use clap::Args;
use serde_json::{json, Map, Value};
use std::fmt::Write as _;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct StatsArgs {
    #[command(flatten)]
    targets: Targets,

    /// Ask the process itself: all figures of hak_stats_get, of one moment. It follows when it next needs memory, or at
    /// once where it has HAKMEM_CONTROL
    #[arg(long)]
    exact: bool,

    /// Write JSON, an object for each process, with the names of hak_stats_t
    #[arg(long)]
    json: bool,
}

/// The columns of the table of classes: as in src/api/class_stats.def.
const COLUMNS: [(&str, &str, fn(&Class) -> u64); 8] = [
    ("alloc_count", "allocated", |class| class.alloc_count),
    ("free_local", "freed local", |class| class.free_local),
    ("free_remote", "freed remote", |class| class.free_remote),
    ("refill_count", "refills", |class| class.refill_count),
    ("flush_count", "flushes", |class| class.flush_count),
    ("live_blocks", "live", Class::live_blocks),
    ("cached_blocks", "cached", |class| class.cached_blocks),
    ("slab_count", "slabs", |class| class.slab_count),
];

/// What is known from outside only in part.
const BOUNDS: [(&str, &str); 2] = [("fragmented", "at least"), ("untouched", "at least")];

impl StatsArgs {
    pub fn run(&self) -> Result<ExitCode> {
        self.targets.for_each(|pid| {
            if self.exact {
                return say(exact(&Source::to(pid)?, self.json)?);
            }
            let process = Attached::to(pid)?;
            let snapshot = process.snapshot()?;
            say(if self.json { as_json(&process, &snapshot)? } else { as_text(&process, &snapshot)? })
        })
    }
}

fn as_text(process: &Attached, snapshot: &Snapshot) -> Result<String> {
    let mut text = format!(
        "hakmem {} statistics of process {} ({}), counters read from outside\n",
        process.record.version()?,
        process.pid,
        process.comm
    );
    text += &groups(|name| snapshot.values.get(name).copied(), true);
    text += &pool(snapshot);
    text += &classes(snapshot);
    Ok(text)
}

/// All statistics of which `value` is known.
fn groups(value: impl Fn(&str) -> Option<u64>, has_bounds: bool) -> String {
    let (mut text, mut group) = (String::new(), "");
    for statistic in STATISTICS {
        let Some(value) = value(statistic.field) else { continue };
        if statistic.group != group {
            group = statistic.group;
            let _ = writeln!(text, "\n{group}");
        }
        let bytes = if statistic.bytes && value >= 1024 { human(value) } else { String::new() };
        let is_bound = |bound: &&(&str, &str)| has_bounds && bound.0 == statistic.field && value > 0;
        let bound = BOUNDS.iter().find(is_bound).map_or("", |bound| bound.1);
        let line = format!("  {:<26} {value:>16} {bytes:>11} {bound}", statistic.label);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// What the process says of itself.
fn exact(process: &Source, as_json: bool) -> Result<String> {
    let Some(mut said) = process.statistics()? else {
        let of_idle = "`hakmem stats` reads its counters from outside.";
        bail!(Failure::AtRest(format!("{} {}", process.name(), Rest::of(process.pid).told(of_idle))))
    };
    if as_json {
        said["depth"] = json!("exact");
        return Ok(serde_json::to_string_pretty(&said)? + "\n");
    }
    let version = said["version"].as_str().unwrap_or("?");
    let mut text = format!("hakmem {version} statistics of {}, of one moment, as it says itself\n", process.name());
    text += &groups(|name| said[name].as_u64(), false);
    let classes: Vec<&Value> = said["classes"].as_array().into_iter().flatten().collect();
    Ok(text + &table(&classes, |class, name| class[name].as_u64().unwrap_or(0)))
}

fn pool(snapshot: &Snapshot) -> String {
    let pool = &snapshot.pool;
    let in_use = pool.slots.saturating_sub(pool.free_slots + pool.purging_slots);
    let rows = [("in use", in_use), ("free", pool.free_slots), ("  of these resident", pool.dirty_slots)];
    let mut text = format!("\nslots of {}\n", human(pool.slot_bytes));
    for (label, value) in rows {
        let _ = writeln!(text, "  {label:<26} {value:>16} {:>11}", human(value * pool.slot_bytes));
    }
    text
}

fn classes(snapshot: &Snapshot) -> String {
    let used: Vec<&Class> = snapshot.classes.iter().filter(|class| !class.is_empty()).collect();
    table(&used, |class, name| match COLUMNS.iter().find(|column| column.0 == name) {
        Some((_, _, value)) => value(class),
        None => class.block_size,
    })
}

fn table<C>(used: &[&C], value: impl Fn(&C, &str) -> u64) -> String {
    let mut text = format!("\nclasses\n  {:>10}", "block size");
    for (_, heading, _) in COLUMNS {
        let _ = write!(text, " {heading:>12}");
    }
    text.push('\n');
    for class in used {
        let _ = write!(text, "  {:>10}", value(class, "block_size"));
        for (name, _, _) in COLUMNS {
            let _ = write!(text, " {:>12}", value(class, name));
        }
        text.push('\n');
    }
    let _ = write!(text, "  {:>10}", "all");
    for (name, _, _) in COLUMNS {
        let _ = write!(text, " {:>12}", used.iter().map(|class| value(class, name)).sum::<u64>());
    }
    text + "\n"
}

fn as_json(process: &Attached, snapshot: &Snapshot) -> Result<String> {
    let mut object = Map::new();
    object.insert("version".into(), json!(process.record.version()?));
    object.insert("process".into(), json!(process.pid));
    object.insert("program".into(), json!(process.comm));
    object.insert("library".into(), json!(process.library));
    object.insert("depth".into(), json!("counters"));
    for statistic in STATISTICS {
        if let Some(value) = snapshot.values.get(statistic.field) {
            object.insert(statistic.field.into(), json!(value));
        }
    }
    let pool = &snapshot.pool;
    object.insert("swapped".into(), json!(snapshot.swapped));
    object.insert(
        "pool".into(),
        json!({
            "slot_bytes": pool.slot_bytes, "slots": pool.slots, "free_slots": pool.free_slots,
            "dirty_slots": pool.dirty_slots, "purging_slots": pool.purging_slots,
        }),
    );
    object.insert(
        "classes".into(),
        snapshot.classes.iter().filter(|class| !class.is_empty()).map(class_as_json).collect(),
    );
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}

fn class_as_json(class: &Class) -> Value {
    let mut object = Map::from_iter([("block_size".to_string(), json!(class.block_size))]);
    object.extend(COLUMNS.iter().map(|(name, _, value)| (name.to_string(), json!(value(class)))));
    Value::Object(object)
}
