// SPDX-License-Identifier: MIT
//! The schedule: row by row, round by round, all allocators in turn, within a budget of time.

use super::machine;
use super::model::{Allocator, Needed, Results, Row, Sample, Target};
use super::run::Runner;
use crate::output::remark;
use indicatif::{ProgressBar, ProgressStyle};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

/// A row runs at least so many rounds, if so many are wanted, or not at all.
const FEWEST_ROUNDS: u32 = 5;
const MOST_REPEATS: u32 = 2;
const WAIT_FOR_IDLE: Duration = Duration::from_millis(1500);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Whoever hangs in this many rows is left out of the others, or the others would not get their turn.
const MOST_HANGS: usize = 2;
/// Share of the budget, or without one of what the runs took, for waiting until the machine is quiet and repeating what
/// was disturbed.
const REPEAT_SHARE: f64 = 0.15;
/// Of a row's expected time: what it may take at most before it goes on with fewer rounds.
const ROW_MARGIN: f64 = 1.5;
/// Beside the program's own time: starting it, and reading what it says.
const OVERHEAD_S: f64 = 0.01;
const WARMING_S_PER_GIB: f64 = 1.0;
/// What a program may rest in the round that looks at memory.
const REST_S: f64 = 2.2;
/// Name of the plan of all rows.
pub const FULL: &str = "full";
/// Touching all memory at the start: about 18 GiB that a virtual machine's host has to back first.
const FIRST_WARMING_S: f64 = 60.0;

pub struct Plan {
    pub name: String,
    pub rows: Vec<Row>,
    pub allocators: Vec<Allocator>,
    pub rounds: u32,
    /// With a round that looks at memory while the programs run.
    pub sampled: bool,
    /// Time the whole run may take; a row that no longer fits gets fewer of its additional rounds, or is skipped with
    /// that reason.
    pub budget: Option<Duration>,
    /// So many allocators run side by side in rows whose figures do not depend on the machine's load.
    pub cores: usize,
}

/// `finished` sees the results after every row, so that an interrupted run is not lost.
pub fn run(plan: &Plan, runner: &Runner, mut finished: impl FnMut(&Results)) -> Results {
    let mut results = nothing_yet(plan);
    let begin = Instant::now();
    let bar = progress_bar(plan);
    let mut patience = Duration::ZERO;
    if plan.touches_all_memory() {
        bar.set_message("touching the machine's memory once");
        machine::warm_memory(usize::MAX);
        bar.set_position(milliseconds(plan.begin_seconds()));
    }
    for (index, row) in plan.rows.iter().enumerate() {
        if bar.is_hidden() {
            remark(format_args!("row {} of {}: {}", index + 1, plan.rows.len(), row.name));
        }
        let left = plan.budget.map(|b| b.saturating_sub(begin.elapsed()));
        if let Some(reason) = cannot_run(row).or_else(|| plan.no_time_for(row, left?)) {
            results.skipped.push((row.name.clone(), reason));
        } else {
            patience += plan.patience(row);
            let deadline = left.map(|l| Instant::now() + row_share(l, plan, index));
            let mut turn = RowRun { row, plan, runner, bar: &bar, deadline, patience };
            turn.run(&mut results);
            patience = turn.patience;
        }
        results.rows.push(row.clone());
        results.seconds = begin.elapsed().as_secs_f64();
        bar.set_position(milliseconds(plan.seconds_until(index + 1)));
        finished(&results);
    }
    bar.finish_and_clear();
    results
}

/// Results of the plan, without any row.
pub fn nothing_yet(plan: &Plan) -> Results {
    let machine = machine::fingerprint();
    Results {
        suite: plan.name.clone(),
        date: machine::today(),
        host: machine::host_name(&machine),
        rounds: plan.rounds,
        machine,
        allocators: plan.allocators.clone(),
        ..Results::default()
    }
}

impl Plan {
    /// Seconds that a row is expected to take, all rounds of all allocators and the warming of memory between them.
    pub fn row_seconds(&self, row: &Row) -> f64 {
        self.seconds_of_rounds(row, self.rounds)
    }

    fn seconds_of_rounds(&self, row: &Row, rounds: u32) -> f64 {
        let rounds = self.rounds_of(row, rounds).count() as f64;
        let runs = self.allocators.iter().filter(|a| a.missing.is_none() && row.takes_part(a)).count();
        let turns = runs.div_ceil(self.at_once(row)) as f64;
        let rests = if self.sampled && row.memory_round { turns * REST_S } else { 0.0 };
        rounds * (turns * (row.takes_s + OVERHEAD_S) + self.warm_mib(row) as f64 / 1024.0 * WARMING_S_PER_GIB) + rests
    }

