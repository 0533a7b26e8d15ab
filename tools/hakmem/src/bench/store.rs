// SPDX-License-Identifier: MIT
//! The result folder: runs.json holds everything, the CSV files are for other tools.

use super::figures::Line;
use super::model::Results;
use super::stats::Summary;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// bench/results/DATE-HOST, with a number behind it when that is taken.
pub fn new_folder(root: &Path, results: &Results) -> PathBuf {
    let base = format!("{}-{}", results.date, results.host);
    let base = if results.suite == super::suite::FULL { base } else { format!("{base}-{}", results.suite) };
    let parent = root.join("bench/results");
    let numbered = (2..).map(|n| parent.join(format!("{base}-{n}")));
    std::iter::once(parent.join(&base)).chain(numbered).find(|p| !p.exists()).unwrap_or(parent)
}

/// Makes the folder; fails when nothing can be written there, which would be known an hour later otherwise.
pub fn make_writable(folder: &Path) -> Result<()> {
    let trial = folder.join(format!(".hakmem-{}", std::process::id()));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&trial, "\n"));
    let _ = std::fs::remove_file(&trial);
    written.with_context(|| format!("cannot write to the folder {}", folder.display()))
}

pub fn save(results: &Results, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let json = serde_json::to_string(results)?;
    // One sample a line: readable, and a difference shows what changed.
    let json = json.replace("{\"row\":", "\n{\"row\":").replace("{\"name\":", "\n{\"name\":");
    replace(&folder.join("runs.json"), json + "\n")?;
    save_runs(results, &folder.join("runs.csv"))?;
    save_summary(results, &folder.join("summary.csv"))?;
    save_series(results, &folder.join("rss-over-time.csv"))
}

/// Whoever interrupts us finds the file as it was before or as it is now.
fn replace(path: &Path, text: String) -> Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path)).context("cannot write runs.json")
}

pub fn load(folder: &Path) -> Result<Results> {
    let path = folder.join("runs.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("{} is no result folder", folder.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
}

fn save_runs(results: &Results, path: &Path) -> Result<()> {
    let mut csv = csv::Writer::from_path(path)?;
    csv.write_record(["row", "allocator", "round", "busy", "repeats", "failure", "field", "value"])?;
    for s in &results.samples {
        let common =
            [s.row.clone(), s.allocator.clone(), s.round.to_string(), s.busy.to_string(), s.repeats.to_string()];
        let common = || common.iter().map(String::as_str);
        if let Some(failure) = &s.failure {
            csv.write_record(common().chain([failure.as_str(), "", ""]))?;
        }
        for (field, value) in &s.fields {
            csv.write_record(common().chain(["", field.as_str(), value.to_string().as_str()]))?;
        }
    }
    csv.flush().context("cannot write runs.csv")
}

fn save_summary(results: &Results, path: &Path) -> Result<()> {
    let mut csv = csv::Writer::from_path(path)?;
    csv.write_record(["row", "unit", "kind", "better", "allocator", "median", "lowest", "highest", "runs", "failure"])?;
    for line in Line::all(results) {
        for allocator in &results.allocators {
            let head = [
                line.row.name.clone(),
                line.metric.unit.clone(),
                word(&line.metric.kind),
                word(&line.metric.better),
                allocator.name.clone(),
            ];
            let tail = match Summary::of(&results.values(&line.row.name, line.metric, &allocator.name)) {
                Some(s) => {
                    [s.median.to_string(), s.low.to_string(), s.high.to_string(), s.count.to_string(), String::new()]
                }
                None => [
                    String::new(),
                    String::new(),
                    String::new(),
                    "0".into(),
                    results.failure(&line.row.name, &allocator.name).unwrap_or_default(),
                ],
            };
            csv.write_record(head.iter().chain(&tail))?;
        }
    }
    csv.flush().context("cannot write summary.csv")
}

fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(String::from)).unwrap_or_default()
}

fn save_series(results: &Results, path: &Path) -> Result<()> {
    let mut csv = csv::Writer::from_path(path)?;
    csv.write_record(["row", "allocator", "round", "ms", "rss_kib"])?;
    for s in results.samples.iter().filter(|s| !s.series.is_empty() && s.round <= 1) {
        for (ms, kib) in &s.series {
            csv.write_record([&s.row, &s.allocator, &s.round.to_string(), &format!("{ms:.0}"), &kib.to_string()])?;
        }
    }
    csv.flush().context("cannot write rss-over-time.csv")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::sample_results;

    #[test]
    fn results_survive_saving() {
        let folder = std::env::temp_dir().join(format!("hakmem-store-{}", std::process::id()));
        let results = sample_results();
        save(&results, &folder).unwrap();
        let back = load(&folder).unwrap();
        assert_eq!(back.samples.len(), results.samples.len());
        assert_eq!(back.rows[0].name, results.rows[0].name);
        let csv = std::fs::read_to_string(folder.join("summary.csv")).unwrap();
        assert!(csv.lines().count() > 2);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = load(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all is no result folder"));
    }
}
