// SPDX-License-Identifier: MIT
//! The schedule: row by row, round by round, all allocators in turn, within a budget of time.

use super::machine;
use super::model::{Allocator, Results, Row, Sample, Target};
use super::run::Runner;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// Fewer rounds than this are not worth a figure.
const FEWEST_ROUNDS: u32 = 3;
const MOST_REPEATS: u32 = 2;
const WAIT_FOR_IDLE: Duration = Duration::from_millis(1500);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Whoever hangs in this many rows is left out of the others, or the others would not get their turn.
const MOST_HANGS: usize = 2;
/// Share of the budget that may go into waiting for a quiet machine and repeating what was disturbed.
const REPEAT_SHARE: f64 = 0.15;
/// Of a row's expected time: what it may take at most before it goes on with fewer rounds.
const ROW_MARGIN: f64 = 1.5;
/// Beside the program's own time: starting it, and reading what it says.
const OVERHEAD_S: f64 = 0.005;
const WARMING_S_PER_GIB: f64 = 0.4;

/// Stands for no limit where a sum is needed.
const UNLIMITED: Duration = Duration::from_secs(7 * 24 * 3600);

pub struct Plan {
    pub name: String,
    pub rows: Vec<Row>,
    pub allocators: Vec<Allocator>,
    pub rounds: u32,
    /// With a round that looks at memory while the programs run.
    pub sampled: bool,
    /// Time the whole run may take; a row that no longer fits gets fewer rounds, or is skipped with that reason.
    pub budget: Option<Duration>,
}

