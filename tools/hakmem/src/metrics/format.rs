// SPDX-License-Identifier: MIT
//! The text of OpenMetrics 1.0, and that of Prometheus 0.0.4, which node_exporter reads.

use crate::attach::snapshot::{Class, Snapshot};
use crate::lists::{Statistic, STATISTICS};
use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Format {
    OpenMetrics,
    Prometheus,
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A process at one moment.
pub struct Source {
    pub pid: i32,
    pub comm: String,
    pub cgroup: String,
    pub version: String,
    pub snapshot: Snapshot,
}

/// A metric: what it is called, what it is, and its samples' labels and values.
struct Family {
    name: String,
    help: String,
    unit: &'static str,
    counter: bool,
    samples: Vec<(String, u64)>,
}

/// What goes up and down; all others only go up.
const GAUGES: [&str; 12] = [
    "mapped",
    "resident",
    "live",
    "untouched",
    "cached",
    "fragmented",
    "huge_page_waste",
    "retained",
    "metadata",
    "peak_mapped",
    "superslabs_now",
    "heaps_now",
];
const LIMITS: [(&str, &str); 2] = [("limit_soft", "soft"), ("limit_hard", "hard")];

pub fn text(sources: &[Source], refused: Option<usize>, format: Format) -> String {
    let mut text = String::new();
    for family in families(sources, refused).iter().filter(|family| !family.samples.is_empty()) {
        write(&mut text, family, format);
    }
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

fn families(sources: &[Source], refused: Option<usize>) -> Vec<Family> {
    let mut all = vec![info(sources), refusals(refused)];
    let shown = |statistic: &&Statistic| LIMITS.iter().all(|limit| limit.0 != statistic.field);
    all.extend(STATISTICS.iter().filter(shown).map(|statistic| of_statistic(statistic, sources)));
    all.push(limits(sources));
    all.push(of_classes("allocations", "blocks up to 256 KiB allocated", sources, |class| class.alloc_count));
    all.push(of_classes("frees", "blocks up to 256 KiB freed", sources, |class| class.free_local + class.free_remote));
    all
}

fn info(sources: &[Source]) -> Family {
    let sample = |source: &Source| (format!("{},version=\"{}\"", labels(source), escaped(&source.version)), 1);
    Family {
        name: "hakmem_process".into(),
        help: "a process that runs hakmem".into(),
        unit: "",
        counter: false,
        samples: sources.iter().map(sample).collect(),
    }
}

fn refusals(refused: Option<usize>) -> Family {
    Family {
        name: "hakmem_processes_refused".into(),
        help: "processes of the host that may not be looked into, whether they run hakmem or not".into(),
        unit: "",
        counter: false,
        samples: refused.map(|count| (String::new(), count as u64)).into_iter().collect(),
    }
}

fn of_statistic(statistic: &Statistic, sources: &[Source]) -> Family {
    let value = |source: &Source| Some((labels(source), *source.snapshot.values.get(statistic.field)?));
    let plain = statistic.field.trim_end_matches("_total").trim_end_matches("_bytes");
    let unit = if statistic.bytes { "bytes" } else { "" };
    let ending = if statistic.bytes { "_bytes" } else { "" };
    Family {
        name: format!("hakmem_{plain}{ending}"),
        help: format!("{}: {}", statistic.group, statistic.label.trim()),
        unit,
        counter: !GAUGES.contains(&statistic.field),
        samples: sources.iter().filter_map(value).collect(),
    }
}

fn limits(sources: &[Source]) -> Family {
    let of = |source: &Source| {
        let labels = labels(source);
        let value = |field: &str| source.snapshot.values.get(field).copied().filter(|&bytes| bytes > 0);
        LIMITS.map(|(field, kind)| value(field).map(|bytes| (format!("{labels},kind=\"{kind}\""), bytes)))
    };
    Family {
        name: "hakmem_limit_bytes".into(),
        help: "limits on memory in force: HAKMEM_LIMIT and the control group's".into(),
        unit: "bytes",
        counter: false,
        samples: sources.iter().flat_map(of).flatten().collect(),
    }
}

fn of_classes(name: &str, help: &str, sources: &[Source], value: fn(&Class) -> u64) -> Family {
    let sample = |source: &Source| (labels(source), source.snapshot.classes.iter().map(value).sum());
    Family {
        name: format!("hakmem_{name}"),
        help: help.into(),
        unit: "",
        counter: true,
        samples: sources.iter().map(sample).collect(),
    }
}

fn labels(source: &Source) -> String {
    format!("pid=\"{}\",comm=\"{}\",cgroup=\"{}\"", source.pid, escaped(&source.comm), escaped(&source.cgroup))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn write(text: &mut String, family: &Family, format: Format) {
    let Family { name, help, unit, counter, samples } = family;
    let sample = if *counter { format!("{name}_total") } else { name.clone() };
    let (described, kind) =
        (if format == Format::OpenMetrics { name } else { &sample }, if *counter { "counter" } else { "gauge" });
    let _ = writeln!(text, "# TYPE {described} {kind}");
    if format == Format::OpenMetrics && !unit.is_empty() {
        let _ = writeln!(text, "# UNIT {described} {unit}");
    }
    let _ = writeln!(text, "# HELP {described} {}", escaped(help));
    for (labels, value) in samples {
        let _ = writeln!(text, "{sample}{{{labels}}} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_source() -> Source {
        let mut snapshot = Snapshot::default();
        for (name, value) in
            [("live", 100), ("purged_bytes", 7), ("heaps_total", 3), ("limit_hard", 9), ("limit_soft", 0)]
        {
            snapshot.values.insert(name, value);
        }
        Source { pid: 7, comm: "a \"b\"\\".into(), cgroup: "/x".into(), version: "1.2.3".into(), snapshot }
    }

    #[test]
    fn both_formats_are_as_their_standards_have_them() {
        let open = text(&[a_source()], Some(2), Format::OpenMetrics);
        assert!(open.contains(
            "# TYPE hakmem_live_bytes gauge\n# UNIT hakmem_live_bytes bytes\n# HELP hakmem_live_bytes memory: live\n"
        ));
        assert!(open.contains("hakmem_live_bytes{pid=\"7\",comm=\"a \\\"b\\\"\\\\\",cgroup=\"/x\"} 100\n"), "{open}");
        assert!(open.contains("# TYPE hakmem_purged_bytes counter\n") && open.contains("hakmem_purged_bytes_total{"));
        assert!(open.contains("hakmem_heaps_total{") && open.ends_with("# EOF\n"));
        assert!(open.contains("cgroup=\"/x\",kind=\"hard\"} 9\n") && !open.contains("kind=\"soft\""));
        assert!(open.contains("\nhakmem_processes_refused{} 2\n"), "{open}");
        let classic = text(&[a_source()], Some(2), Format::Prometheus);
        assert!(classic.contains("# TYPE hakmem_purged_bytes_total counter\n") && !classic.contains("# EOF"));
        assert!(!classic.contains("# UNIT"));
    }

    #[test]
    fn what_memory_is_made_of_goes_up_and_down() {
        let of_memory = STATISTICS.iter().filter(|statistic| statistic.group == "memory");
        let counters: Vec<&str> = of_memory.map(|of| of.field).filter(|field| !GAUGES.contains(field)).collect();
        assert!(counters.is_empty(), "{counters:?}");
    }

    #[test]
    fn no_process_is_an_empty_answer() {
        assert_eq!(text(&[], None, Format::OpenMetrics), "# EOF\n");
        assert_eq!(text(&[], None, Format::Prometheus), "");
    }
}
