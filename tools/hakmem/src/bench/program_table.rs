// SPDX-License-Identifier: MIT
//! The table of real programs in README.md: the peak of each, and its time beside it.

use super::figures::{mean_ratio, short, Cell, Line};
use super::model::{Allocator, Kind, Results, FAST_PEERS, OURS};
use super::programs::{GROUP, MANY};

/// Whether the run measured enough programs to speak of them.
pub fn is_about_programs(results: &Results) -> bool {
    results.rows.iter().filter(|r| r.group == GROUP).count() >= MANY
}

fn in_table(allocator: &Allocator) -> bool {
    let name = allocator.name.as_str();
    allocator.missing.is_none() && (name == OURS || name == "glibc" || FAST_PEERS.contains(&name))
}

fn lines(results: &Results, kind: Kind) -> Vec<Line<'_>> {
    Line::all(results).into_iter().filter(|l| l.row.group == GROUP && l.shows(&[kind])).collect()
}

/// "**212** (1.4)": MiB, bold where nobody is leaner, and seconds.
fn cell(peak: &Cell, time: Option<&Cell>) -> String {
    let Some(summary) = &peak.summary else { return "-".into() };
    let shown = short(summary.median);
    let shown = if peak.best { format!("**{shown}**") } else { shown };
    let seconds = time.and_then(|t| t.summary.as_ref()).map_or(String::new(), |s| format!(" ({})", short(s.median)));
    shown + &seconds
}

/// Without those that are not shown, so that the leanest of the others is the best of its row.
fn shown(results: &Results) -> Results {
    let mut shown = results.clone();
    shown.allocators.retain(in_table);
    shown
}

pub fn markdown(results: &Results) -> String {
    let results = &shown(results);
    let names: Vec<&str> = results.allocators.iter().map(|a| a.name.as_str()).collect();
    let mut text = format!("| Program | {} |\n|---|{}\n", names.join(" | "), "---:|".repeat(names.len()));
    let (peaks, times) = (lines(results, Kind::Memory), lines(results, Kind::Speed));
    for peak in &peaks {
        let of_peak = peak.cells(results);
        let of_time = times.iter().find(|t| t.row.name == peak.row.name).map(|t| t.cells(results));
        let cells = of_peak.iter().enumerate().map(|(i, c)| cell(c, of_time.as_ref().map(|t| &t[i])));
        text += &format!("| {} | {} |\n", peak.row.name, cells.collect::<Vec<_>>().join(" | "));
    }
    for (title, lines) in [("peak over glibc's, mean", &peaks), ("time over glibc's, mean", &times)] {
        let mean = |a: &Allocator| over_glibc(results, lines, &a.name).map_or("-".into(), |m| format!("{m:.3}"));
        text += &format!("| *{title}* | {} |\n", results.allocators.iter().map(mean).collect::<Vec<_>>().join(" | "));
    }
    text
}

/// An allocator's peaks or times over glibc's, as their mean.
fn over_glibc(results: &Results, lines: &[Line], name: &str) -> Option<f64> {
    mean_ratio(results, lines, name, |l| l.cost(results, "glibc")).map(|(mean, _)| mean)
}

/// What the table comes to, in a sentence.
fn standing(results: &Results) -> Option<String> {
    let results = &shown(results);
    let (peaks, times) = (lines(results, Kind::Memory), lines(results, Kind::Speed));
    let best = |lines: &[Line]| {
        let others = results.allocators.iter().filter(|a| a.name != OURS && a.name != "glibc");
        let means = others.filter_map(|a| Some((over_glibc(results, lines, &a.name)?, &a.name)));
        means.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(mean, name)| format!("{name} ({mean:.2})"))
    };
    Some(format!(
        "Over all programs, hakmem's peak is {:.2} of glibc's and its time {:.2}; of the others, the leanest is {}, the \
         fastest {}. ",
        over_glibc(results, &peaks, OURS)?,
        over_glibc(results, &times, OURS)?,
        best(&peaks)?,
        best(&times)?
    ))
}

/// The block of README.md.
pub fn block(results: &Results, folder: &str) -> String {
    let cores = results.machine.get("cores").map_or("?", String::as_str);
    let left_out = match results.skipped.len() {
        0 => String::new(),
        n => format!(" {n} programs are not installed there and are left out."),
    };
    standing(results).unwrap_or_default()
        + &format!(
        "Peak of the largest process in MiB, its time in seconds behind it; medians of {} interleaved rounds on {cores} cores, \
         {}. Bold is the leanest and whatever cannot be told from it. `-`: the program does not run on that allocator, or \
         not under it.{left_out} `hakmem bench --rows programs` makes this table on your machine. Processor time, page \
         faults, the memory of the group and after a rest: [every figure](docs/benchmarks-programs.md), \
         [raw data]({folder}).\n\n{}",
        results.rounds,
        results.date,
        markdown(results)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::model::{Metric, Sample};
    use crate::bench::programs;
    use std::collections::BTreeMap;

    fn measured() -> Results {
        let mut results = Results { rows: programs::all(), rounds: 5, ..Results::default() };
        for (name, peak) in [(OURS, 102_400.0), ("glibc", 204_800.0), ("scudo", 1.0)] {
            results.allocators.push(Allocator { name: name.into(), ..Allocator::default() });
            for (row, round) in results.rows.iter().flat_map(|r| (1..=5).map(move |round| (r, round))) {
                let value = |m: &Metric| (m.field.clone(), if m.kind == Kind::Memory { peak } else { 2.0 * m.divisor });
                let fields: BTreeMap<String, f64> = row.metrics.iter().map(value).collect();
                let (row, allocator) = (row.name.clone(), name.to_string());
                results.samples.push(Sample { row, allocator, round, fields, ..Sample::default() });
            }
        }
        results
    }

    #[test]
    fn the_table_has_a_line_for_each_program() {
        let results = measured();
        assert!(is_about_programs(&results));
        let text = markdown(&results);
        assert!(text.starts_with("| Program | hakmem | glibc |\n"), "{text}");
        assert!(text.contains("| Redis | **100** (2.00) | 200 (2.00) |\n"), "{text}");
        assert!(text.ends_with(
            "| *peak over glibc's, mean* | 0.500 | 1.000 |\n| *time over glibc's, mean* | 1.000 | 1.000 |\n"
        ));
    }

    #[test]
    fn a_sentence_says_what_it_comes_to() {
        let mut results = measured();
        for name in results
            .allocators
            .iter_mut()
            .map(|a| &mut a.name)
            .chain(results.samples.iter_mut().map(|s| &mut s.allocator))
        {
            if name == "scudo" {
                *name = "jemalloc".into();
            }
        }
        let text = standing(&results).unwrap();
        assert!(text.starts_with("Over all programs, hakmem's peak is 0.50 of glibc's and its time 1.00; "), "{text}");
        assert!(text.ends_with("the leanest is jemalloc (0.00), the fastest jemalloc (1.00). "), "{text}");
    }
}
