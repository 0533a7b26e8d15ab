// SPDX-License-Identifier: MIT
//! The lines that workloads, the launcher and the proof write.

use std::collections::BTreeMap;
use std::path::Path;

/// `name=value` pairs of a line; anything else in it is an error.
pub fn pairs(line: &str) -> Result<BTreeMap<String, f64>, String> {
    let mut fields = BTreeMap::new();
    for word in line.split_whitespace() {
        let (name, text) = word.split_once('=').ok_or_else(|| format!("'{word}' is not name=value"))?;
        let value: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
        if name.is_empty() || fields.insert(name.to_string(), value).is_some() {
            return Err(format!("'{name}' is no name, or comes twice"));
        }
    }
    Ok(fields)
}

#[derive(Debug, Default, PartialEq)]
pub struct Output {
    pub fields: BTreeMap<String, f64>,
    /// (milliseconds, KiB) of the "series:" lines.
    pub series: Vec<(f64, f64)>,
}

/// The result line of a workload and its series, if it has one.
pub fn workload_output(text: &str) -> Result<Output, String> {
    let mut output = Output::default();
    let mut results = 0;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("result:") {
            output.fields = pairs(rest)?;
            results += 1;
        } else if let Some(rest) = line.strip_prefix("series:") {
            output.series.push(series_point(rest)?);
        }
    }
    match results {
        1 => Ok(output),
        0 => Err("no result line".into()),
        n => Err(format!("{n} result lines")),
    }
}

fn series_point(text: &str) -> Result<(f64, f64), String> {
    let numbers: Vec<f64> = text.split_whitespace().map_while(|w| w.parse().ok()).collect();
    match numbers[..] {
        [time, resident, ..] => Ok((time, resident)),
        _ => Err(format!("'{text}' is not a series point")),
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    pub malloc: String,
    pub free: String,
    pub new: String,
}

pub fn proofs(text: &str) -> Vec<Proof> {
    text.lines().filter_map(|line| line.strip_prefix("allocator-proof: ")).filter_map(proof).collect()
}

fn proof(line: &str) -> Option<Proof> {
    let field = |name: &str| {
        let word = line.split_whitespace().find(|w| w.starts_with(name))?;
        Some(word[name.len()..].to_string())
    };
    Some(Proof { malloc: field("malloc=")?, free: field("free=")?, new: field("new=")? })
}

/// The highest of the peaks that the processes under the allocator wrote as they ended.
pub fn peak_kib(text: &str) -> Option<f64> {
    let peaks = text.lines().filter_map(|line| line.strip_prefix("allocator-peak: ")?.trim().parse().ok());
    peaks.max_by(f64::total_cmp)
}

impl Proof {
    /// File names only, for the results.
    pub fn shown(&self) -> String {
        let name =
            |path: &str| Path::new(path).file_name().map_or_else(|| path.into(), |n| n.to_string_lossy().into_owned());
        format!("malloc={} free={} new={}", name(&self.malloc), name(&self.free), name(&self.new))
    }

    /// Does the allocator's library serve this process? An operator new of the C++ runtime, or of the program itself,
    /// calls malloc, and so the library too.
    pub fn check(&self, library: &Path) -> Result<(), String> {
        let same = |path: &str| {
            let found = Path::new(path).canonicalize().ok();
            found.is_some() && found == library.canonicalize().ok()
        };
        let through_malloc = |path: &str| {
            path == "none" || path.contains("libstdc++") || path.contains("libc++") || !path.contains(".so")
        };
        if !same(&self.malloc) || !same(&self.free) || !(same(&self.new) || through_malloc(&self.new)) {
            return Err(format!("another allocator ran: {}", self.shown()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_line_is_read() {
        let out = workload_output("hello\nseries: 0 100 0\nseries: 50 90 0\nresult: ops=10 ns_per_op=1.5e2\n").unwrap();
        assert_eq!(out.fields["ns_per_op"], 150.0);
        assert_eq!(out.series, vec![(0.0, 100.0), (50.0, 90.0)]);
    }

    #[test]
    fn bad_output_is_refused_with_a_reason() {
        assert_eq!(workload_output("nothing"), Err("no result line".into()));
        assert_eq!(workload_output("result: a=1\nresult: a=1"), Err("2 result lines".into()));
        assert!(workload_output("result: a=x").unwrap_err().contains("not a number"));
        assert!(workload_output("result: a").unwrap_err().contains("not name=value"));
        assert!(workload_output("result: a=1 a=2").unwrap_err().contains("twice"));
        assert!(workload_output("series: x\nresult: a=1").unwrap_err().contains("series"));
    }

    #[test]
    fn a_proof_names_three_objects() {
        let found = proofs("x\nallocator-proof: malloc=/a/l.so free=/a/l.so new=none\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].shown(), "malloc=l.so free=l.so new=none");
        assert!(proofs("allocator-proof: malloc=/a").is_empty());
    }

    #[test]
    fn the_highest_peak_is_found() {
        assert_eq!(peak_kib("allocator-peak: 10\nx\nallocator-peak: 200\nallocator-peak: 30\n"), Some(200.0));
        assert_eq!(peak_kib("allocator-proof: malloc=/a"), None);
    }

    #[test]
    fn the_wrong_library_is_caught() {
        let me = std::env::current_exe().unwrap();
        let path = me.to_string_lossy().into_owned();
        let right = Proof { malloc: path.clone(), free: path.clone(), new: "none".into() };
        assert!(right.check(&me).is_ok());
        let wrong_free = Proof { free: "/lib/libc.so.6".into(), ..right.clone() };
        assert!(wrong_free.check(&me).is_err());
        let wrong_new = Proof { new: "/other/libx.so".into(), ..right.clone() };
        assert!(wrong_new.check(&me).is_err());
        let runtime_new = Proof { new: "/usr/lib/libstdc++.so.6".into(), ..right };
        assert!(runtime_new.check(&me).is_ok());
    }
}
