// SPDX-License-Identifier: MIT
//! Tables as text: for the terminal, and in Markdown.

use super::figures::{mean_ratio, short, Cell, Line};
use super::model::{Kind, Results, LEVELS, OURS};

pub const SPEED: [Kind; 2] = [Kind::Speed, Kind::Latency];

/// Rows of cells, columns aligned; the first column to the left.
pub fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (i, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[i] - cell.chars().count());
            let (before, after) = if i == 0 { ("", pad.as_str()) } else { (pad.as_str(), "") };
            text.push_str(&format!("{before}{cell}{after}  "));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn cell_text(cell: &Cell) -> String {
    match (&cell.summary, &cell.failure) {
        (Some(s), _) => {
            format!("{}{}{}", short(s.median), if cell.busy { "~" } else { "" }, if cell.best { "*" } else { "" })
        }
        (None, Some(reason)) if reason.starts_with("crashed") => "crash".into(),
        (None, Some(reason)) if reason.starts_with("hung") => "hung".into(),
        (None, Some(_)) => "fail".into(),
        (None, None) => "-".into(),
    }
}

fn header(results: &Results) -> Vec<String> {
    ["row".to_string(), "unit".into()].into_iter().chain(results.allocators.iter().map(|a| a.name.clone())).collect()
}

fn body(results: &Results, lines: &[Line]) -> Vec<Vec<String>> {
    let row = |line: &Line| {
        let cells = line.cells(results);
        [line.label(), line.metric.unit.clone()].into_iter().chain(cells.iter().map(cell_text)).collect()
    };
    lines.iter().map(row).collect()
}

pub fn lines_of<'a>(results: &'a Results, kinds: &[Kind]) -> Vec<Line<'a>> {
    Line::all(results).into_iter().filter(|l| l.shows(kinds)).collect()
}

/// Geometric mean of cost over the best peer's, a line under the table it sums up.
fn means(results: &Results, lines: &[Line]) -> Vec<String> {
    let mean = |name: &str| {
        mean_ratio(results, lines, name, |l| l.best_peer(results).map(|b| b.1))
            .map_or("-".into(), |(m, n)| format!("{}/{n}", short(m)))
    };
    let cells = results.allocators.iter().map(|a| mean(&a.name));
    ["cost over the best peer's, mean/rows".to_string(), String::new()].into_iter().chain(cells).collect()
}

pub fn text(results: &Results, title: &str, kinds: &[Kind]) -> String {
    let lines = lines_of(results, kinds);
    if lines.is_empty() {
        return String::new();
    }
    let mut rows = vec![header(results)];
    rows.extend(body(results, &lines));
    rows.push(means(results, &lines));
    format!("{title}\n{}\n", align(&rows))
}

pub fn markdown(results: &Results, lines: &[Line]) -> String {
    let mut text =
        format!("| {} |\n|---|---|{}\n", header(results).join(" | "), "---:|".repeat(results.allocators.len()));
    for line in lines {
        let cells = line.cells(results);
        let bold = |c: &Cell| if c.best { format!("**{}**", cell_text(c).trim_end_matches('*')) } else { cell_text(c) };
        let shown: Vec<String> = cells.iter().map(bold).collect();
        text.push_str(&format!("| {} | {} | {} |\n", line.label(), line.metric.unit, shown.join(" | ")));
    }
    text
}

/// What the reader must know beside the figures.
pub fn remarks(results: &Results) -> String {
    let mut text = String::new();
    for (row, reason) in &results.skipped {
        text.push_str(&format!("skipped or cut short: {row}: {reason}\n"));
    }
    for allocator in results.allocators.iter().filter(|a| a.missing.is_some()) {
        text.push_str(&format!("missing: {}: {}\n", allocator.name, allocator.missing.as_deref().unwrap_or_default()));
    }
    for s in results.samples.iter().filter(|s| s.failure.is_some()) {
        text.push_str(&format!("failed: {}, {}: {}\n", s.row, s.allocator, s.failure.as_deref().unwrap_or_default()));
    }
    for s in results.samples.iter() {
        if let Some(reason) = &s.first_failure {
            text.push_str(&format!("failed once, ran when tried again: {}, {}: {reason}\n", s.row, s.allocator));
        }
    }
    let busy = results.busy_share() * 100.0;
    if busy >= 1.0 {
        text.push_str(&format!(
            "the machine was busy with other work in {busy:.0} % of the timed runs, after repeats; \
             ~ marks figures most of whose runs were such\n"
        ));
    }
    text
}

/// How hakmem stands against the best peer of each row, worst first.
pub fn standing(results: &Results, kinds: &[Kind]) -> String {
    let mut gaps: Vec<(f64, String)> = lines_of(results, kinds).iter().filter_map(|line| gap(results, line)).collect();
    gaps.sort_by(|a, b| b.0.total_cmp(&a.0));
    gaps.iter().map(|g| format!("{}\n", g.1)).collect()
}

/// What hakmem's safety levels and the hardened allocators cost over its default; empty without one of the levels.
pub fn over_default(results: &Results) -> String {
    let is_here = |name: &str| results.allocators.iter().any(|a| a.missing.is_none() && a.name == name);
    if !LEVELS.iter().any(|(name, _)| is_here(name)) || !is_here(OURS) {
        return String::new();
    }
    let mean = |kinds: &[Kind], name: &str| {
        let lines = lines_of(results, kinds);
        let found = mean_ratio(results, &lines, name, |l| l.cost(results, OURS));
        found.map_or("-".into(), |(mean, rows)| format!("{} ({rows} rows)", short(mean)))
    };
    let line = |name: &str| vec![name.into(), mean(&[Kind::Speed], name), mean(&[Kind::Memory], name)];
    let head = vec!["over hakmem".to_string(), "time".into(), "memory".into()];
    let others = results.allocators.iter().filter(|a| a.name != OURS && a.missing.is_none());
    align(&std::iter::once(head).chain(others.map(|a| line(&a.name))).collect::<Vec<_>>())
}

fn gap(results: &Results, line: &Line) -> Option<(f64, String)> {
    let (peer, best) = line.best_peer(results)?;
    let ratio = line.cost(results, OURS)? / best;
    Some((ratio, format!("{:>6} x the cost of {peer}: {} ({})", short(ratio), line.label(), line.metric.unit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::sample_results;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".to_string(), "1".into()], vec!["bb".into(), "22".into()]];
        assert_eq!(align(&rows), "a    1\nbb  22\n");
    }

    #[test]
    fn the_table_marks_the_best_and_the_broken() {
        let text = text(&sample_results(), "speed", &SPEED);
        assert!(text.contains("100*") && text.contains("fail"), "{text}");
        let results = sample_results();
        assert!(markdown(&results, &Line::all(&results)).contains("**100**"));
        assert!(remarks(&results).contains("missing: broken: not built"));
    }

    #[test]
    fn the_levels_are_put_beside_the_default() {
        let mut results = sample_results();
        assert!(over_default(&results).is_empty());
        for sample in results.samples.iter_mut().filter(|s| s.allocator == "jemalloc") {
            sample.allocator = "hakmem-safe2".into();
        }
        for allocator in results.allocators.iter_mut().filter(|a| a.name == "jemalloc") {
            allocator.name = "hakmem-safe2".into();
        }
        assert!(over_default(&results).contains("hakmem-safe2"), "{}", over_default(&results));
        assert!(over_default(&results).contains("1.25 (1 rows)"), "{}", over_default(&results));
    }

    #[test]
    fn the_standing_names_the_best_peer() {
        assert!(standing(&sample_results(), &SPEED).contains("x the cost of jemalloc: r"));
    }
}