    /// Round 0 samples the memory of timed rows; the others are sampled in every round. Instructions repeat exactly, so
    /// one round counts them.
    fn rounds_of(&self, row: &Row, rounds: u32) -> std::ops::RangeInclusive<u32> {
        if matches!(row.target, Target::Callgrind(_)) {
            return 1..=1;
        }
        let memory_round = self.sampled && row.depends_on_load() && row.memory_round;
        u32::from(!memory_round)..=rounds
    }

    fn warm_mib(&self, row: &Row) -> usize {
        if row.depends_on_load() {
            row.warm_mib
        } else {
            0
        }
    }

    fn at_once(&self, row: &Row) -> usize {
        if row.depends_on_load() {
            1
        } else {
            self.cores.max(1)
        }
    }

    fn no_time_for(&self, row: &Row, left: Duration) -> Option<String> {
        let needed = self.seconds_of_rounds(row, self.rounds.min(FEWEST_ROUNDS));
        let left = left.as_secs_f64();
        (left < needed).then(|| format!("out of time: takes {needed:.0} s, {left:.0} s were left"))
    }

    pub fn seconds(&self) -> f64 {
        self.seconds_until(self.rows.len())
    }

    /// What the begin and the first `rows` rows take.
    fn seconds_until(&self, rows: usize) -> f64 {
        self.begin_seconds() + self.rows[..rows].iter().map(|r| self.row_seconds(r)).sum::<f64>()
    }

    /// Only the full suite is worth the minute that this may take; who measures a few rows or a program would only
    /// wait.
    fn touches_all_memory(&self) -> bool {
        self.name == FULL
    }

    fn begin_seconds(&self) -> f64 {
        if self.touches_all_memory() {
            FIRST_WARMING_S
        } else {
            0.0
        }
    }

    /// Time for repeating what was disturbed: each row's share, so that the first ones do not use it up.
    fn patience(&self, row: &Row) -> Duration {
        let Some(budget) = self.budget else { return Duration::ZERO };
        let most = budget.as_secs_f64() * REPEAT_SHARE / self.seconds().max(1.0);
        Duration::from_secs_f64(self.row_seconds(row) * most.min(1.0))
    }

    /// The same without a budget: a share of what the runs have taken, as each of them ends.
    fn patience_after(&self, took: Duration) -> Duration {
        match self.budget {
            Some(_) => Duration::ZERO,
            None => took.mul_f64(REPEAT_SHARE),
        }
    }

    pub fn summary(&self) -> String {
        let most = self.budget.map_or(String::new(), |b| format!(", {:.0} at most", b.as_secs_f64() / 60.0));
        format!(
            "{} rows, {} allocators, {} rounds: about {:.0} minutes{most}",
            self.rows.len(),
            self.allocators.len(),
            self.rounds,
            (self.seconds() / 60.0).ceil()
        )
    }
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1e3) as u64
}

