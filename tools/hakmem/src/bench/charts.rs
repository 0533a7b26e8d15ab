// SPDX-License-Identifier: MIT
//! The pictures: a heat map of relative cost, the two means side by side, memory over time, and curves over thread or
//! block counts.

use super::figures::{mean_ratio, short, Line};
use super::model::{Kind, Results, OURS};
use super::svg::{Anchor, Svg};
use super::table::lines_of;

const PALETTE: [&str; 14] = [
    "#d62728", "#555555", "#1f77b4", "#6baed6", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#9edae5",
    "#bcbd22", "#e377c2", "#aec7e8", "#98df8a",
];

pub struct Chart {
    pub name: String,
    pub title: String,
    pub svg: String,
}

/// Colours stay with the allocator, whichever subset is shown; the first is ours.
pub fn colour(results: &Results, allocator: &str) -> &'static str {
    let index = results.allocators.iter().position(|a| a.name == allocator).unwrap_or(0);
    let shift = usize::from(results.allocators.first().is_some_and(|a| a.name != OURS));
    PALETTE[(index + shift) % PALETTE.len()]
}

pub fn all(results: &Results) -> Vec<Chart> {
    let heat = |name: &str, title: &str, kinds: &[Kind]| {
        let lines = lines_of(results, kinds);
        (!lines.is_empty()).then(|| Chart {
            name: name.into(),
            title: title.into(),
            svg: heat_map(results, &lines, title),
        })
    };
    let mut charts: Vec<Chart> = Vec::new();
    charts.extend(overview(results));
    charts.extend(heat("speed", "Time of each row over the best of the row (1 = best)", &[Kind::Speed, Kind::Latency]));
    charts.extend(heat("memory", "Memory of each row over the leanest of the row (1 = leanest)", &[Kind::Memory]));
    charts.extend(heat("instructions", "Instructions of each row over the fewest (1 = fewest)", &[Kind::Instructions]));
    charts.extend(memory_over_time(results));
    charts.extend(super::curves::all(results));
    charts
}

