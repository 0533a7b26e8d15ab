// SPDX-License-Identifier: MIT
//! What a run consists of: allocators, rows with their metrics, and one sample per execution.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// The allocator that the suite exists to measure.
pub const OURS: &str = "hakmem";
/// The version of an allocator that --lib names.
pub const GIVEN: &str = "given by --lib";
/// Who takes part in rows about heaps, beside ours: any thread may use these.
const WITH_HEAPS: [&str; 3] = ["glibc", "mimalloc3", "jemalloc"];

/// Hakmem's own allocators besides: its safety levels above the default, by the value of `HAKMEM_SAFE`.
pub const LEVELS: [(&str, &str); 2] = [("hakmem-safe2", "2"), ("hakmem-safe3", "3")];

/// Peers that are measured only beside these: other builds of what is in the usual run already.
pub const GUARDED_PEERS: [&str; 3] = ["snmalloc-checks", "mimalloc-secure", "hardened-light"];

/// The peers that are fast; figures such as "the leanest of the fast peers" speak of these.
pub const FAST_PEERS: [&str; 7] =
    ["mimalloc3", "mimalloc2", "jemalloc", "snmalloc", "rpmalloc", "tcmalloc", "gperftools"];

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Allocator {
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub note: String,
    /// Why it cannot be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(String, String)>,
    /// Libraries to preload. Paths of this machine stay out of the results.
    #[serde(skip)]
    pub preload: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Lower,
    Higher,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Speed,
    Memory,
    /// What stands beside time and peak: smaps, processor time, page faults. Shown, but no part of the means.
    #[serde(rename = "resident")]
    Beside,
    Latency,
    Instructions,
}

impl Kind {
    pub fn depends_on_load(self) -> bool {
        matches!(self, Kind::Speed | Kind::Latency)
    }
}

/// One figure of a row: a field of its samples, how to show it, and which way is good.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Metric {
    pub field: String,
    pub unit: String,
    /// Shown value = field / divisor.
    pub divisor: f64,
    pub better: Better,
    pub kind: Kind,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Target {
    /// A program under build/bench.
    Workload(String),
    /// A shell script under bench/programs that preloads the allocator into the server it starts.
    Script(String),
    /// A program of the system; `{programs}` and `{workloads}` in arguments name the folders of this suite.
    System(String),
    /// A workload under callgrind, run with two iteration counts; the difference is the figure.
    Callgrind(String),
}

/// A program or file without which a row cannot run, and the Debian package that brings it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Needed {
    pub what: String,
    pub package: String,
}

impl Needed {
    pub fn new(what: &str, package: &str) -> Self {
        Needed { what: what.into(), package: package.into() }
    }

    /// Only what a package brings may be a folder; what a user names is a program.
    pub fn is_there(&self) -> bool {
        if self.what.contains('/') {
            let path = Path::new(&self.what);
            return path.is_file() || (path.is_dir() && !self.package.is_empty());
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(&self.what).is_file())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    pub group: String,
    pub target: Target,
    pub arguments: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Needed>,
    pub metrics: Vec<Metric>,
    pub quick: bool,
    /// Runs only when it is asked for by name or group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
    pub gate: bool,
    /// Memory that the runner touches and gives back before each round.
    pub warm_mib: usize,
    pub timeout_s: u64,
    /// What one run takes, averaged over the allocators, for the plan of the time; of runs side by side, the slowest.
    #[serde(default)]
    pub takes_s: f64,
    /// A row about our own options: no peer takes part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_ours: bool,
    /// A row about heaps of a program's own: only allocators that have some take part, and glibc with a bump arena.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_heaps: bool,
    /// With a round that looks at memory while the program runs; it does not count for speed. Rows that time nothing
    /// are looked at in every round.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub memory_round: bool,
    /// Which argument is the thread count, for the scaling curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_argument: Option<usize>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    pub row: String,
    pub allocator: String,
    /// Round 0 is the memory round: sampled while it runs, so not counted for speed.
    pub round: u32,
    /// The machine was busy with something else, even when the run was repeated.
    pub busy: bool,
    pub repeats: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// It failed, and then ran when tried once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<String>,
    pub fields: BTreeMap<String, f64>,
    /// (milliseconds, resident KiB)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<(f64, f64)>,
    /// Which objects malloc, free and operator new came from, file names only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    pub suite: String,
    pub date: String,
    pub host: String,
    pub rounds: u32,
    pub seconds: f64,
    pub machine: BTreeMap<String, String>,
    pub allocators: Vec<Allocator>,
    pub rows: Vec<Row>,
    /// Rows that did not run, with the reason.
    pub skipped: Vec<(String, String)>,
    pub samples: Vec<Sample>,
}

impl Results {
    /// This run with the rows of another one in place of its own. A row that the other one skipped takes nobody's
    /// place.
    pub fn with(mut self, other: Results) -> anyhow::Result<Results> {
        let names = |r: &Results| r.allocators.iter().map(|a| a.name.clone()).collect::<Vec<_>>();
        if self.host != other.host || names(&self) != names(&other) {
            anyhow::bail!("the run to put rows into is of another machine or of other allocators");
        }
        self.check_same(&other)?;
        let known = |name: &str| self.rows.iter().any(|r| r.name == name);
        let measured = |name: &str| other.samples.iter().any(|s| s.row == name);
        let taken = other.rows.iter().map(|r| r.name.clone()).filter(|name| measured(name) || !known(name));
        let taken: HashSet<String> = taken.collect();
        self.samples.retain(|s| !taken.contains(&s.row));
        self.skipped.retain(|(name, _)| !taken.contains(name));
        self.rows.retain(|r| !taken.contains(&r.name));
        self.samples.extend(other.samples);
        self.skipped.extend(other.skipped.into_iter().filter(|(name, _)| taken.contains(name)));
        self.rows.extend(other.rows.into_iter().filter(|r| taken.contains(&r.name)));
        let order = |row: &Row| super::rows::all().iter().position(|r| r.name == row.name);
        self.rows.sort_by_cached_key(order);
        self.seconds += other.seconds;
        Ok(self)
    }
}

impl Results {
    /// What the machines differ in.
    pub fn other_machine(&self, other: &Results) -> Vec<&str> {
        let differs = |key: &&String| self.machine.get(*key) != other.machine.get(*key) && !key.starts_with("load");
        self.machine.keys().filter(differs).map(String::as_str).collect()
    }

