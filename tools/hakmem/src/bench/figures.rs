// SPDX-License-Identifier: MIT
//! What the samples say: a line per row and metric, who is best, who cannot be told from the best, and aggregates.

use super::model::{Kind, Metric, Results, Row, FAST_PEERS, OURS};
use super::stats::{self, Summary, Verdict};

/// One figure of one row over all allocators.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    pub row: &'a Row,
    pub metric: &'a Metric,
}

pub struct Cell {
    pub allocator: String,
    pub summary: Option<Summary>,
    /// Cost relative to the best of the line; 1 is the best.
    pub ratio: Option<f64>,
    /// The best, or not to be told from it.
    pub best: bool,
    pub failure: Option<String>,
    /// Most of its runs shared the machine with other work.
    pub busy: bool,
}

impl<'a> Line<'a> {
    pub fn all(results: &'a Results) -> Vec<Line<'a>> {
        let of_row = |row: &'a Row| row.metrics.iter().map(move |metric| Line { row, metric });
        results
            .rows
            .iter()
            .flat_map(of_row)
            .filter(|l| l.has_values(results) || l.stands_for_lost_row(results))
            .filter(|l| !l.is_nothing(results))
            .collect()
    }

    /// Nobody has any of it: most rows leave no page lazily freed.
    fn is_nothing(&self, results: &Results) -> bool {
        let values = |name: &str| results.values(&self.row.name, self.metric, name);
        self.metric.kind == Kind::Beside
            && self.has_values(results)
            && results.allocators.iter().all(|a| values(&a.name).iter().all(|v| *v == 0.0))
    }

    /// A row that nobody could run keeps one line, so that it is seen.
    fn stands_for_lost_row(&self, results: &Results) -> bool {
        let of_row = |metric: &'a Metric| Line { row: self.row, metric };
        self.row.metrics.first().is_some_and(|m| std::ptr::eq(m, self.metric))
            && !self.row.metrics.iter().any(|m| of_row(m).has_values(results))
    }

    fn has_values(&self, results: &Results) -> bool {
        results.allocators.iter().any(|a| !results.values(&self.row.name, self.metric, &a.name).is_empty())
    }

    pub fn label(&self) -> String {
        self.row.name.clone()
    }

    fn costs(&self, results: &Results, allocator: &str) -> Vec<f64> {
        results.values(&self.row.name, self.metric, allocator).iter().map(|v| self.metric.cost(*v)).collect()
    }

    pub fn cost(&self, results: &Results, allocator: &str) -> Option<f64> {
        stats::median(&self.costs(results, allocator)).filter(|c| *c > 0.0)
    }

    pub fn cells(&self, results: &Results) -> Vec<Cell> {
        let costs: Vec<Vec<f64>> = results.allocators.iter().map(|a| self.costs(results, &a.name)).collect();
        let medians: Vec<Option<f64>> = costs.iter().map(|c| stats::median(c)).collect();
        let rivals = medians.iter().flatten().count() > 1;
        let best = (0..costs.len())
            .filter(|i| medians[*i].is_some())
            .min_by(|a, b| medians[*a].partial_cmp(&medians[*b]).unwrap_or(std::cmp::Ordering::Equal));
        let cell = |(i, allocator): (usize, &super::model::Allocator)| Cell {
            allocator: allocator.name.clone(),
            summary: Summary::of(&results.values(&self.row.name, self.metric, &allocator.name)),
            ratio: best.and_then(|b| Some(medians[i]? / medians[b]?)).filter(|r| r.is_finite()),
            best: rivals
                && best.is_some_and(|b| {
                    medians[i].is_some() && (i == b || self.cannot_be_told(stats::compare(&costs[i], &costs[b])))
                }),
            failure: medians[i].is_none().then(|| results.failure(&self.row.name, &allocator.name)).flatten(),
            busy: self.metric.kind.depends_on_load() && results.mostly_busy(&self.row.name, &allocator.name),
        };
        results.allocators.iter().enumerate().map(cell).collect()
    }

    /// Of too few runs nobody can tell; but instructions are the same in each, and one run counts them.
    fn cannot_be_told(&self, verdict: Verdict) -> bool {
        verdict == Verdict::Noise || (verdict == Verdict::Unknown && self.metric.kind != Kind::Instructions)
    }

    /// Cost of the best peer: everyone but hakmem.
    pub fn best_peer(&self, results: &Results) -> Option<(String, f64)> {
        let peers = results.allocators.iter().filter(|a| a.name != OURS);
        let costs = peers.filter_map(|a| Some((a.name.clone(), self.cost(results, &a.name)?)));
        costs.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Geometric mean of the fast peers' costs: a steadier yardstick than the best of them.
    pub fn peers_mean(&self, results: &Results) -> Option<f64> {
        let costs: Vec<f64> = FAST_PEERS.iter().filter_map(|p| self.cost(results, p)).collect();
        stats::geometric_mean(&costs)
    }

    pub fn shows(&self, kinds: &[Kind]) -> bool {
        kinds.contains(&self.metric.kind)
    }
}

/// Geometric mean of an allocator's ratios to a reference cost, over the lines where both exist, and how many those
/// are.
pub fn mean_ratio(
    results: &Results,
    lines: &[Line],
    allocator: &str,
    reference: impl Fn(&Line) -> Option<f64>,
) -> Option<(f64, usize)> {
    let ratio = |line: &Line| Some(line.cost(results, allocator)? / reference(line)?);
    let ratios: Vec<f64> = lines.iter().filter_map(ratio).filter(|r| r.is_finite() && *r > 0.0).collect();
    Some((stats::geometric_mean(&ratios)?, ratios.len()))
}

/// A number with three significant digits.
pub fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".into(),
        s if s >= 100.0 => format!("{value:.0}"),
        s if s >= 10.0 => format!("{value:.1}"),
        s if s >= 0.1 || s == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
pub use tests::sample_results;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::model::{Allocator, Better, Sample, Target};
    use std::collections::BTreeMap;

    pub fn sample_results() -> Results {
        let speed = Metric::new("ops_per_s", "Mops/s", 1e6, Better::Higher, Kind::Speed);
        let row = Row {
            name: "r".into(),
            group: "g".into(),
            target: Target::Workload("r".into()),
            arguments: vec![],
            environment: vec![],
            needs: vec![],
            metrics: vec![speed],
            quick: true,
            apart: false,
            gate: true,
            warm_mib: 0,
            timeout_s: 1,
            takes_s: 0.0,
            only_ours: false,
            of_heaps: false,
            memory_round: false,
            thread_argument: None,
        };
        let allocator = |name: &str| Allocator { name: name.into(), ..Allocator::default() };
        let broken = Allocator { missing: Some("not built".into()), ..allocator("broken") };
        let mut results = Results {
            rows: vec![row],
            allocators: vec![allocator(OURS), allocator("jemalloc"), broken],
            ..Results::default()
        };
        for (name, base) in [(OURS, 100e6), ("jemalloc", 80e6)] {
            for round in 0..=5 {
                let fields = BTreeMap::from([("ops_per_s".to_string(), base + f64::from(round) * 1e5)]);
                results.samples.push(Sample {
                    row: "r".into(),
                    allocator: name.into(),
                    round,
                    fields,
                    ..Sample::default()
                });
            }
        }
        results
    }

    #[test]
    fn the_memory_round_does_not_count_for_speed() {
        let results = sample_results();
        assert_eq!(results.values("r", &results.rows[0].metrics[0], OURS).len(), 5);
    }

    #[test]
    fn the_best_is_found_and_missing_ones_have_reasons() {
        let results = sample_results();
        let lines = Line::all(&results);
        let cells = lines[0].cells(&results);
        assert!(cells[0].best && !cells[1].best);
        assert!((cells[1].ratio.unwrap() - 1.25).abs() < 0.01);
        assert_eq!(cells[2].failure.as_deref(), Some("not built"));
        assert_eq!(lines[0].best_peer(&results).unwrap().0, "jemalloc");
    }

    #[test]
    fn too_few_runs_leave_nobody_behind() {
        let mut results = sample_results();
        results.samples.retain(|s| s.round <= 3);
        let best =
            |results: &Results| Line::all(results)[0].cells(results).iter().map(|cell| cell.best).collect::<Vec<_>>();
        assert_eq!(best(&results), [true, true, false]);
        results.rows[0].metrics[0].kind = Kind::Instructions;
        assert_eq!(best(&results), [true, false, false], "instructions are counted, not timed");
    }

    #[test]
    fn ratios_are_averaged_over_rows() {
        let results = sample_results();
        let lines = Line::all(&results);
        let (mean, rows) = mean_ratio(&results, &lines, OURS, |l| l.peers_mean(&results)).unwrap();
        assert_eq!(rows, 1);
        assert!((mean - 0.8).abs() < 0.01);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [short(123.4), short(12.34), short(1.234), short(0.01234), short(0.0)],
            ["123", "12.3", "1.23", "0.0123", "0.00"]
        );
    }
}