/// `finished` sees the results after every row, so that an interrupted run is not lost.
pub fn run(plan: &Plan, runner: &Runner, mut finished: impl FnMut(&Results)) -> Results {
    let machine = machine::fingerprint();
    let mut results = Results {
        suite: plan.name.clone(),
        date: machine::today(),
        host: machine::host_name(&machine),
        rounds: plan.rounds,
        machine,
        allocators: plan.allocators.clone(),
        ..Results::default()
    };
    let begin = Instant::now();
    let bar = progress_bar(plan);
    let mut patience = Duration::ZERO;
    if plan.sampled {
        bar.set_message("touching the machine's memory once");
        machine::warm_memory(usize::MAX);
    }
    for (index, row) in plan.rows.iter().enumerate() {
        let left = plan.budget.map(|b| b.saturating_sub(begin.elapsed()));
        let reason = cannot_run(row).or_else(|| left.is_some_and(|l| l.is_zero()).then(|| "out of time".to_string()));
        if let Some(reason) = reason {
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
        bar.set_position(plan.rows[..=index].iter().map(|r| milliseconds(plan.row_seconds(r))).sum());
        finished(&results);
    }
    bar.finish_and_clear();
    results
}

impl Plan {
    /// Seconds that a row is expected to take, all rounds of all allocators and the warming of memory between them.
    pub fn row_seconds(&self, row: &Row) -> f64 {
        let rounds = self.rounds_of(row).count() as f64;
        let runs = self.allocators.iter().filter(|a| a.missing.is_none() && row.takes_part(a)).count() as f64;
        rounds * (runs * (row.takes_s + OVERHEAD_S) + row.warm_mib as f64 / 1024.0 * WARMING_S_PER_GIB)
    }

    /// Round 0 samples memory. Instructions need one round only; long rows are sampled as they run, or not at all.
    fn rounds_of(&self, row: &Row) -> std::ops::RangeInclusive<u32> {
        match (&row.target, row.most_rounds) {
            (Target::Callgrind(_), _) => 1..=1,
            (_, Some(most)) => 1..=self.rounds.min(most),
            (_, None) => u32::from(!self.sampled)..=self.rounds,
        }
    }

    pub fn seconds(&self) -> f64 {
        self.rows.iter().map(|r| self.row_seconds(r)).sum()
    }

    /// Time for repeating what was disturbed: each row's share, so that the first ones do not use it up.
    fn patience(&self, row: &Row) -> Duration {
        let Some(budget) = self.budget else { return UNLIMITED };
        let most = budget.as_secs_f64() * REPEAT_SHARE / self.seconds().max(1.0);
        Duration::from_secs_f64(self.row_seconds(row) * most.min(1.0))
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

fn cannot_run(row: &Row) -> Option<String> {
    let needed: &[&str] = match &row.target {
        Target::System(program) => &[program.as_str()],
        Target::Script(_) => &["redis-server", "redis-benchmark"],
        Target::Callgrind(_) => &["valgrind"],
        Target::Workload(_) => &[],
    };
    let missing = needed.iter().find(|p| !p.starts_with('{') && !on_path(p))?;
    Some(format!("{missing} is not installed"))
}

pub fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    program.contains('/') || std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
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
        for round in self.plan.rounds_of(self.row) {
            if round > FEWEST_ROUNDS && self.deadline.is_some_and(|d| Instant::now() > d) {
                results.skipped.push((self.row.name.clone(), format!("only {} rounds: out of time", round - 1)));
                return;
            }
            machine::warm_memory(self.row.warm_mib);
            let count = active.len().max(1);
            active.rotate_left(round as usize % count); // nobody is always first
            let mut failed = Vec::new();
            for allocator in &active {
                self.bar.set_message(format!("{}: {}", self.row.name, allocator.name));
                let sample = self.one(allocator, round);
                if sample.failure.is_some() {
                    failed.push(allocator.name.clone());
                }
                results.samples.push(sample);
                self.bar.inc(milliseconds(self.row.takes_s + OVERHEAD_S));
            }
            active.retain(|a| !failed.contains(&a.name));
            active.sort_by_key(|a| self.plan.allocators.iter().position(|p| p.name == a.name));
        }
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

    /// A failure gets one more try, so that a machine short of memory for a moment is not taken for a broken allocator;
    /// both stay on record.
    fn one(&mut self, allocator: &Allocator, round: u32) -> Sample {
        let mut sample = self.until_quiet(allocator, round);
        let hung = sample.failure.as_ref().is_some_and(|f| f.starts_with("hung"));
        if sample.failure.is_some() && !hung {
            std::thread::sleep(PAUSE_AFTER_FAILURE);
            let again = self.runner.run(self.row, allocator, round);
            if again.failure.is_none() {
                sample = Sample { first_failure: sample.failure, ..again };
            }
        }
        sample
    }

    /// A run during which the machine was busy is repeated; if it stays busy the first run counts, marked.
    fn until_quiet(&mut self, allocator: &Allocator, round: u32) -> Sample {
        let mut sample = self.runner.run(self.row, allocator, round);
        if matches!(self.row.target, Target::Callgrind(_)) {
            sample.busy = false;
            return sample;
        }
        while sample.busy
            && sample.failure.is_none()
            && round > 0
            && sample.repeats < MOST_REPEATS
            && !self.out_of_patience()
        {
            let begin = Instant::now();
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

    fn out_of_patience(&self) -> bool {
        self.patience.is_zero() || self.deadline.is_some_and(|d| Instant::now() > d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rows: Vec<Row>, rounds: u32, allocators: usize) -> Plan {
        let allocators = (0..allocators).map(|i| Allocator { name: format!("a{i}"), ..Allocator::default() }).collect();
        Plan { name: "test".into(), rows, allocators, rounds, sampled: true, budget: None }
    }

    #[test]
    fn time_is_shared_by_what_rows_take() {
        let mut rows: Vec<Row> = super::super::rows::all().into_iter().take(2).collect();
        rows.iter_mut().for_each(|r| r.warm_mib = 0);
        (rows[0].takes_s, rows[1].takes_s) = (1.0 - OVERHEAD_S, 3.0 - OVERHEAD_S);
        let plan = plan(rows, 5, 2);
        assert_eq!(plan.seconds().round(), 48.0);
        assert_eq!(plan.patience(&plan.rows[0]), UNLIMITED);
        let share = row_share(Duration::from_secs(80), &plan, 0).as_secs_f64();
        assert!((share - 80.0 * 0.25 * ROW_MARGIN).abs() < 1e-6, "{share}");
        assert_eq!(row_share(Duration::from_secs(60), &plan, 1), Duration::from_secs(60));
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
        assert!(before.with(Results { host: "other".into(), ..later }).is_err());
    }

    #[test]
    fn missing_programs_are_named() {
        let mut row = super::super::rows::all().remove(0);
        row.target = Target::System("no-such-program-at-all".into());
        assert_eq!(cannot_run(&row).unwrap(), "no-such-program-at-all is not installed");
    }
}
