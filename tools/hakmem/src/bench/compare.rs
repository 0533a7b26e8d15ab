// SPDX-License-Identifier: MIT
//! `--compare A B`: two result folders, or two allocators of one run or two, row by row, and which differences are
//! real.

use super::figures::{short, Line};
use super::model::{Kind, Metric, Results, Row};
use super::stats::{self, Verdict};
use super::store;
use super::table::align;
use anyhow::{bail, Result};
use std::path::Path;

/// What --compare was given: a folder, or one and an allocator.
struct Side<'a> {
    folder: &'a Path,
    allocator: Option<&'a str>,
}

impl<'a> Side<'a> {
    /// A folder may have an @ in its name.
    fn of(word: &'a str) -> Side<'a> {
        match word.rsplit_once('@').filter(|_| !Path::new(word).exists()) {
            Some((folder, name)) => Side { folder: Path::new(folder), allocator: Some(name) },
            None => Side { folder: Path::new(word), allocator: None },
        }
    }

    fn load(&self) -> Result<Results> {
        let results = store::load(self.folder)?;
        let names: Vec<&str> = results.allocators.iter().map(|a| a.name.as_str()).collect();
        if let Some(name) = self.allocator.filter(|name| !names.contains(name)) {
            bail!("{} has no allocator '{name}'; it has: {}", self.folder.display(), names.join(", "));
        }
        Ok(results)
    }
}

pub fn of_words(a: &str, b: &str) -> Result<String> {
    let (a, b) = (Side::of(a), Side::of(b));
    let (before, after) = (a.load()?, b.load()?);
    let same_run = a.folder.canonicalize()? == b.folder.canonicalize()?;
    match (a.allocator, b.allocator) {
        (None, None) => Ok(text(&before, &after)),
        (Some(x), Some(y)) => Ok(of_two(&One { run: &before, name: x }, &One { run: &after, name: y }, same_run)),
        (Some(name), None) | (None, Some(name)) => {
            bail!("only one of the two names an allocator ('@{name}'); name one behind the other folder too")
        }
    }
}

/// The figures of one allocator in one line of a run.
fn figures(results: &Results, row: &str, metric: &Metric, allocator: &str) -> Vec<(u32, f64)> {
    let values = results.values_by_round(row, metric, allocator).into_iter();
    values.map(|(round, value)| (round, metric.cost(value))).collect()
}

/// The ratios of what two allocators cost in the same round of one run: in a round they take turns, so that a machine
/// that was slow for a while was so for both.
fn ratios_by_round(a: &[(u32, f64)], b: &[(u32, f64)]) -> Vec<f64> {
    let of = |round: u32| a.iter().filter(|(r, _)| *r == round).map(|(_, v)| *v).collect::<Vec<f64>>();
    let ratio = |(round, value): &(u32, f64)| Some(value / stats::median(&of(*round))?);
    b.iter().filter_map(ratio).filter(|r| r.is_finite()).collect()
}

/// An allocator of a run.
struct One<'a> {
    run: &'a Results,
    name: &'a str,
}

fn of_two(a: &One, b: &One, same_run: bool) -> String {
    let mut rows = vec![["row", "unit", "A", "B", "B/A cost", "95 %", "verdict"].map(String::from).to_vec()];
    let mut all = Vec::new();
    for line in Line::all(a.run).into_iter().filter(|l| same_load(l.row, b.run)) {
        let Some((ratio, cells)) = line_of_two(&line, a, b, same_run) else { continue };
        all.push((line.metric.kind, ratio));
        rows.push(cells);
    }
    let how = if same_run { "; a row's ratio is the median of those of its rounds" } else { "" };
    let mut text = align(&rows)
        + &format!("\ncost of B ({}) over A ({}), geometric means{how} (below 1: B is better)\n", b.name, a.name);
    text += &means("", &all);
    text + &other_loads(a.run, b.run) + &different_machines(a.run, b.run)
}

fn line_of_two(line: &Line, a: &One, b: &One, same_run: bool) -> Option<(f64, Vec<String>)> {
    let figures = |one: &One| figures(one.run, &line.row.name, line.metric, one.name);
    let only = |v: &[(u32, f64)]| -> Vec<f64> { v.iter().map(|(_, cost)| *cost).collect() };
    let (of_a, of_b) = (figures(a), figures(b));
    let (ratio, interval, verdict) = match same_run {
        true => stats::paired(&ratios_by_round(&of_a, &of_b))?,
        false => unpaired(&only(&of_a), &only(&of_b))?,
    };
    let shown = |v: &[(u32, f64)]| short(line.metric.cost(stats::median(&only(v)).unwrap_or(f64::NAN)));
    let mut cells = vec![line.label(), line.metric.unit.clone(), shown(&of_a), shown(&of_b)];
    cells.extend(verdict_cells(ratio, interval, verdict));
    Some((ratio, cells))
}

