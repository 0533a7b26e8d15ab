// SPDX-License-Identifier: MIT
//! Curves: figures over thread counts and over the number of live blocks, and the plot that all line charts share.

use super::charts::{colour, Chart};
use super::figures::short;
use super::model::{Kind, Results, Row, OURS};
use super::stats;
use super::svg::{Anchor, Svg};
use std::collections::BTreeMap;

type Curve = (String, Vec<(f64, f64)>);

pub fn file_name(title: &str) -> String {
    let words: Vec<&str> = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    words.join("-").to_lowercase()
}

pub fn all(results: &Results) -> Vec<Chart> {
    let mut charts: Vec<Chart> =
        by_threads(results).into_iter().map(|(name, rows)| over_threads(results, &name, &rows)).collect();
    charts.extend(over_live_blocks(results));
    charts
}

/// Rows "NAME @ COUNT threads", by name.
pub fn by_threads(results: &Results) -> BTreeMap<String, Vec<(f64, &Row)>> {
    let mut found: BTreeMap<String, Vec<(f64, &Row)>> = BTreeMap::new();
    for row in &results.rows {
        let parts = row
            .name
            .split_once(" @ ")
            .and_then(|(name, rest)| Some((name, rest.split(' ').next()?.parse::<f64>().ok()?)));
        if let Some((name, count)) = parts {
            found.entry(name.to_string()).or_default().push((count, row));
        }
    }
    found
}

fn over_threads(results: &Results, name: &str, rows: &[(f64, &Row)]) -> Chart {
    let unit = rows.first().and_then(|(_, r)| r.metrics.first()).map_or("", |m| m.unit.as_str());
    let curve = |allocator: &str| -> Curve {
        let point = |(count, row): &(f64, &Row)| {
            let metric = row.metrics.iter().find(|m| m.kind == Kind::Speed)?;
            Some((*count, stats::median(&results.values(&row.name, metric, allocator))?))
        };
        (allocator.to_string(), rows.iter().filter_map(point).collect())
    };
    let curves: Vec<Curve> = results.allocators.iter().map(|a| curve(&a.name)).filter(|c| !c.1.is_empty()).collect();
    let title = format!("{name}: {unit} over threads");
    Chart { name: file_name(&format!("scaling {name}")), svg: plot(results, &title, &curves, true), title }
}

/// ns per operation from 10^3 to 10^7 live blocks, with the floor that a pointer chase sets.
fn over_live_blocks(results: &Results) -> Option<Chart> {
    let live = |row: &Row| Some(10f64.powi(row.name.strip_prefix("live blocks 10^")?.parse().ok()?));
    let rows: Vec<(f64, &Row)> = results.rows.iter().filter_map(|r| Some((live(r)?, r))).collect();
    let values = |row: &Row, allocator: &str, field: &str| -> Vec<f64> {
        let of_row = results
            .samples
            .iter()
            .filter(|s| s.row == row.name && s.round > 0 && (allocator.is_empty() || s.allocator == allocator));
        of_row.filter_map(|s| s.fields.get(field)).copied().collect()
    };
    let curve = |name: &str, allocator: &str, field: &str| -> Curve {
        let points = rows.iter().filter_map(|(x, row)| Some((*x, stats::median(&values(row, allocator, field))?)));
        (name.to_string(), points.collect())
    };
    let mut curves: Vec<Curve> = results.allocators.iter().map(|a| curve(&a.name, &a.name, "ns_per_op")).collect();
    curves.push(curve("pointer chase (floor)", "", "floor_ns"));
    curves.retain(|c| c.1.len() > 1);
    let title = "ns per free and malloc over live blocks".to_string();
    (curves.len() > 1).then(|| Chart { name: "live-blocks".into(), svg: plot(results, &title, &curves, true), title })
}

/// A line chart; with `logarithmic` the horizontal axis is, by powers.
pub fn plot(results: &Results, title: &str, curves: &[Curve], logarithmic: bool) -> String {
    let (left, top, width, height) = (60.0, 44.0, 560.0, 320.0);
    let points = || curves.iter().flat_map(|c| &c.1);
    let place = |x: f64| if logarithmic { x.max(1e-9).log2() } else { x };
    let low = points().map(|p| place(p.0)).fold(f64::MAX, f64::min);
    let high = points().map(|p| place(p.0)).fold(f64::MIN, f64::max).max(low + 1e-9);
    let most = points().map(|p| p.1).fold(0.0, f64::max).max(1e-9) * 1.05;
    let at = |p: &(f64, f64)| (left + (place(p.0) - low) / (high - low) * width, top + height * (1.0 - p.1 / most));
    let mut svg = Svg::new(left + width + 190.0, top + height + 40.0);
    svg.text(10.0, 22.0, 15.0, Anchor::Start, "#111", title);
    for step in 0..=4 {
        let value = most * f64::from(step) / 4.0;
        let y = at(&(1.0, value)).1;
        svg.line((left, y), (left + width, y), "#dddddd", 1.0);
        svg.text(left - 6.0, y + 4.0, 11.0, Anchor::End, "#444", &short(value));
    }
    for x in ticks(curves, logarithmic) {
        svg.text(at(&(x, 0.0)).0, top + height + 18.0, 11.0, Anchor::Middle, "#444", &tick_label(x));
    }
    for (i, (name, points)) in curves.iter().enumerate() {
        let stroke = if name.contains("floor") { "#000000" } else { colour(results, name) };
        let line: Vec<(f64, f64)> = points.iter().map(&at).collect();
        svg.polyline(&line, stroke, if name == OURS { 3.0 } else { 1.6 });
        let y = top + 8.0 + 18.0 * i as f64;
        svg.line((left + width + 14.0, y), (left + width + 34.0, y), stroke, 3.0);
        svg.text(left + width + 40.0, y + 4.0, 12.0, Anchor::Start, "#222", name);
    }
    svg.finish()
}

fn ticks(curves: &[Curve], logarithmic: bool) -> Vec<f64> {
    let mut xs: Vec<f64> = curves.iter().flat_map(|c| c.1.iter().map(|p| p.0)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    if logarithmic || xs.len() < 8 {
        return xs;
    }
    let last = xs.last().copied().unwrap_or(0.0).ceil() as u32;
    (0..=last).map(f64::from).filter(|x| *x <= xs[xs.len() - 1]).collect()
}

fn tick_label(x: f64) -> String {
    if x >= 1000.0 && x.log10().fract() == 0.0 {
        format!("10^{}", x.log10())
    } else {
        format!("{x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::sample_results;

    #[test]
    fn file_names_are_plain() {
        assert_eq!(file_name("rss burst, 90 % freed"), "rss-burst-90-freed");
    }

    #[test]
    fn thread_rows_are_grouped_by_name() {
        let mut results = sample_results();
        let mut second = results.rows[0].clone();
        results.rows[0].name = "larson @ 1 threads".into();
        second.name = "larson @ 8 threads".into();
        results.rows.push(second);
        let groups = by_threads(&results);
        assert_eq!(groups["larson"].iter().map(|r| r.0).collect::<Vec<_>>(), vec![1.0, 8.0]);
    }

    #[test]
    fn a_plot_names_its_curves() {
        let curves = vec![("jemalloc".to_string(), vec![(0.0, 1.0), (1.0, 2.0)])];
        let svg = plot(&sample_results(), "t", &curves, false);
        assert!(svg.contains("jemalloc") && svg.contains("polyline"));
    }
}
