// SPDX-License-Identifier: MIT
//! `hakmem bench -- PROGRAM ARGS`: any program under every allocator.

use super::figures::{short, Line};
use super::model::{Better, Kind, Metric, Needed, Results, Row, Target};
use super::stats::{self, Verdict};
use super::table::align;

/// The group of a row that names a program of the user's.
pub const GROUP: &str = "your program";

const TIMEOUT_S: u64 = 3600;

pub fn row(command: &[String]) -> Row {
    let lower = |field: &str, unit: &str, divisor: f64, kind| Metric::new(field, unit, divisor, Better::Lower, kind);
    Row {
        name: command[0].rsplit('/').next().unwrap_or("program").to_string(),
        group: GROUP.into(),
        target: Target::System(command[0].clone()),
        arguments: command[1..].to_vec(),
        environment: Vec::new(),
        needs: vec![Needed::new(&command[0], "")],
        metrics: vec![
            lower("wall_s", "time s", 1.0, Kind::Speed),
            lower("peak_kib", "peak MiB", 1024.0, Kind::Memory),
            lower("cpu_s", "CPU s", 1.0, Kind::Beside),
            lower("sampled_lazyfree_max_kib", "LazyFree MiB", 1024.0, Kind::Beside),
            lower("minor_faults", "page faults", 1.0, Kind::Beside),
            lower("voluntary_switches", "waits", 1.0, Kind::Beside),
            lower("involuntary_switches", "preempted", 1.0, Kind::Beside),
        ],
        quick: true,
        apart: false,
        gate: false,
        warm_mib: 512,
        timeout_s: TIMEOUT_S,
        takes_s: 0.0,
        only_ours: false,
        of_heaps: false,
        memory_round: true,
        thread_argument: None,
    }
}

/// One line an allocator, all figures side by side; then which differences in time and memory are real.
pub fn text(results: &Results) -> String {
    let lines = Line::all(results);
    let mut rows =
        vec![std::iter::once("allocator".to_string()).chain(lines.iter().map(|l| l.metric.unit.clone())).collect()];
    for (i, allocator) in results.allocators.iter().enumerate() {
        let cells = lines.iter().map(|l| {
            let cell = &l.cells(results)[i];
            cell.summary.map_or("fail".to_string(), |s| format!("{} ±{:.0}%", short(s.median), s.spread() * 100.0))
        });
        rows.push(std::iter::once(allocator.name.clone()).chain(cells).collect::<Vec<String>>());
    }
    let verdicts = lines.iter().filter(|l| ["wall_s", "peak_kib"].contains(&l.metric.field.as_str()));
    align(&rows) + &verdicts.map(|l| verdict(results, l)).collect::<String>()
}

fn verdict(results: &Results, line: &Line) -> String {
    let values = |name: &str| results.values(&line.row.name, line.metric, name);
    let medians = results.allocators.iter().filter_map(|a| Some((a.name.as_str(), stats::median(&values(&a.name))?)));
    let Some((best, _)) = medians.min_by(|a, b| a.1.total_cmp(&b.1)) else { return String::new() };
    let mut text = format!("\n{}: lowest with {best}\n", line.metric.unit);
    for allocator in results.allocators.iter().filter(|a| a.name != best) {
        let (ours, theirs) = (values(&allocator.name), values(best));
        let (Some(a), Some(b)) = (stats::median(&ours), stats::median(&theirs)) else { continue };
        let said = match stats::compare(&ours, &theirs) {
            Verdict::Noise => "within the noise".to_string(),
            Verdict::Unknown => "too few runs to tell".to_string(),
            _ => {
                let (low, high) = stats::ratio_interval(&ours, &theirs).unwrap_or((1.0, 1.0));
                format!(
                    "{:+.1} %, really more (95 %: {:+.1} to {:+.1} %)",
                    (a / b - 1.0) * 100.0,
                    (low - 1.0) * 100.0,
                    (high - 1.0) * 100.0
                )
            }
        };
        text += &format!("  {}: {said}\n", allocator.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::model::{Allocator, Sample};
    use std::collections::BTreeMap;

    /// Means are of time and of peak memory, as those of the suite's programs are.
    #[test]
    fn one_figure_counts_as_speed_and_one_as_memory() {
        let row = row(&["prog".to_string()]);
        let fields = |kind| row.metrics.iter().filter(|m| m.kind == kind).map(|m| &m.field[..]).collect::<Vec<_>>();
        assert_eq!((fields(Kind::Speed), fields(Kind::Memory)), (vec!["wall_s"], vec!["peak_kib"]));
    }

    #[test]
    fn noise_is_said_plainly() {
        let mut results = Results { rows: vec![row(&["/bin/prog".to_string()])], ..Results::default() };
        for (name, base) in [("a", 1.0), ("b", 1.0005), ("c", 2.0)] {
            results.allocators.push(Allocator { name: name.into(), ..Allocator::default() });
            for round in 1..=5 {
                let fields = BTreeMap::from([("wall_s".to_string(), base + f64::from(round) * 0.001)]);
                results.samples.push(Sample {
                    row: "prog".into(),
                    allocator: name.into(),
                    round,
                    fields,
                    ..Sample::default()
                });
            }
        }
        let text = text(&results);
        assert!(text.contains("lowest with a") && text.contains("b: within the noise"), "{text}");
        assert!(text.contains("c: +99") && text.contains("really more"), "{text}");
    }
}