/// A line for each kind of figure: time and memory have no common mean.
fn means(of: &str, all: &[(Kind, f64)]) -> String {
    let line = |(kind, ratios): (String, Vec<f64>)| {
        let (mean, worst) = (stats::geometric_mean(&ratios).unwrap_or(f64::NAN), stats::quantile(&ratios, 1.0));
        let count = ratios.len();
        format!("  {of}{kind}: {mean:.3} over {count} rows, at worst {:.3}\n", worst.unwrap_or(f64::NAN))
    };
    by_kind(all).into_iter().map(line).collect()
}

/// Ratios of lines by what they measure, in the order of the table.
fn by_kind(all: &[(Kind, f64)]) -> Vec<(String, Vec<f64>)> {
    let mut kinds: Vec<(String, Vec<f64>)> = Vec::new();
    for (kind, ratio) in all {
        let name = format!("{kind:?}").to_lowercase();
        match kinds.iter_mut().find(|(known, _)| *known == name) {
            Some((_, ratios)) => ratios.push(*ratio),
            None => kinds.push((name, vec![*ratio])),
        }
    }
    kinds
}

fn unpaired(a: &[f64], b: &[f64]) -> Option<stats::Ratio> {
    let ratio = stats::median(b)? / stats::median(a)?;
    ratio.is_finite().then_some(())?;
    Some((ratio, stats::ratio_interval(b, a)?, stats::compare(b, a)))
}

fn verdict_cells(ratio: f64, (low, high): (f64, f64), verdict: Verdict) -> [String; 3] {
    let word = match verdict {
        Verdict::Noise => "noise",
        Verdict::Less => "better",
        Verdict::More => "worse",
        Verdict::Unknown => "too few runs",
    };
    [format!("{ratio:.3}"), format!("{low:.3}-{high:.3}"), word.into()]
}

fn text(a: &Results, b: &Results) -> String {
    let mut rows =
        vec![["row", "unit", "allocator", "A", "B", "B/A cost", "95 %", "verdict"].map(String::from).to_vec()];
    let mut ratios: std::collections::BTreeMap<&str, Vec<(Kind, f64)>> = Default::default();
    for line in Line::all(a).into_iter().filter(|l| same_load(l.row, b)) {
        for allocator in &a.allocators {
            let values = |r: &Results| r.values(&line.row.name, line.metric, &allocator.name);
            let (before, after) = (values(a), values(b));
            let Some(row) = compare_line(&line, &allocator.name, &before, &after) else { continue };
            ratios.entry(&allocator.name).or_default().push((line.metric.kind, row.0));
            rows.push(row.1);
        }
    }
    let mut text = align(&rows);
    text.push_str("\ncost of B over A, geometric means of the rows above (below 1: B is better)\n");
    for (name, of_rows) in ratios {
        text += &means(&format!("{name}, "), &of_rows);
    }
    text + &other_loads(a, b) + &only_in("A", a, b) + &only_in("B", b, a) + &different_machines(a, b)
}

fn same_load(row: &Row, there: &Results) -> bool {
    there.rows.iter().any(|r| r.name == row.name && r.arguments == row.arguments && r.environment == row.environment)
}

/// Rows that changed under their name, which is nothing to compare.
fn other_loads(a: &Results, b: &Results) -> String {
    let changed = a.rows.iter().filter(|r| b.rows.iter().any(|o| o.name == r.name) && !same_load(r, b));
    listed("not compared, other arguments", changed.map(|r| r.name.as_str()).collect())
}

fn listed(what: &str, names: Vec<&str>) -> String {
    if names.is_empty() {
        return String::new();
    }
    format!("\n{what}: {}\n", names.join("; "))
}

fn compare_line(line: &Line, allocator: &str, before: &[f64], after: &[f64]) -> Option<(f64, Vec<String>)> {
    let cost = |v: &[f64]| -> Vec<f64> { v.iter().map(|x| line.metric.cost(*x)).collect() };
    let (ratio, interval, verdict) = unpaired(&cost(before), &cost(after))?;
    let shown = |v: &[f64]| short(stats::median(v).unwrap_or(f64::NAN));
    let mut cells = vec![line.label(), line.metric.unit.clone(), allocator.into(), shown(before), shown(after)];
    cells.extend(verdict_cells(ratio, interval, verdict));
    Some((ratio, cells))
}

/// Rows and allocators that the other run does not have.
fn only_in(name: &str, here: &Results, there: &Results) -> String {
    let rows = here.rows.iter().map(|r| &r.name).filter(|n| !there.rows.iter().any(|r| r.name == **n));
    let allocators =
        here.allocators.iter().map(|a| &a.name).filter(|n| !there.allocators.iter().any(|a| a.name == **n));
    listed(&format!("only in {name}"), rows.chain(allocators).map(String::as_str).collect())
}

