// SPDX-License-Identifier: MIT
//! The result folder: runs.json.gz holds every sample, summary.csv the medians for other tools.

use super::figures::Line;
use super::model::Results;
use super::stats::Summary;
use anyhow::{Context, Result};
use flate2::{read::GzDecoder, write::GzEncoder, Compression};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

const RAW: &str = "runs.json.gz";
const SUMMARY: &str = "summary.csv";

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
    let json = json.replace("{\"row\":", "\n{\"row\":").replace("{\"name\":", "\n{\"name\":") + "\n";
    save_raw(json.as_bytes(), &folder.join(RAW)).with_context(|| format!("cannot write {RAW}"))?;
    save_summary(results, &folder.join(SUMMARY))
}

/// Whoever interrupts us finds the file as it was before or as it is now.
fn save_raw(json: &[u8], path: &Path) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let mut file = GzEncoder::new(File::create(&new)?, Compression::best());
    file.write_all(json)?;
    file.finish()?;
    std::fs::rename(&new, path)
}

pub fn load(folder: &Path) -> Result<Results> {
    let path = folder.join(RAW);
    let file = File::open(&path).with_context(|| what_is_missing(folder))?;
    let mut json = String::new();
    let read = GzDecoder::new(file).read_to_string(&mut json).map_err(anyhow::Error::from);
    let results = read.and_then(|_| Ok(serde_json::from_str(&json)?));
    results.with_context(|| format!("{} is damaged", path.display()))
}

/// Of older runs the repository keeps the summary alone.
fn what_is_missing(folder: &Path) -> String {
    let shown = folder.display();
    match folder.join(SUMMARY).is_file() {
        true => format!("{shown} has only a summary, and this needs the samples: give a folder with {RAW}"),
        false => format!("{shown} is no result folder"),
    }
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

    /// A kept run is written once: two equal runs make equal files, whatever the time.
    #[test]
    fn a_folder_is_the_raw_data_and_the_summary() {
        let folder = std::env::temp_dir().join(format!("hakmem-store-files-{}", std::process::id()));
        let raw = || {
            save(&sample_results(), &folder).unwrap();
            std::fs::read(folder.join(RAW)).unwrap()
        };
        assert_eq!(raw(), raw());
        let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [RAW, SUMMARY]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = std::env::temp_dir().join(format!("hakmem-store-damaged-{}", std::process::id()));
        save(&sample_results(), &folder).unwrap();
        let raw = std::fs::read(folder.join(RAW)).unwrap();
        std::fs::write(folder.join(RAW), &raw[..raw.len() / 2]).unwrap();
        assert!(load(&folder).unwrap_err().to_string().contains("runs.json.gz is damaged"));
        std::fs::remove_file(folder.join(RAW)).unwrap();
        assert!(load(&folder).unwrap_err().to_string().contains("has only a summary"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = load(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all is no result folder"));
    }
}
