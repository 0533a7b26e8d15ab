// SPDX-License-Identifier: MIT
//! `hakmem bench`: every allocator side by side in one run.

pub mod args;
mod callgrind;
mod charts;
mod compare;
mod curves;
mod docs;
mod figures;
mod gate;
mod machine;
mod model;
mod parse;
mod peers;
mod places;
mod program;
mod report;
mod rows;
mod run;
mod selftest;
mod stats;
mod store;
mod suite;
mod svg;
mod table;

use anyhow::{bail, Result};
use args::BenchArgs;
use model::{Kind, Results, Row, FAST_PEERS, OURS};
use places::Places;
use run::{Runner, Scratch};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use suite::Plan;

const QUICK_BUDGET: Duration = Duration::from_secs(270);
const FULL_BUDGET: Duration = Duration::from_secs(3500);

pub fn run(arguments: &BenchArgs) -> Result<ExitCode> {
    if let [a, b] = &arguments.compare[..] {
        print!("{}", compare::text(&store::load(a)?, &store::load(b)?));
        return Ok(ExitCode::SUCCESS);
    }
    let places = Places::find()?;
    if write_from_folder(&places, arguments)? {
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.list {
        return list(&places, arguments);
    }
    if !arguments.no_build {
        places.build(!arguments.self_test)?;
    }
    if arguments.self_test {
        let sound = selftest::run(&places, peers::glibc())?;
        return Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    measure(&places, arguments)
}

/// --report, --docs and --readme work on a run made before.
fn write_from_folder(places: &Places, arguments: &BenchArgs) -> Result<bool> {
    if let Some(folder) = &arguments.report {
        let results = store::load(folder)?;
        store::save(&results, folder)?;
        report::write(&results, folder)?;
    }
    if let Some(folder) = &arguments.docs {
        docs::write_docs(&store::load(folder)?, folder, &places.root)?;
    }
    if let Some(folder) = &arguments.readme {
        docs::write_readme(&store::load(folder)?, folder, &places.root)?;
    }
    Ok(arguments.report.is_some() || arguments.docs.is_some() || arguments.readme.is_some())
}

fn list(places: &Places, arguments: &BenchArgs) -> Result<ExitCode> {
    for allocator in peers::choose(places, arguments, |_| true)? {
        let state = allocator.missing.map_or(allocator.version, |reason| format!("missing: {reason}"));
        println!("allocator {}: {state} {}", allocator.name, allocator.note);
    }
    for row in rows::all() {
        println!("row {}: {} {}", row.group, row.name, if row.quick { "(quick)" } else { "" });
    }
    Ok(ExitCode::SUCCESS)
}

/// In the quick suite the slow peers stay away.
fn in_quick(name: &str) -> bool {
    name == OURS || name == "glibc" || FAST_PEERS.contains(&name)
}

fn chosen_rows(arguments: &BenchArgs) -> Result<Vec<Row>> {
    let mut chosen = rows::all();
    if !arguments.threads.is_empty() {
        chosen = rows::at_thread_counts(chosen, &arguments.threads);
    }
    if arguments.gate {
        chosen.retain(|r| r.gate);
    } else if arguments.quick && arguments.threads.is_empty() {
        chosen.retain(|r| r.quick);
    }
    if !arguments.rows.is_empty() {
        chosen.retain(|r| {
            arguments
                .rows
                .iter()
                .any(|w| r.name.to_lowercase().contains(&w.to_lowercase()) || r.group.contains(w.as_str()))
        });
    }
    if chosen.is_empty() {
        bail!("no row matches; `hakmem bench --list` shows them all");
    }
    Ok(chosen)
}

fn plan(places: &Places, arguments: &BenchArgs) -> Result<Plan> {
    let short = arguments.quick || arguments.gate;
    let own = !arguments.program.is_empty();
    let name = match () {
        () if own => "program",
        () if arguments.gate => "gate",
        () if arguments.quick => "quick",
        () if !arguments.threads.is_empty() => "threads",
        () if !arguments.rows.is_empty() => "part",
        () => "full",
    };
    Ok(Plan {
        name: name.into(),
        rows: if own { vec![program::row(&arguments.program)] } else { chosen_rows(arguments)? },
        allocators: peers::choose(places, arguments, |name| !short || in_quick(name))?,
        rounds: arguments.rounds,
        budget: (!own).then_some(if short { QUICK_BUDGET } else { FULL_BUDGET }),
    })
}

fn measure(places: &Places, arguments: &BenchArgs) -> Result<ExitCode> {
    let plan = plan(places, arguments)?;
    let scratch = Scratch::new()?;
    let results = suite::run(plan, &Runner { places, scratch: &scratch });
    if !arguments.program.is_empty() {
        print!("{}\n{}", program::text(&results), table::remarks(&results));
        if let Some(folder) = &arguments.out {
            save(&results, folder)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    print_tables(&results);
    if arguments.gate {
        return judge(places, arguments, &results);
    }
    save(&results, &arguments.out.clone().unwrap_or_else(|| store::new_folder(&places.root, &results)))?;
    Ok(ExitCode::SUCCESS)
}

fn save(results: &Results, folder: &Path) -> Result<()> {
    store::save(results, folder)?;
    report::write(results, folder)?;
    println!("\nresults: {}", folder.display());
    Ok(())
}

fn judge(places: &Places, arguments: &BenchArgs, results: &Results) -> Result<ExitCode> {
    let path = places.baseline();
    if arguments.update_baseline {
        gate::save(&path, results)?;
        println!("recorded {} ratios in bench/baseline.json", gate::ratios(results).len());
        return Ok(ExitCode::SUCCESS);
    }
    let recorded = match arguments.rows.is_empty() {
        true => gate::load(&path)?,
        false => gate::load(&path)?.of_rows(results),
    };
    let (table, behind) = gate::judge(&recorded, &gate::ratios(results));
    println!("\n{OURS}'s cost over the mean of the fast peers\n{table}");
    if behind.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("more than 10 % behind the record, or not measured: {}", behind.join(", "));
    Ok(ExitCode::FAILURE)
}

fn print_tables(results: &Results) {
    println!(
        "{} suite, {} rounds, {:.0} s; * marks the best and whatever cannot be told from it\n",
        results.suite, results.rounds, results.seconds
    );
    print!("{}", table::text(results, "speed", &table::SPEED));
    print!("{}", table::text(results, "memory", &[Kind::Memory]));
    print!("{}", table::text(results, "instructions", &[Kind::Instructions]));
    print!("{}", table::remarks(results));
    let standing = table::standing(results, &table::SPEED);
    if !standing.is_empty() {
        print!("\n{OURS} beside the best peer of each row, worst first\n{standing}");
    }
}