fn different_machines(a: &Results, b: &Results) -> String {
    let keys = a.other_machine(b);
    if keys.is_empty() {
        return String::new();
    }
    format!(
        "\nnot the same machine: {} differ; compare ratios between allocators rather than figures\n",
        keys.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::sample_results;
    use crate::bench::model::{Better, Sample};

    #[test]
    fn a_run_equals_itself() {
        let text = text(&sample_results(), &sample_results());
        assert!(text.contains("noise") && !text.contains("worse"), "{text}");
        assert!(text.contains("jemalloc, speed: 1.000 over 1 rows"));
    }

    /// A run that is faster and needs more memory is not "as good".
    #[test]
    fn time_and_memory_have_means_of_their_own() {
        let (mut before, mut after) = (sample_results(), sample_results());
        for (results, speed, peak) in [(&mut before, 1.0, 100.0), (&mut after, 2.0, 200.0)] {
            results.rows[0].metrics.push(Metric::new("peak_kib", "MiB", 1.0, Better::Lower, Kind::Memory));
            for sample in &mut results.samples {
                sample.fields = [("ops_per_s".into(), speed), ("peak_kib".into(), peak)].into();
            }
        }
        let text = text(&before, &after);
        assert!(text.contains("  jemalloc, speed: 0.500 over 1 rows, at worst 0.500\n"), "{text}");
        assert!(text.contains("  jemalloc, memory: 2.000 over 1 rows, at worst 2.000\n"), "{text}");
    }

    #[test]
    fn what_only_one_run_has_is_named() {
        let mut more = sample_results();
        more.rows[0].name = "other".into();
        let text = text(&sample_results(), &more);
        assert!(text.contains("only in A: r\n") && text.contains("only in B: other\n"), "{text}");
    }

    #[test]
    fn rows_with_other_arguments_are_not_compared() {
        let mut other = sample_results();
        other.rows[0].arguments = vec!["2".into()];
        let text = text(&sample_results(), &other);
        assert!(text.contains("other arguments: r\n") && !text.contains("jemalloc,"), "{text}");
    }

    #[test]
    fn a_slower_run_is_worse() {
        let mut slower = sample_results();
        for s in &mut slower.samples {
            s.fields.insert("ops_per_s".into(), 50e6 + f64::from(s.round) * 1e5);
        }
        let text = text(&sample_results(), &slower);
        assert!(text.contains("worse"), "{text}");
    }

    /// A machine that is half as fast in every other round, and an allocator that costs 5 % more.
    fn run_on_a_changing_machine() -> Results {
        let mut results = sample_results();
        let more: Vec<_> = results.samples.iter().filter(|s| s.round == 5).cloned().collect();
        results.samples.extend(more.into_iter().map(|s| Sample { round: 6, ..s }));
        for s in &mut results.samples {
            let slowed = if s.round % 2 == 0 { 2.0 } else { 1.0 };
            let cost = if s.allocator == "jemalloc" { 1.05 } else { 1.0 };
            s.fields.insert("ops_per_s".into(), 100e6 / slowed / cost);
        }
        results
    }

    #[test]
    fn two_of_one_run_are_compared_round_by_round() {
        let run = run_on_a_changing_machine();
        let (ours, theirs) = (One { run: &run, name: "hakmem" }, One { run: &run, name: "jemalloc" });
        let text = of_two(&ours, &theirs, true);
        assert!(text.contains("1.050-1.050    worse"), "{text}");
        assert!(text.contains("speed: 1.050 over 1 rows, at worst 1.050"), "{text}");
        assert!(of_two(&ours, &theirs, false).contains("noise"));
    }

    #[test]
    fn two_allocators_are_named_behind_the_folders() {
        let folder = std::env::temp_dir().join(format!("hakmem-compare-{}", std::process::id()));
        store::save(&run_on_a_changing_machine(), &folder).unwrap();
        let path = folder.display().to_string();
        let compared =
            |a: &str, b: &str| of_words(&format!("{path}{a}"), &format!("{path}{b}")).map_err(|e| e.to_string());
        assert!(compared("@hakmem", "@jemalloc").unwrap().contains("cost of B (jemalloc) over A (hakmem)"));
        assert!(compared("", "").unwrap().contains("jemalloc, speed: 1.000 over 1 rows"));
        assert!(compared("@hakmem", "").unwrap_err().contains("('@hakmem'); name one behind the other folder too"));
        assert!(compared("@hakmem", "@x").unwrap_err().contains("no allocator 'x'; it has: hakmem, jemalloc, broken"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