fn progress_bar(plan: &Plan) -> ProgressBar {
    let bar = ProgressBar::new(milliseconds(plan.seconds()));
    let style =
        ProgressStyle::with_template("{bar:30} {percent:>3} %  {elapsed_precise} gone, {eta_precise} left  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// What is left is shared out by what the rows are expected to take, with a margin: most rows take less.
fn row_share(left: Duration, plan: &Plan, index: usize) -> Duration {
    let total: f64 = plan.rows[index..].iter().map(|r| plan.row_seconds(r)).sum();
    left.mul_f64((ROW_MARGIN * plan.row_seconds(&plan.rows[index]) / total).min(1.0))
}

/// Why the row cannot run on this machine, and what to install.
pub fn cannot_run(row: &Row) -> Option<String> {
    let valgrind = matches!(row.target, Target::Callgrind(_)).then(|| Needed::new("valgrind", "valgrind"));
    let missing = row.needs.iter().chain(&valgrind).find(|n| !n.is_there())?;
    let state = if missing.what.contains('/') { "there" } else { "installed" };
    let remedy = match &missing.package[..] {
        "" => String::new(),
        package => format!(": apt-get install {package}, or scripts/bootstrap bench for all programs"),
    };
    Some(format!("{} is not {state}{remedy}", missing.what))
}

fn hung_rows(results: &Results, allocator: &Allocator) -> usize {
    let hung = |s: &&Sample| s.allocator == allocator.name && s.failure.as_ref().is_some_and(|f| f.starts_with("hung"));
    results.samples.iter().filter(hung).count()
}

struct RowRun<'a> {
    row: &'a Row,
    plan: &'a Plan,
    runner: &'a Runner<'a>,
    bar: &'a ProgressBar,
    deadline: Option<Instant>,
    /// Time left for repeats, over all rows.
    patience: Duration,
}

impl<'a> RowRun<'a> {
    /// An allocator that failed is not asked again.
    fn run(&mut self, results: &mut Results) {
        let mut active = self.who_takes_part(results);
        for round in self.plan.rounds_of(self.row, self.plan.rounds) {
            if round > FEWEST_ROUNDS && self.deadline.is_some_and(|d| Instant::now() > d) {
                results.skipped.push((self.row.name.clone(), format!("only {} rounds: out of time", round - 1)));
                return;
            }
            machine::warm_memory(self.plan.warm_mib(self.row));
            active.sort_by_key(|a| place_in_round(self.row, round, a));
            let samples = self.round(&active, round);
            active.retain(|a| !samples.iter().any(|s| s.allocator == a.name && s.failure.is_some()));
            active.sort_by_key(|a| self.plan.allocators.iter().position(|p| p.name == a.name));
            results.samples.extend(samples);
        }
    }

    fn round(&mut self, active: &[&Allocator], round: u32) -> Vec<Sample> {
        let mut samples = Vec::new();
        for turn in active.chunks(self.plan.at_once(self.row)) {
            let names: Vec<&str> = turn.iter().map(|a| a.name.as_str()).collect();
            self.bar.set_message(format!("{}: {}", self.row.name, names.join(", ")));
            match turn {
                [alone] => samples.push(self.one(alone, round)),
                _ => samples.extend(self.side_by_side(turn, round)),
            }
            self.bar.inc(milliseconds(self.row.takes_s + OVERHEAD_S));
        }
        samples
    }

    /// Everyone but those who are missing, and those who have hung too often, which is put on record.
    fn who_takes_part(&self, results: &mut Results) -> Vec<&'a Allocator> {
        let present = self.plan.allocators.iter().filter(|a| a.missing.is_none() && self.row.takes_part(a));
        let (out, active): (Vec<&'a Allocator>, Vec<&'a Allocator>) =
            present.partition(|a| hung_rows(results, a) >= MOST_HANGS);
        results.samples.extend(out.iter().map(|a| Sample {
            row: self.row.name.clone(),
            allocator: a.name.clone(),
            failure: Some(format!("left out: hung in {MOST_HANGS} rows before")),
            ..Sample::default()
        }));
        active
    }

    fn one(&mut self, allocator: &Allocator, round: u32) -> Sample {
        let sample = self.until_quiet(allocator, round);
        second_try(self.runner, self.row, allocator, sample)
    }

    fn side_by_side(&self, allocators: &[&Allocator], round: u32) -> Vec<Sample> {
        let run = |lane: usize, allocator: &Allocator| {
            let runner = self.runner.in_lane(lane);
            second_try(&runner, self.row, allocator, runner.run(self.row, allocator, round))
        };
        std::thread::scope(|scope| {
            let start = |(lane, allocator)| scope.spawn(move || run(lane, allocator));
            let runs: Vec<_> = allocators.iter().copied().enumerate().map(start).collect();
            runs.into_iter().map(|r| r.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }

    /// A run during which the machine was busy is repeated; if it stays busy the first run counts, marked.
    fn until_quiet(&mut self, allocator: &Allocator, round: u32) -> Sample {
        let begin = Instant::now();
        let mut sample = self.runner.run(self.row, allocator, round);
        let took = begin.elapsed();
        self.patience += self.plan.patience_after(took);
        while sample.busy
            && sample.failure.is_none()
            && round > 0
            && sample.repeats < MOST_REPEATS
            && !self.out_of_patience(took)
        {
            let begin = Instant::now();
            self.bar.set_message(format!("{}: the machine is busy, so once more {}", self.row.name, allocator.name));
            machine::wait_for_idle(WAIT_FOR_IDLE.min(self.patience));
            let again = self.runner.run(self.row, allocator, round);
            self.patience = self.patience.saturating_sub(begin.elapsed());
            let repeats = sample.repeats + 1;
            if !again.busy && again.failure.is_none() {
                sample = again;
            }
            sample.repeats = repeats;
        }
        sample
    }

    /// Where a run took `took`.
    fn out_of_patience(&self, took: Duration) -> bool {
        let least = if self.plan.budget.is_some() { Duration::ZERO } else { took };
        self.patience <= least || self.deadline.is_some_and(|d| Instant::now() > d)
    }
}

/// Each round has an order of its own, the same in every run: in a fixed cycle an allocator would always find memory as
/// the same one before it has left it.
fn place_in_round(row: &Row, round: u32, allocator: &Allocator) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&row.name, round, &allocator.name).hash(&mut hasher);
    hasher.finish()
}

/// A failure gets one more try, so that a machine short of memory for a moment is not taken for a broken allocator;
/// both stay on record.
fn second_try(runner: &Runner, row: &Row, allocator: &Allocator, first: Sample) -> Sample {
    let hung = first.failure.as_ref().is_some_and(|f| f.starts_with("hung"));
    if first.failure.is_none() || hung {
        return first;
    }
    std::thread::sleep(PAUSE_AFTER_FAILURE);
    let again = runner.run(row, allocator, first.round);
    if again.failure.is_some() {
        return first;
    }
    Sample { first_failure: first.failure, ..again }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rows: Vec<Row>, rounds: u32, allocators: usize) -> Plan {
        let allocators = (0..allocators).map(|i| Allocator { name: format!("a{i}"), ..Allocator::default() }).collect();
        Plan { name: FULL.into(), rows, allocators, rounds, sampled: true, budget: None, cores: 2 }
    }

    #[test]
    fn time_is_shared_by_what_rows_take() {
        let mut rows: Vec<Row> = super::super::rows::all().into_iter().take(2).collect();
        rows.iter_mut().for_each(|r| r.warm_mib = 0);
        (rows[0].takes_s, rows[1].takes_s) = (1.0 - OVERHEAD_S, 3.0 - OVERHEAD_S);
        let plan = plan(rows, 5, 2);
        assert_eq!(plan.seconds().round(), 40.0 + FIRST_WARMING_S);
        let share = row_share(Duration::from_secs(80), &plan, 0).as_secs_f64();
        assert!((share - 80.0 * 0.25 * ROW_MARGIN).abs() < 1e-6, "{share}");
        assert_eq!(row_share(Duration::from_secs(60), &plan, 1), Duration::from_secs(60));
    }

    /// A machine that is always busy must not make it three times as long.
    #[test]
    fn without_a_budget_repeats_take_a_share_of_the_runs() {
        let row = super::super::program::row(&["prog".to_string()]);
        let plan = plan(vec![row], 5, 2);
        assert_eq!(plan.patience(&plan.rows[0]), Duration::ZERO);
        assert_eq!(plan.patience_after(Duration::from_secs(100)), Duration::from_secs(15));
        let limited = Plan { budget: Some(Duration::from_secs(600)), ..plan };
        assert!(limited.patience(&limited.rows[0]) > Duration::ZERO);
        assert_eq!(limited.patience_after(Duration::from_secs(100)), Duration::ZERO);
    }

    #[test]
    fn rows_of_another_machine_or_version_are_refused() {
        let results = |kernel: &str, load: &str, version: &str| Results {
            machine: [("kernel".into(), kernel.into()), ("load at start".into(), load.into())].into(),
            allocators: vec![Allocator { name: "a".into(), version: version.into(), ..Allocator::default() }],
            ..Results::default()
        };
        let before = results("6.1", "0.1", "v1");
        assert!(before.clone().with(results("6.1", "7.0", "v1")).is_ok());
        let refusal = |other| before.clone().with(other).unwrap_err().to_string();
        assert!(refusal(results("6.9", "0.1", "v1")).contains("kernel was '6.1' and is '6.9'"));
        assert!(refusal(results("6.1", "0.1", "v2")).contains("a was at v1 and is at v2"));
        let mut absent = results("6.1", "0.1", "");
        absent.allocators[0].missing = Some("not built".into());
        assert!(before.with(absent).is_ok());
    }

    #[test]
    fn rows_that_time_nothing_run_side_by_side() {
        let plan = plan(super::super::rows::all(), 5, 13);
        let row = |name: &str| plan.rows.iter().find(|r| r.name == name).unwrap();
        let (timed, idle, counted) = (row("Lua job"), row("survivors"), row("instructions: pair 64 B"));
        assert_eq!([timed, idle, counted].map(|r| plan.at_once(r)), [1, 2, 2]);
        assert_eq!([timed, idle, counted].map(|r| plan.rounds_of(r, 5)), [0..=5, 1..=5, 1..=1]);
        assert_eq!(plan.rounds_of(row("pair 64 B"), 5), 1..=5);
        let turns = (13f64 / 2.0).ceil();
        let seconds = turns * (counted.takes_s + OVERHEAD_S);
        assert!((plan.row_seconds(counted) - seconds).abs() < 1e-9);
    }

    #[test]
    fn every_row_gets_five_rounds_or_says_why() {
        let all = plan(super::super::rows::all(), 5, 13);
        let rounds = |row: &Row| *all.rounds_of(row, all.rounds).end();
        assert!(all.rows.iter().all(|r| rounds(r) == FEWEST_ROUNDS || matches!(r.target, Target::Callgrind(_))));
        let row = &all.rows[0];
        let needed = Duration::from_secs_f64(all.row_seconds(row) + 1.0);
        assert_eq!(all.no_time_for(row, needed), None);
        assert!(all.no_time_for(row, needed / 2).unwrap().starts_with("out of time: takes"));
        let more = Plan { rounds: 50, ..all };
        assert_eq!(more.no_time_for(&more.rows[0], needed), None);
    }

    #[test]
    fn who_hangs_twice_is_left_out() {
        let hang = |row: &str| Sample {
            row: row.into(),
            allocator: "a0".into(),
            failure: Some("hung: not done after 1 s".into()),
            ..Sample::default()
        };
        let mut results = Results { samples: vec![hang("x"), hang("y")], ..Results::default() };
        let plan = plan(super::super::rows::all().into_iter().take(1).collect(), 5, 2);
        assert_eq!(hung_rows(&results, &plan.allocators[0]), 2);
        assert_eq!(hung_rows(&results, &plan.allocators[1]), 0);
        results.samples.pop();
        assert!(hung_rows(&results, &plan.allocators[0]) < MOST_HANGS);
    }

    #[test]
    fn rows_of_another_run_take_the_place_of_its_own() {
        let rows: Vec<Row> = super::super::rows::all().into_iter().take(3).collect();
        let sample = |row: &Row, round| Sample { row: row.name.clone(), round, ..Sample::default() };
        let before = Results {
            rows: rows.clone(),
            samples: vec![sample(&rows[0], 1), sample(&rows[1], 1)],
            skipped: vec![(rows[2].name.clone(), "out of time".into())],
            ..Results::default()
        };
        let later = Results {
            rows: vec![rows[2].clone(), rows[1].clone()],
            samples: vec![sample(&rows[2], 2), sample(&rows[1], 2)],
            ..Results::default()
        };
        let all = before.clone().with(later.clone()).unwrap();
        assert!(all.skipped.is_empty());
        assert_eq!(
            all.rows.iter().map(|r| &r.name).collect::<Vec<_>>(),
            rows.iter().map(|r| &r.name).collect::<Vec<_>>()
        );
        assert_eq!(all.samples.iter().map(|s| s.round).collect::<Vec<_>>(), [1, 2, 2]);
        let nothing = Results {
            rows: rows.clone(),
            skipped: rows.iter().map(|r| (r.name.clone(), "out of time".into())).collect(),
            ..Results::default()
        };
        let kept = all.with(nothing).unwrap();
        assert_eq!((kept.samples.len(), kept.skipped.len(), kept.rows.len()), (3, 0, 3));
        assert!(before.with(Results { host: "other".into(), ..later }).is_err());
    }

    #[test]
    fn missing_programs_are_named() {
        let mut row = super::super::rows::all().remove(0);
        row.needs = vec![Needed::new("no-such-program-at-all", "")];
        assert_eq!(cannot_run(&row).unwrap(), "no-such-program-at-all is not installed");
        row.needs = vec![Needed::new("/no/such/program", "some-package")];
        let said = cannot_run(&row).unwrap();
        assert!(said.starts_with("/no/such/program is not there: apt-get install some-package"), "{said}");
        row.needs = vec![Needed::new("/bin", "")];
        assert!(cannot_run(&row).is_some(), "a folder is no program");
        row.needs = vec![Needed::new("/bin/sh", "")];
        assert_eq!(cannot_run(&row), None);
    }
}