    /// Figures of a table are of one machine, as it was, and of one version of each allocator.
    fn check_same(&self, other: &Results) -> anyhow::Result<()> {
        let had = |of: Option<&String>| of.map_or("nothing".into(), |text| format!("'{text}'"));
        let mut differences: Vec<String> = Vec::new();
        for key in self.other_machine(other) {
            let (then, now) = (had(self.machine.get(key)), had(other.machine.get(key)));
            differences.push(format!("{key} was {then} and is {now}"));
        }
        for (then, now) in self.allocators.iter().zip(&other.allocators) {
            if then.version != now.version && then.missing.is_none() && now.missing.is_none() {
                differences.push(format!("{} was at {} and is at {}", now.name, then.version, now.version));
            }
        }
        anyhow::ensure!(
            differences.is_empty(),
            "the run to put rows into cannot be gone on with: {}; measure all of it anew",
            differences.join(", ")
        );
        Ok(())
    }
}

impl Metric {
    pub fn new(field: &str, unit: &str, divisor: f64, better: Better, kind: Kind) -> Self {
        Metric { field: field.into(), unit: unit.into(), divisor, better, kind }
    }

    /// The figure as a cost: less is better whatever the metric.
    pub fn cost(&self, value: f64) -> f64 {
        match self.better {
            Better::Lower => value,
            Better::Higher => 1.0 / value,
        }
    }
}

impl Row {
    pub fn takes_part(&self, allocator: &Allocator) -> bool {
        let is_ours = allocator.name == OURS;
        match self.of_heaps {
            true => is_ours || WITH_HEAPS.contains(&allocator.name.as_str()) || allocator.version == GIVEN,
            false => is_ours || !self.only_ours,
        }
    }

    /// Whether other work on the machine changes a figure. If not, allocators may run side by side, and be looked at as
    /// they run.
    pub fn depends_on_load(&self) -> bool {
        self.metrics.iter().any(|m| m.kind.depends_on_load())
    }
}

impl Results {
    /// Values of one figure, in the unit shown, of the runs that counted.
    pub fn values(&self, row: &str, metric: &Metric, allocator: &str) -> Vec<f64> {
        self.values_by_round(row, metric, allocator).into_iter().map(|(_, value)| value).collect()
    }

    /// The same with the round of each. A row may have been run more than once in a round.
    pub fn values_by_round(&self, row: &str, metric: &Metric, allocator: &str) -> Vec<(u32, f64)> {
        let of_memory_round = metric.field.starts_with("sampled_");
        self.samples
            .iter()
            .filter(|s| s.row == row && s.allocator == allocator && s.failure.is_none())
            .filter(|s| (s.round == 0) == of_memory_round)
            .filter_map(|s| Some((s.round, s.fields.get(&metric.field)? / metric.divisor)))
            .collect()
    }

    pub fn failure(&self, row: &str, allocator: &str) -> Option<String> {
        let missing = self.allocators.iter().find(|a| a.name == allocator).and_then(|a| a.missing.clone());
        missing.or_else(|| {
            let mut of_row = self.samples.iter().filter(|s| s.row == row && s.allocator == allocator);
            of_row.find_map(|s| s.failure.clone())
        })
    }

    /// Most of these runs shared the machine with other work.
    pub fn mostly_busy(&self, row: &str, allocator: &str) -> bool {
        let timed = self.samples.iter().filter(|s| s.row == row && s.allocator == allocator && s.round > 0);
        let (busy, all) = timed.fold((0, 0), |(b, n), s| (b + u32::from(s.busy), n + 1));
        busy * 2 > all
    }

    /// Whether any run came to its end.
    pub fn has_figures(&self) -> bool {
        self.samples.iter().any(|s| s.failure.is_none())
    }

    pub fn busy_share(&self) -> f64 {
        let timed = self.samples.iter().filter(|s| s.round > 0);
        let (busy, all) = timed.fold((0u32, 0u32), |(b, n), s| (b + u32::from(s.busy), n + 1));
        if all == 0 {
            0.0
        } else {
            f64::from(busy) / f64::from(all)
        }
    }
}
