// SPDX-License-Identifier: MIT
//! Command line of `hakmem bench`.

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug, Default)]
pub struct BenchArgs {
    /// The short suite: at most 5 minutes instead of 60
    #[arg(long)]
    pub quick: bool,

    /// Only these allocators, separated by commas; "all" adds the older distribution packages, "guarded" is hakmem's
    /// safety levels and the hardened allocators
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub allocators: Vec<String>,

    /// Only the row of this name, or those whose name contains one of these words, separated by commas
    #[arg(long, value_name = "NAME|WORDS")]
    pub rows: Vec<String>,

    /// Timed rounds per row
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// Run the threaded rows at these thread counts and draw the scaling curve
    #[arg(long, value_delimiter = ',', value_name = "COUNTS", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: Vec<u32>,

    /// Measure another allocator: NAME=/path/to/lib.so (also replaces one of that name), with variables of its own
    /// after commas: on=/path/to/libhakmem.so,HAKMEM_PROFILE=512K
    #[arg(long = "lib", value_name = "NAME=PATH[,VARIABLE=VALUE]", value_parser = parse_lib)]
    pub libs: Vec<Lib>,

    /// Compare two result folders row by row, or two allocators, of one run or of two: FOLDER@NAME. Those of one run
    /// are compared round by round, so that what the machine did meanwhile counts for neither; a verdict
    /// takes six rounds
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["quick", "rows", "program"])]
    pub compare: Vec<String>,

    /// Write the report, charts and summaries of a result folder anew
    #[arg(long, value_name = "RESULTS")]
    pub report: Option<PathBuf>,

    /// Write docs/benchmarks.md from a result folder
    #[arg(long, value_name = "RESULTS")]
    pub docs: Option<PathBuf>,

    /// Write the figures block of README.md from a result folder
    #[arg(long, value_name = "RESULTS")]
    pub readme: Option<PathBuf>,

    /// Run the gate's rows; fail when hakmem is more than 10 % behind bench/baseline.json
    #[arg(long)]
    pub gate: bool,

    /// With --gate: record the present ratios in bench/baseline.json instead of judging them
    #[arg(long, requires = "gate")]
    pub update_baseline: bool,

    /// Check the suite itself with allocators that are slowed, leak, crash or hang
    #[arg(long)]
    pub self_test: bool,

    /// List allocators, rows and the time that these flags would take, and stop
    #[arg(long)]
    pub list: bool,

    /// Result folder (default: bench/results/DATE-HOST)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Put the rows into a run made before on this machine with these versions, in place of what it has of them: rows
    /// that it left out, say
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "quick", "gate", "threads"])]
    pub into: Option<PathBuf>,

    /// Take the workloads and peers as they are; build nothing
    #[arg(long)]
    pub no_build: bool,

    /// Measure this program instead of the suite
    #[arg(last = true, value_name = "PROGRAM ARGS", conflicts_with_all = ["gate", "into", "rows", "threads"])]
    pub program: Vec<String>,
}

/// An allocator that --lib names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lib {
    pub name: String,
    pub path: PathBuf,
    pub environment: Vec<(String, String)>,
}

/// `VARIABLE=VALUE`, as a shell takes it.
fn parse_variable(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| (name.to_string(), value.to_string()))
}

fn parse_lib(text: &str) -> Result<Lib, String> {
    let (name, mut path) = text.split_once('=').ok_or("expected NAME=PATH")?;
    let mut environment = Vec::new();
    while let Some((before, variable)) = path.rsplit_once(',') {
        let Some(variable) = parse_variable(variable) else { break };
        environment.insert(0, variable);
        path = before;
    }
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        return Err(format!("'{name}' is not a name: use letters, digits, '-', '_' and '.'"));
    }
    if path.is_empty() {
        return Err("the path is empty".into());
    }
    Ok(Lib { name: name.to_string(), path: PathBuf::from(path), environment })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_a_name_and_a_path() {
        let lib = |path: &str| Lib { name: "a".into(), path: path.into(), environment: vec![] };
        assert_eq!(parse_lib("a=/b.so"), Ok(lib("/b.so")));
        assert_eq!(parse_lib("a=/b,c.so"), Ok(lib("/b,c.so")), "a comma in a path");
        let variables = vec![("X".into(), "1".into()), ("Y_2".into(), "a=b".into())];
        assert_eq!(parse_lib("a=/b.so,X=1,Y_2=a=b"), Ok(Lib { environment: variables, ..lib("/b.so") }));
        assert!(parse_lib("/b.so").is_err());
        assert!(parse_lib("=x").is_err());
        assert!(parse_lib("a=").is_err());
        assert!(parse_lib("a b=x").is_err());
    }
}
