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
/// Share of the budget that may go into waiting for a quiet machine and repeating what was disturbed.
const REPEAT_SHARE: f64 = 0.2;

/// Stands for no limit where a sum is needed.
const UNLIMITED: Duration = Duration::from_secs(7 * 24 * 3600);

pub struct Plan {
    pub name: String,
    pub rows: Vec<Row>,
    pub allocators: Vec<Allocator>,
    pub rounds: u32,
    /// Time the whole run may take; a row that no longer fits gets fewer rounds, or is skipped with that reason.
    pub budget: Option<Duration>,
}

pub fn run(plan: Plan, runner: &Runner) -> Results {
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
    let bar = progress_bar(&plan);
    let mut patience = plan.budget.unwrap_or(UNLIMITED).div_f64(1.0 / REPEAT_SHARE);
    for (index, row) in plan.rows.iter().enumerate() {
        let left = plan.budget.map(|b| b.saturating_sub(begin.elapsed()));
        let reason = cannot_run(row).or_else(|| left.is_some_and(|l| l.is_zero()).then(|| "out of time".to_string()));
        if let Some(reason) = reason {
            results.skipped.push((row.name.clone(), reason));
        } else {
            let deadline = left.map(|l| Instant::now() + row_share(l, &plan.rows[index..], row));
            let mut turn = RowRun { row, plan: &plan, runner, bar: &bar, deadline, patience };
            turn.run(&mut results);
            patience = turn.patience;
        }
        results.rows.push(row.clone());
        bar.set_position(((index + 1) * runs_per_row(&plan)) as u64);
    }
    bar.finish_and_clear();
    results.seconds = begin.elapsed().as_secs_f64();
    results
}

fn runs_per_row(plan: &Plan) -> usize {
    plan.allocators.len() * (plan.rounds as usize + 1)
}

fn progress_bar(plan: &Plan) -> ProgressBar {
    let bar = ProgressBar::new((plan.rows.len() * runs_per_row(plan)) as u64);
    let style =
        ProgressStyle::with_template("{bar:30} {percent:>3} %  {elapsed_precise} gone, {eta_precise} left  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// A row may take half as much again as an even share of what is left: most rows take less.
fn row_share(left: Duration, rows: &[Row], row: &Row) -> Duration {
    let weight = |r: &Row| if matches!(r.target, Target::Workload(_)) { 1.0 } else { 2.0 };
    let total: f64 = rows.iter().map(weight).sum();
    left.mul_f64((1.5 * weight(row) / total).min(1.0))
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

struct RowRun<'a> {
    row: &'a Row,
    plan: &'a Plan,
    runner: &'a Runner<'a>,
    bar: &'a ProgressBar,
    deadline: Option<Instant>,
    /// Time left for repeats, over all rows.
    patience: Duration,
}

impl RowRun<'_> {
    /// Round 0 samples memory. An allocator that failed is not asked again.
    fn run(&mut self, results: &mut Results) {
        let mut active: Vec<&Allocator> = self.plan.allocators.iter().filter(|a| a.missing.is_none()).collect();
        for round in self.rounds() {
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
                self.bar.inc(1);
            }
            active.retain(|a| !failed.contains(&a.name));
            active.sort_by_key(|a| self.plan.allocators.iter().position(|p| p.name == a.name));
        }
    }

    fn rounds(&self) -> std::ops::RangeInclusive<u32> {
        match (&self.row.target, self.row.most_rounds) {
            (Target::Callgrind(_), _) => 1..=1,
            (_, Some(most)) => 1..=self.plan.rounds.min(most),
            (_, None) => 0..=self.plan.rounds,
        }
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

    #[test]
    fn a_row_gets_half_as_much_again() {
        let rows: Vec<Row> = super::super::rows::all().into_iter().take(6).collect();
        let share = row_share(Duration::from_secs(60), &rows, &rows[0]);
        assert_eq!(share, Duration::from_secs(15));
        let last = row_share(Duration::from_secs(60), &rows[5..], &rows[5]);
        assert_eq!(last, Duration::from_secs(60));
    }

    #[test]
    fn missing_programs_are_named() {
        let mut row = super::super::rows::all().remove(0);
        row.target = Target::System("no-such-program-at-all".into());
        assert_eq!(cannot_run(&row).unwrap(), "no-such-program-at-all is not installed");
    }
}
