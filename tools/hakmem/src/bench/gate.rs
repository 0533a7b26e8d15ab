// SPDX-License-Identifier: MIT
//! The regression gate: hakmem's cost over the fast peers' mean, row by row, against the ratios on record.

use super::figures::Line;
use super::model::{Kind, Results, OURS};
use super::table::align;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// How far a ratio may rise above the one on record.
const ALLOWED: f64 = 1.10;

#[derive(Debug, Serialize, Deserialize, PartialEq)]
pub struct Baseline {
    pub date: String,
    /// Row to hakmem's cost over the geometric mean of the fast peers' costs.
    pub ratios: BTreeMap<String, f64>,
}

pub fn ratios(results: &Results) -> BTreeMap<String, f64> {
    let lines = Line::all(results);
    let speed = lines.iter().filter(|l| l.metric.kind == Kind::Speed);
    let ratio = |line: &Line| Some((line.row.name.clone(), line.cost(results, OURS)? / line.peers_mean(results)?));
    speed.filter_map(ratio).collect()
}

pub fn load(path: &Path) -> Result<Baseline> {
    let text = std::fs::read_to_string(path)
        .context("there is no bench/baseline.json yet: record one with --update-baseline")?;
    serde_json::from_str(&text).context("bench/baseline.json is damaged")
}

impl Baseline {
    /// Only what this run set out to measure.
    pub fn of_rows(mut self, results: &Results) -> Baseline {
        self.ratios.retain(|name, _| results.rows.iter().any(|r| r.name == *name));
        self
    }
}

/// Rows that this run did not measure keep the ratio they have.
pub fn save(path: &Path, results: &Results) -> Result<()> {
    let mut kept = load(path).map(|b| b.ratios).unwrap_or_default();
    let rounded: BTreeMap<String, f64> =
        ratios(results).into_iter().map(|(k, v)| (k, (v * 1000.0).round() / 1000.0)).collect();
    kept.extend(rounded);
    let baseline = Baseline { date: results.date.clone(), ratios: kept };
    std::fs::write(path, serde_json::to_string_pretty(&baseline)? + "\n").context("cannot write bench/baseline.json")
}

/// Of two measurements the better one: noise makes a row slower, hardly ever faster.
pub fn better_of(mut a: BTreeMap<String, f64>, b: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    for (row, ratio) in b {
        a.entry(row).and_modify(|r| *r = r.min(ratio)).or_insert(ratio);
    }
    a
}

/// The table, and the rows that fell behind.
pub fn judge(baseline: &Baseline, now: &BTreeMap<String, f64>) -> (String, Vec<String>) {
    let mut rows = vec![["row", "on record", "now", "verdict"].map(String::from).to_vec()];
    let mut behind = Vec::new();
    for (row, recorded) in &baseline.ratios {
        let (shown, verdict) = match now.get(row) {
            None => ("-".to_string(), "not measured"),
            Some(ratio) if *ratio > recorded * ALLOWED => (format!("{ratio:.3}"), "BEHIND"),
            Some(ratio) => (format!("{ratio:.3}"), "ok"),
        };
        if verdict != "ok" {
            behind.push(row.clone());
        }
        rows.push(vec![row.clone(), format!("{recorded:.3}"), shown, verdict.into()]);
    }
    (align(&rows), behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::sample_results;

    fn baseline(ratio: f64) -> Baseline {
        Baseline { date: "2026-01-01".into(), ratios: BTreeMap::from([("r".to_string(), ratio)]) }
    }

    #[test]
    fn within_ten_percent_passes() {
        let now = ratios(&sample_results());
        assert!(judge(&baseline(now["r"] / 1.09), &now).1.is_empty());
    }

    #[test]
    fn beyond_ten_percent_fails() {
        let now = ratios(&sample_results());
        assert_eq!(judge(&baseline(now["r"] / 1.11), &now).1, vec!["r".to_string()]);
    }

    #[test]
    fn the_better_of_two_measurements_counts() {
        let of = |ratio: f64| BTreeMap::from([("r".to_string(), ratio)]);
        assert_eq!(better_of(of(1.2), of(1.0)), of(1.0));
        assert_eq!(better_of(of(1.0), of(1.2)), of(1.0));
        assert_eq!(better_of(BTreeMap::new(), of(1.2)), of(1.2));
    }

    #[test]
    fn a_row_that_was_not_measured_fails() {
        assert_eq!(judge(&baseline(1.0), &BTreeMap::new()).1, vec!["r".to_string()]);
    }

    #[test]
    fn the_baseline_survives_saving() {
        let path = std::env::temp_dir().join(format!("hakmem-baseline-{}.json", std::process::id()));
        save(&path, &sample_results()).unwrap();
        assert!((load(&path).unwrap().ratios["r"] - 0.8).abs() < 0.01);
        std::fs::write(&path, "{").unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("damaged"));
        std::fs::remove_file(path).unwrap();
    }
}
