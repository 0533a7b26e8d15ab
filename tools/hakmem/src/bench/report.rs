// SPDX-License-Identifier: MIT
//! report.html: everything on one page that needs nothing else, and the charts as files.

use super::charts::{self, Chart};
use super::figures::{short, Line};
use super::model::{Kind, Results};
use super::svg::escape;
use super::table;
use anyhow::{Context, Result};
use std::path::Path;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1280px;margin:2em auto;padding:0 1em;color:#222;background:#fff}\
table{border-collapse:collapse;font-size:13px;display:block;overflow-x:auto}td,th{padding:2px 8px;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}\
td:first-child,th:first-child{text-align:left}.best{color:#0a6b0a;font-weight:bold}.fail{color:#a00}small{color:#777}svg{max-width:100%;height:auto}h2{margin-top:2em}";

/// Writes report.html and charts/ into the result folder.
pub fn write(results: &Results, folder: &Path) -> Result<()> {
    let charts = charts::all(results);
    let pictures = folder.join("charts");
    std::fs::create_dir_all(&pictures).context("cannot make the charts folder")?;
    for chart in &charts {
        std::fs::write(pictures.join(format!("{}.svg", chart.name)), &chart.svg)?;
    }
    write_scaling(results, &folder.join("scaling.csv"))?;
    std::fs::write(folder.join("report.html"), page(results, &charts)).context("cannot write report.html")
}

/// allocator, row, threads, median: one line a point of the scaling curves.
fn write_scaling(results: &Results, path: &Path) -> Result<()> {
    let groups = super::curves::by_threads(results);
    if groups.is_empty() {
        return Ok(());
    }
    let mut csv = csv::Writer::from_path(path)?;
    csv.write_record(["row", "threads", "allocator", "unit", "median", "lowest", "highest"])?;
    for (name, rows) in &groups {
        for (count, row) in rows {
            let Some(metric) = row.metrics.first() else { continue };
            for allocator in &results.allocators {
                let values = results.values(&row.name, metric, &allocator.name);
                let Some(s) = super::stats::Summary::of(&values) else { continue };
                let numbers = [s.median, s.low, s.high].map(|v| v.to_string());
                csv.write_record([
                    name,
                    &count.to_string(),
                    &allocator.name,
                    &metric.unit,
                    &numbers[0],
                    &numbers[1],
                    &numbers[2],
                ])?;
            }
        }
    }
    csv.flush().context("cannot write scaling.csv")
}

fn page(results: &Results, charts: &[Chart]) -> String {
    let mut html = format!("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>hakmem benchmarks {}</title><style>{STYLE}</style>\n", escape(&results.date));
    html += &format!("<h1>Memory allocators side by side</h1><p>{} suite of {}, {} timed rounds, {:.0} minutes. Every figure is the median of the rounds, \
                      in small print the lowest and the highest; green is the best of the row and whatever cannot be told from it; \
                      ~ marks figures most of whose runs shared the machine with other work.</p>\n",
        escape(&results.suite), escape(&results.date), results.rounds, results.seconds / 60.0);
    html += &facts(results);
    for chart in charts {
        html += &format!("<h2>{}</h2>\n{}\n", escape(&chart.title), chart.svg);
    }
    let sections = [
        ("Speed and latency", vec![Kind::Speed, Kind::Latency]),
        ("Memory", vec![Kind::Memory]),
        ("Beside time and peak: smaps, processor time, page faults", vec![Kind::Beside]),
        ("Instructions", vec![Kind::Instructions]),
    ];
    for (title, kinds) in sections {
        let lines = table::lines_of(results, &kinds);
        if !lines.is_empty() {
            html += &format!("<h2>{title}</h2>\n{}", html_table(results, &lines));
        }
    }
    html += &sampled(results);
    html += &format!("<h2>Remarks</h2><pre>{}</pre></html>\n", escape(&table::remarks(results)));
    html
}

/// What smaps showed while the programs ran, the most that was seen of each: in a round of its own, or in the first
/// round of a row that times nothing.
fn sampled(results: &Results) -> String {
    let fields = ["rss", "pss", "lazyfree", "huge"].map(|f| format!("sampled_{f}_max_kib"));
    let mut html = String::from("<details><summary>Sampled while running, MiB at most: resident, proportional, LazyFree, in huge pages</summary><table><tr><th>row<th>allocator<th>RSS<th>PSS<th>LazyFree<th>huge\n");
    for s in results.samples.iter().filter(|s| s.round <= 1 && s.fields.contains_key(&fields[0])) {
        let cells: String =
            fields.iter().map(|f| format!("<td>{}", short(s.fields.get(f).copied().unwrap_or(0.0) / 1024.0))).collect();
        html += &format!("<tr><td>{}<td>{}{cells}\n", escape(&s.row), escape(&s.allocator));
    }
    html + "</table></details>\n"
}

fn facts(results: &Results) -> String {
    let machine: String =
        results.machine.iter().map(|(k, v)| format!("<tr><td>{}<td>{}", escape(k), escape(v))).collect();
    let allocator = |a: &super::model::Allocator| {
        let environment: Vec<String> = a.environment.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let state = a.missing.as_deref().map_or(String::new(), |m| format!("missing: {m}"));
        format!(
            "<tr><td>{}<td>{}<td>{} {} {}",
            escape(&a.name),
            escape(&a.version),
            escape(&environment.join(" ")),
            escape(&a.note),
            escape(&state)
        )
    };
    let allocators: String = results.allocators.iter().map(allocator).collect();
    format!("<h2>Machine</h2><table>{machine}</table><h2>Allocators</h2><table>{allocators}</table>\n")
}

fn html_table(results: &Results, lines: &[Line]) -> String {
    let heads: String = results.allocators.iter().map(|a| format!("<th>{}", escape(&a.name))).collect();
    let mut html = format!("<table><tr><th>row<th>unit{heads}\n");
    for line in lines {
        html += &format!("<tr><td>{}<td>{}", escape(&line.label()), escape(&line.metric.unit));
        for cell in line.cells(results) {
            html += &match (&cell.summary, &cell.failure) {
                (Some(s), _) => format!(
                    "<td{}>{}{}<br><small>{}-{}</small>",
                    if cell.best { " class=best" } else { "" },
                    short(s.median),
                    if cell.busy { "~" } else { "" },
                    short(s.low),
                    short(s.high)
                ),
                (None, Some(reason)) => format!("<td class=fail title=\"{}\">fail", escape(reason)),
                (None, None) => "<td>-".into(),
            };
        }
        html.push('\n');
    }
    html + "</table>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::sample_results;

    #[test]
    fn the_page_needs_nothing_else() {
        let results = sample_results();
        let html = page(&results, &charts::all(&results));
        assert!(html.contains("<svg") && html.contains("jemalloc") && html.contains("not built"));
        assert!(!html.contains("src=") && !html.contains("href="));
    }
}
