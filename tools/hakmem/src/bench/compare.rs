// SPDX-License-Identifier: MIT
//! `--compare A B`: two result folders, row by row, and which differences are real.

use super::figures::{short, Line};
use super::model::{Results, Row};
use super::stats::{self, Verdict};
use super::table::align;

pub fn text(a: &Results, b: &Results) -> String {
    let mut rows =
        vec![["row", "unit", "allocator", "A", "B", "B/A cost", "95 %", "verdict"].map(String::from).to_vec()];
    let mut ratios: std::collections::BTreeMap<&str, Vec<f64>> = Default::default();
    for line in Line::all(a).into_iter().filter(|l| same_load(l.row, b)) {
        for allocator in &a.allocators {
            let values = |r: &Results| r.values(&line.row.name, line.metric, &allocator.name);
            let (before, after) = (values(a), values(b));
            let Some(row) = compare_line(&line, &allocator.name, &before, &after) else { continue };
            ratios.entry(&allocator.name).or_default().push(row.0);
            rows.push(row.1);
        }
    }
    let mut text = align(&rows);
    text.push_str("\ncost of B over A, geometric mean of the rows above (below 1: B is better)\n");
    for (name, of_rows) in ratios {
        let mean = stats::geometric_mean(&of_rows).unwrap_or(f64::NAN);
        text.push_str(&format!("  {name}: {mean:.3} over {} rows\n", of_rows.len()));
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
    let (a, b) = (cost(before), cost(after));
    let ratio = stats::median(&b)? / stats::median(&a)?;
    if !ratio.is_finite() {
        return None;
    }
    let (low, high) = stats::ratio_interval(&b, &a)?;
    let verdict = match stats::compare(&b, &a) {
        Verdict::Noise => "noise",
        Verdict::Less => "better",
        Verdict::More => "worse",
        Verdict::Unknown => "too few runs",
    };
    let shown = |v: &[f64]| short(stats::median(v).unwrap_or(f64::NAN));
    let interval = format!("{low:.3}-{high:.3}");
    let cells = [
        line.label(),
        line.metric.unit.clone(),
        allocator.into(),
        shown(before),
        shown(after),
        format!("{ratio:.3}"),
        interval,
        verdict.into(),
    ];
    Some((ratio, cells.to_vec()))
}

/// Rows and allocators that the other run does not have.
fn only_in(name: &str, here: &Results, there: &Results) -> String {
    let rows = here.rows.iter().map(|r| &r.name).filter(|n| !there.rows.iter().any(|r| r.name == **n));
    let allocators =
        here.allocators.iter().map(|a| &a.name).filter(|n| !there.allocators.iter().any(|a| a.name == **n));
    listed(&format!("only in {name}"), rows.chain(allocators).map(String::as_str).collect())
}

fn different_machines(a: &Results, b: &Results) -> String {
    let differs = |key: &&String| a.machine.get(*key) != b.machine.get(*key) && !key.starts_with("load");
    let keys: Vec<&str> = a.machine.keys().filter(differs).map(String::as_str).collect();
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

    #[test]
    fn a_run_equals_itself() {
        let text = text(&sample_results(), &sample_results());
        assert!(text.contains("noise") && !text.contains("worse"), "{text}");
        assert!(text.contains("jemalloc: 1.000 over 1 rows"));
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
        assert!(text.contains("other arguments: r\n") && !text.contains("jemalloc:"), "{text}");
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
}