/// White at 1, through yellow, to red at 3 and above.
fn heat(ratio: f64) -> String {
    let level = ((ratio.max(1.0).ln() / 3f64.ln()).min(1.0) * 2.0).max(0.0);
    let mix = |a: f64, b: f64, t: f64| (a + (b - a) * t).round() as u8;
    let (green, blue) = if level <= 1.0 {
        (mix(255.0, 225.0, level), mix(255.0, 130.0, level))
    } else {
        (mix(225.0, 110.0, level - 1.0), mix(130.0, 90.0, level - 1.0))
    };
    let red = if level <= 1.0 { 255 } else { mix(255.0, 235.0, level - 1.0) };
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn heat_map(results: &Results, lines: &[Line], title: &str) -> String {
    let (left, top, cell_width, cell_height) = (300.0, 120.0, 64.0, 18.0);
    let width = left + cell_width * results.allocators.len() as f64 + 70.0;
    let mut svg = Svg::new(width, top + cell_height * lines.len() as f64 + 16.0);
    svg.text(10.0, 22.0, 15.0, Anchor::Start, "#111", title);
    for (i, allocator) in results.allocators.iter().enumerate() {
        svg.slanted_text(left + cell_width * (i as f64 + 0.4), top - 6.0, 12.0, &allocator.name);
    }
    for (j, line) in lines.iter().enumerate() {
        let y = top + cell_height * j as f64;
        svg.text(left - 8.0, y + 13.0, 11.0, Anchor::End, "#222", &format!("{} ({})", line.label(), line.metric.unit));
        for (i, cell) in line.cells(results).iter().enumerate() {
            let x = left + cell_width * i as f64;
            let (fill, text) = match cell.ratio {
                Some(ratio) => (heat(ratio), if ratio < 9.95 { format!("{ratio:.2}") } else { short(ratio) }),
                None => ("#cccccc".into(), if cell.failure.is_some() { "fail".into() } else { "-".to_string() }),
            };
            let about = cell.summary.map_or_else(
                || cell.failure.clone().unwrap_or_default(),
                |s| {
                    format!(
                        "{} {}: {} ({} to {})",
                        cell.allocator,
                        line.metric.unit,
                        short(s.median),
                        short(s.low),
                        short(s.high)
                    )
                },
            );
            svg.rect(x, y, cell_width - 1.0, cell_height - 1.0, &fill, &about);
            svg.text(
                x + cell_width / 2.0,
                y + 13.0,
                11.0,
                Anchor::Middle,
                if cell.best { "#0a6b0a" } else { "#333" },
                &text,
            );
        }
    }
    svg.finish()
}

/// Geometric means over the best peer, time and memory, two bars an allocator.
fn overview(results: &Results) -> Option<Chart> {
    let mean = |kinds: &[Kind], name: &str| {
        let lines = lines_of(results, kinds);
        mean_ratio(results, &lines, name, |l| l.best_peer(results).map(|b| b.1))
    };
    let rows: Vec<_> = results
        .allocators
        .iter()
        .map(|a| (a.name.as_str(), mean(&[Kind::Speed], &a.name), mean(&[Kind::Memory], &a.name)))
        .collect();
    let most = rows.iter().flat_map(|r| [r.1, r.2]).flatten().map(|m| m.0).fold(1.0, f64::max).min(4.0);
    if rows.iter().all(|r| r.1.is_none()) {
        return None;
    }
    let title = "Time and memory over the best peer of each row, geometric mean over all rows (less is better)";
    let (left, height, scale) = (140.0, 40.0, 510.0 / most);
    let mut svg = Svg::new(820.0, 60.0 + height * rows.len() as f64);
    svg.text(10.0, 22.0, 15.0, Anchor::Start, "#111", title);
    for (i, (name, speed, memory)) in rows.iter().enumerate() {
        let y = 42.0 + height * i as f64;
        svg.text(left - 8.0, y + 19.0, 13.0, Anchor::End, "#222", name);
        for (k, (what, value)) in [("time", speed), ("memory", memory)].into_iter().enumerate() {
            let Some((mean, count)) = value else { continue };
            let fill = if k == 0 { colour(results, name) } else { "#b8b8b8" };
            let at = y + 15.0 * k as f64;
            svg.rect(left, at, mean.min(4.0) * scale, 13.0, fill, &format!("{what}: {mean:.3} over {count} rows"));
            svg.text(
                left + mean.min(4.0) * scale + 5.0,
                at + 11.0,
                11.0,
                Anchor::Start,
                "#333",
                &format!("{} {what}, {count} rows", short(*mean)),
            );
        }
    }
    svg.line((left + scale, 36.0), (left + scale, 50.0 + height * rows.len() as f64), "#888", 1.0);
    Some(Chart { name: "overview".into(), title: title.into(), svg: svg.finish() })
}

/// One chart for each row that is about memory over time, and for each real program.
fn memory_over_time(results: &Results) -> Vec<Chart> {
    let rows = results.rows.iter().filter(|r| ["memory over time", "real programs"].contains(&r.group.as_str()));
    let chart = |row: &super::model::Row| {
        let curve = |name: &str| {
            let mut of_row =
                results.samples.iter().filter(|s| s.row == row.name && s.allocator == name && s.failure.is_none());
            let sample = of_row.find(|s| s.round <= 1 && s.series.len() > 1)?;
            Some((name.to_string(), sample.series.iter().map(|(ms, kib)| (ms / 1e3, kib / 1024.0)).collect()))
        };
        let curves: Vec<(String, Vec<(f64, f64)>)> = results.allocators.iter().filter_map(|a| curve(&a.name)).collect();
        let title = format!("{}: resident memory, MiB over seconds", row.name);
        let name = super::curves::file_name(&format!("rss {}", row.name));
        (!curves.is_empty()).then(|| Chart { name, svg: super::curves::plot(results, &title, &curves, false), title })
    };
    rows.filter_map(chart).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::sample_results;

    #[test]
    fn heat_grows_from_white_to_red() {
        assert_eq!(heat(1.0), "#ffffff");
        assert_eq!(heat(3.0), heat(100.0));
    }

    #[test]
    fn a_run_has_charts() {
        let results = sample_results();
        let names: Vec<String> = all(&results).into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["overview", "speed"]);
    }
}
