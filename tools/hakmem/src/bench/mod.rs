// SPDX-License-Identifier: MIT
//! `hakmem bench`: every allocator side by side in one run.

pub mod args;
mod callgrind;
mod charts;
mod compare;
mod curves;
mod docs;
mod elf;
mod figures;
mod gate;
mod machine;
mod model;
mod parse;
mod peers;
mod places;
mod program;
mod program_table;
mod programs;
mod report;
mod rows;
mod run;
mod sampler;
mod selftest;
mod stats;
mod store;
mod suite;
mod svg;
mod table;

use crate::output::{remark, say};
use anyhow::{bail, ensure, Result};
use args::BenchArgs;
use model::{Allocator, Kind, Results, Row, FAST_PEERS, OURS};
use places::Places;
use run::{Runner, Scratch};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use suite::Plan;

const QUICK_BUDGET: Duration = Duration::from_secs(295);
const FULL_BUDGET: Duration = Duration::from_secs(58 * 60);

pub fn run(arguments: &BenchArgs) -> Result<ExitCode> {
    if let [a, b] = &arguments.compare[..] {
        say(compare::of_words(a, b)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let places = Places::find()?;
    if write_from_folder(&places, arguments)? {
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.list {
        return list(&places, arguments);
    }
    let to_build = if arguments.self_test { Vec::new() } else { check(&places, arguments)? };
    if !arguments.no_build {
        places.build(&to_build)?;
    }
    if arguments.self_test {
        let sound = selftest::run(&places, peers::glibc())?;
        return Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    measure(&places, arguments)
}

/// What can be told before the minutes that building takes. Returns the peers that have to be built.
fn check(places: &Places, arguments: &BenchArgs) -> Result<Vec<String>> {
    peers::given(arguments)?;
    check_rows(&wanted_rows(arguments)?)?;
    if let Some(folder) = &arguments.into {
        store::load(folder)?;
    }
    if arguments.gate && !arguments.update_baseline {
        gate::load(&places.baseline())?;
    }
    let plan = plan(places, arguments)?;
    let to_build = peers::to_build(&plan.allocators);
    if arguments.no_build || to_build.is_empty() {
        check_plan(&plan, arguments)?;
    }
    arguments.into.iter().chain(&arguments.out).try_for_each(|folder| store::make_writable(folder))?;
    Ok(to_build)
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
    let plan = plan(places, arguments)?;
    for a in &plan.allocators {
        let state = a.missing.as_ref().map_or(a.version.clone(), |reason| format!("missing: {reason}"));
        say(format_args!("allocator {}: {state} {}\n", a.name, a.note))?;
    }
    for row in &plan.rows {
        say(format_args!("row {}: {}; {:.0} s\n", row.group, row.name, plan.row_seconds(row)))?;
    }
    say(format_args!("{}\n", plan.summary()))?;
    Ok(ExitCode::SUCCESS)
}

/// In the quick suite the slow peers stay away.
fn in_quick(name: &str) -> bool {
    name == OURS || name == "glibc" || FAST_PEERS.contains(&name)
}

fn chosen_rows(arguments: &BenchArgs) -> Result<Vec<Row>> {
    let mut chosen = rows::all();
    if !arguments.threads.is_empty() {
        let counts: BTreeSet<u32> = arguments.threads.iter().copied().collect();
        chosen = rows::at_thread_counts(chosen, &Vec::from_iter(counts));
    }
    if arguments.gate {
        chosen.retain(|r| r.gate);
    } else if arguments.quick && arguments.threads.is_empty() {
        chosen.retain(|r| r.quick);
    }
    if arguments.rows.is_empty() {
        chosen.retain(|r| !r.apart);
    } else {
        let meant = arguments.rows.iter().map(|r| rows_meant(r, &chosen)).collect::<Result<Vec<_>>>()?.concat();
        chosen.retain(|r| meant.contains(&r.name));
    }
    if chosen.is_empty() {
        bail!("no row is left; `hakmem bench --list` shows them all");
    }
    Ok(chosen)
}

/// Names of the rows that a text means: the one of that name, else all with one of its words in their name or group.
fn rows_meant(text: &str, rows: &[Row]) -> Result<Vec<String>> {
    let text = text.to_lowercase();
    if let Some(row) = rows.iter().find(|r| r.name.to_lowercase() == text) {
        return Ok(vec![row.name.clone()]);
    }
    let says = |row: &Row, word: &str| row.name.to_lowercase().contains(word) || row.group.contains(word);
    let words: Vec<&str> = text.split(',').collect();
    if words.iter().any(|w| w.trim().is_empty()) {
        bail!("there is an empty word in '{text}', which every row would match");
    }
    if let Some(word) = words.iter().find(|w| !rows.iter().any(|r| says(r, w))) {
        bail!("no row matches '{word}'; `hakmem bench --list` shows them all");
    }
    let meant = rows.iter().filter(|r| words.iter().any(|w| says(r, w)));
    Ok(meant.map(|r| r.name.clone()).collect())
}

fn wanted_rows(arguments: &BenchArgs) -> Result<Vec<Row>> {
    match arguments.program.is_empty() {
        true => chosen_rows(arguments),
        false => Ok(vec![program::row(&arguments.program)]),
    }
}

fn plan(places: &Places, arguments: &BenchArgs) -> Result<Plan> {
    let short = arguments.quick || arguments.gate;
    let own = !arguments.program.is_empty();
    let name = match () {
        () if own => "program",
        () if arguments.gate => "gate",
        () if arguments.quick => "quick",
        () if !arguments.threads.is_empty() => "threads",
        () if arguments.rows == ["programs"] => "programs",
        () if !arguments.rows.is_empty() => "part",
        () => suite::FULL,
    };
    let allocators = peers::choose(places, arguments, |name| !short || in_quick(name))?;
    let mut rows = wanted_rows(arguments)?;
    rows.retain(|r| allocators.iter().any(|a| r.takes_part(a)));
    Ok(Plan {
        name: name.into(),
        rows,
        allocators,
        rounds: arguments.rounds,
        sampled: !short,
        budget: (!own).then_some(if short { QUICK_BUDGET } else { FULL_BUDGET }),
        cores: machine::cores(),
    })
}

fn measure(places: &Places, arguments: &BenchArgs) -> Result<ExitCode> {
    let plan = plan(places, arguments)?;
    check_plan(&plan, arguments)?;
    let scratch = Scratch::new(plan.cores)?;
    let runner = Runner::new(places, &scratch);
    if !arguments.program.is_empty() {
        return measure_program(plan, &runner, arguments);
    }
    remark(plan.summary());
    if arguments.gate {
        return gate(plan, &runner, arguments);
    }
    if let Some(folder) = &arguments.into {
        return measure_into(&plan, &runner, folder);
    }
    let mut folder = arguments.out.clone();
    let results = suite::run(&plan, &runner, |so_far| {
        let folder = folder.get_or_insert_with(|| store::new_folder(&places.root, so_far));
        report_error(store::save(so_far, folder));
    });
    let folder = folder.unwrap_or_else(|| store::new_folder(&places.root, &results));
    save_and_say(&results, &folder, &tables(&results))?;
    end_of(&results)
}

/// The run made before holds every new row as soon as it is measured, so that an interruption loses none.
fn measure_into(plan: &Plan, runner: &Runner, folder: &Path) -> Result<ExitCode> {
    let before = store::load(folder)?;
    let results = suite::run(plan, runner, |so_far| {
        report_error(before.clone().with(so_far.clone()).and_then(|all| store::save(&all, folder)));
    });
    let remarks = table::remarks(&results);
    let end = end_of(&results);
    save_and_say(&before.with(results)?, folder, &remarks)?;
    end
}

/// Who could measure nothing, or into a run that it does not fit, is told so before an hour has gone.
fn check_plan(plan: &Plan, arguments: &BenchArgs) -> Result<()> {
    if let Some(folder) = &arguments.into {
        store::load(folder)?.with(suite::nothing_yet(plan))?;
    }
    ensure!(!plan.rows.is_empty(), "none of the rows is for these allocators; `hakmem bench --list` shows them all");
    let reasons: Option<Vec<String>> = plan.allocators.iter().map(missing).collect();
    match reasons {
        Some(reasons) => bail!("there is nothing to measure: {}", reasons.join("; ")),
        None => check_rows(&plan.rows),
    }
}

fn missing(allocator: &Allocator) -> Option<String> {
    allocator.missing.as_ref().map(|reason| format!("{}: {reason}", allocator.name))
}

/// One row that can run is enough.
fn check_rows(rows: &[Row]) -> Result<()> {
    let reasons: Option<BTreeSet<String>> = rows.iter().map(suite::cannot_run).collect();
    match reasons {
        Some(reasons) => bail!("no row can run: {}", Vec::from_iter(reasons).join("; ")),
        None => Ok(()),
    }
}

/// What goes wrong after a row must not end the run.
fn report_error(result: Result<()>) {
    if let Err(error) = result {
        remark(format_args!("hakmem: {error:#}"));
    }
}

fn measure_program(plan: Plan, runner: &Runner, arguments: &BenchArgs) -> Result<ExitCode> {
    let results = suite::run(&plan, runner, |_| ());
    let text = format!("{}\n{}", program::text(&results), table::remarks(&results));
    match &arguments.out {
        Some(folder) => save_and_say(&results, folder, &text)?,
        None => say(text)?,
    }
    end_of(&results)
}

/// A run without a single figure has failed, whatever the reasons.
fn end_of(results: &Results) -> Result<ExitCode> {
    ensure!(results.has_figures(), "nothing could be measured; the reasons are above");
    Ok(ExitCode::SUCCESS)
}

/// Neither a full disk nor a reader that has left may take the other half of an hour's work along: saved first, and
/// said even if it could not be saved.
fn save_and_say(results: &Results, folder: &Path, text: &str) -> Result<()> {
    let saved = store::save(results, folder).and_then(|()| report::write(results, folder));
    say(text)?;
    saved?;
    say(format_args!("\nresults: {}\n", folder.display()))
}

fn gate(plan: Plan, runner: &Runner, arguments: &BenchArgs) -> Result<ExitCode> {
    let path = runner.places.baseline();
    let recorded = (!arguments.update_baseline).then(|| gate::load(&path)).transpose()?;
    let results = suite::run(&plan, runner, |_| ());
    let Some(recorded) = recorded else {
        return record(&results, &path);
    };
    say(tables(&results))?;
    let recorded = if arguments.rows.is_empty() { recorded } else { recorded.of_rows(&results) };
    let ratios = look_again_at_those_behind(&recorded, gate::ratios(&results), plan, runner);
    let (table, behind) = gate::judge(&recorded, &ratios);
    say(format_args!("\n{OURS}'s cost over the mean of the fast peers\n{table}\n"))?;
    if behind.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    say(format_args!("more than 10 % behind the record, or not measured: {}\n", behind.join("; ")))?;
    Ok(ExitCode::FAILURE)
}

fn record(results: &Results, path: &Path) -> Result<ExitCode> {
    let recorded = end_of(results).and_then(|_| gate::save(path, results));
    say(tables(results))?;
    recorded?;
    say(format_args!("recorded {} ratios in bench/baseline.json\n", gate::ratios(results).len()))?;
    Ok(ExitCode::SUCCESS)
}

/// A row has to fall behind twice.
fn look_again_at_those_behind(
    recorded: &gate::Baseline,
    ratios: BTreeMap<String, f64>,
    mut plan: Plan,
    runner: &Runner,
) -> BTreeMap<String, f64> {
    let (_, behind) = gate::judge(recorded, &ratios);
    plan.rows.retain(|r| behind.contains(&r.name));
    if plan.rows.is_empty() {
        return ratios;
    }
    remark(format_args!("measuring once more: {}", behind.join("; ")));
    let again = suite::run(&plan, runner, |_| ());
    gate::better_of(ratios, gate::ratios(&again))
}

fn tables(results: &Results) -> String {
    let mut text = format!(
        "{} suite, {} rounds, {:.0} s; * marks the best and whatever cannot be told from it\n\n",
        results.suite, results.rounds, results.seconds
    );
    text += &table::text(results, "speed", &table::SPEED);
    text += &table::text(results, "memory", &[Kind::Memory]);
    text += &table::text(results, "instructions", &[Kind::Instructions]);
    text += &table::remarks(results);
    let over = table::over_default(results);
    if !over.is_empty() {
        text += &format!("\ngeometric means\n{over}");
    }
    let standing = table::standing(results, &table::SPEED);
    if !standing.is_empty() {
        text += &format!("\n{OURS} beside the best peer of each row, worst first\n{standing}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(short: bool, names: &[&str]) -> f64 {
        let allocators = names.iter().map(|n| Allocator { name: (*n).into(), ..Allocator::default() }).collect();
        let rows = rows::all().into_iter().filter(|r| !r.apart && (r.quick || !short)).collect();
        Plan {
            name: if short { "quick" } else { suite::FULL }.into(),
            rows,
            allocators,
            rounds: 5,
            sampled: !short,
            budget: None,
            cores: 2,
        }
        .seconds()
    }

    #[test]
    fn a_word_for_rows_is_not_empty() {
        let all = rows::all();
        for text in ["larson,", ",", "", "larson, ,pair"] {
            assert!(rows_meant(text, &all).unwrap_err().to_string().contains("empty word"), "{text}");
        }
        assert!(rows_meant("larson,pair", &all).is_ok());
    }

    #[test]
    fn thread_counts_are_in_order_and_come_once() {
        let chosen = |threads: &[u32]| {
            chosen_rows(&BenchArgs {
                threads: threads.to_vec(),
                rows: vec!["larson small".into()],
                ..BenchArgs::default()
            })
            .unwrap()
            .into_iter()
            .map(|row| row.name)
            .collect::<Vec<_>>()
        };
        assert_eq!(chosen(&[4, 1, 2, 2]), chosen(&[1, 2, 4]));
    }

    /// On 2 cores. What the repeats of disturbed runs may take comes on top, and still has to fit. What rows take is
    /// the average over all allocators; the quick suite leaves the slow ones out.
    #[test]
    fn the_suites_fit_their_time() {
        let fast: Vec<&str> = [OURS, "glibc"].into_iter().chain(FAST_PEERS).collect();
        let slow = ["hardened", "tcmalloc-norseq", "tbbmalloc", "scudo"];
        let all: Vec<&str> = fast.iter().copied().chain(slow).collect();
        assert!(planned(false, &all) < 52.0 * 60.0, "{}", planned(false, &all));
        assert!(planned(true, &fast) < QUICK_BUDGET.as_secs_f64() * 1.1, "{}", planned(true, &fast));
    }
}
