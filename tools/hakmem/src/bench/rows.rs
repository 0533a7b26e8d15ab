// SPDX-License-Identifier: MIT
//! The rows of the suite: each a load, its arguments, and the figures to take from it.

use super::model::{Better, Kind, Metric, Row, Target};
use super::programs;

/// Timed rows need to be long enough for a clock, and short enough for five rounds of a dozen allocators.
const USUAL_TIMEOUT_S: u64 = 30;
/// What most rows take, for the plan of the time; rows that take longer say so.
const USUAL_TIME_S: f64 = 0.14;
const CROSSING: &str = "blocks that change threads";

pub fn row(name: &str, group: &str, target: Target, arguments: &str) -> Row {
    Row {
        name: name.into(),
        group: group.into(),
        target,
        arguments: arguments.split_whitespace().map(String::from).collect(),
        environment: Vec::new(),
        needs: Vec::new(),
        metrics: Vec::new(),
        quick: false,
        apart: false,
        gate: false,
        warm_mib: 64,
        timeout_s: USUAL_TIMEOUT_S,
        takes_s: USUAL_TIME_S,
        only_ours: false,
        of_heaps: false,
        memory_round: false,
        thread_argument: None,
    }
}

fn workload(name: &str, group: &str, program: &str, arguments: &str) -> Row {
    row(name, group, Target::Workload(program.into()), arguments)
}

impl Row {
    fn metric(mut self, field: &str, unit: &str, divisor: f64, better: Better, kind: Kind) -> Self {
        self.metrics.push(Metric::new(field, unit, divisor, better, kind));
        self
    }

    fn mops(self) -> Self {
        self.metric("ops_per_s", "Mops/s", 1e6, Better::Higher, Kind::Speed).peak()
    }

    fn ns(self) -> Self {
        self.metric("ns_per_op", "ns", 1.0, Better::Lower, Kind::Speed).peak()
    }

    fn us(self) -> Self {
        self.metric("ns_per_op", "us", 1e3, Better::Lower, Kind::Speed).peak()
    }

    fn wall(self) -> Self {
        self.metric("wall_s", "s", 1.0, Better::Lower, Kind::Speed).peak()
    }

    fn peak(self) -> Self {
        self.memory("peak_kib", "MiB", 1024.0).resident()
    }

    /// What smaps says, read by the workload right after its timed part.
    fn resident(self) -> Self {
        let figure = |row: Self, name: &str, unit: &str| {
            row.metric(&format!("end_{name}_kib"), unit, 1024.0, Better::Lower, Kind::Beside)
        };
        figure(figure(figure(self, "rss", "MiB RSS"), "pss", "MiB PSS"), "lazyfree", "MiB LazyFree")
    }

    fn memory(self, field: &str, unit: &str, divisor: f64) -> Self {
        self.metric(field, unit, divisor, Better::Lower, Kind::Memory)
    }

    fn quick(mut self) -> Self {
        self.quick = true;
        self
    }

    fn gated(mut self) -> Self {
        self.gate = true;
        self.quick()
    }

    fn threads_at(mut self, argument: usize) -> Self {
        self.thread_argument = Some(argument);
        self
    }

    fn warm(mut self, mib: usize) -> Self {
        self.warm_mib = mib;
        self
    }

    fn takes(mut self, seconds: f64) -> Self {
        self.takes_s = seconds;
        self
    }

    fn only_ours(mut self) -> Self {
        self.only_ours = true;
        self
    }

    fn of_heaps(mut self) -> Self {
        self.of_heaps = true;
        self
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }
}

/// Every row of the full suite, in the order of the tables.
pub fn all() -> Vec<Row> {
    let groups = [
        small(),
        pairs(),
        batches(),
        containers(),
        large(),
        threads(),
        remote(),
        classic(),
        scaling(),
        latency(),
        memory(),
        heaps(),
        programs::all(),
        options(),
        instructions(),
    ];
    groups.into_iter().flatten().collect()
}

fn small() -> Vec<Row> {
    let random = |name: &str, arguments: &str| workload(name, "random sizes", "random_mixed", arguments).mops();
    vec![
        random("random_mixed 1M ws 256", "1000000 256 42"),
        random("random_mixed 10M ws 256", "10000000 256 42").gated(),
        random("random_mixed 10M ws 4096", "10000000 4096 42").gated(),
        random("random_mixed 10M ws 65536", "10000000 65536 42").takes(0.55),
        random("random_mixed 4M ws 1000000", "4000000 1000000 42").warm(384).takes(0.9),
    ]
}

fn pairs() -> Vec<Row> {
    let pair = |name: &str, arguments: &str| workload(name, "malloc and free at once", "fixed_pairs", arguments).ns();
    vec![
        pair("pair 16 B", "16 15000000 200").gated().takes(0.17),
        pair("pair 64 B", "64 15000000 200").takes(0.17),
        pair("pair 256 B", "256 15000000 200").takes(0.17),
        pair("pair 1 KiB", "1024 15000000 200").gated().takes(0.22),
        pair("pair 4 KiB", "4096 8000000 200"),
        pair("pair 32 KiB", "32768 3000000 200").gated(),
        pair("pair 128 KiB", "131072 2000000 200").takes(0.2),
        pair("pair 1 MiB", "1048576 3000000 200").gated(),
    ]
}

fn batches() -> Vec<Row> {
    let batch = |name: &str, arguments: &str| workload(name, "allocate many, then free", "batch", arguments).ns();
    vec![
        batch("batch lifo 10k", "lifo 10000 16 256 300 42"),
        batch("batch fifo 10k", "fifo 10000 16 256 300 42").gated(),
        batch("batch random 10k", "random 10000 16 256 300 42"),
        batch("batch fifo 500k", "fifo 500000 16 256 3 42").warm(160).takes(0.35),
        batch("batch random 500k", "random 500000 16 256 3 42").warm(160).takes(0.45),
        batch("batch fifo 4-32 KiB", "fifo 2000 4096 32768 50 42 250").warm(160),
    ]
}

fn containers() -> Vec<Row> {
    let churn = |name: &str, program: &str, arguments: &str| {
        workload(name, "strings, trees, containers", program, arguments).ns()
    };
    vec![
        churn("strings in C", "strings_c", "20000 1500000 42").takes(0.18),
        churn("strings in C++", "strings_cpp", "10000 10 42").takes(0.2),
        churn("tree in C", "tree_c", "18 70").gated().takes(0.27),
        churn("tree in C++", "tree_cpp", "100000 200000 42").takes(0.3),
        churn("containers in C", "containers_c", "400 42").takes(0.18),
        churn("containers in C++", "containers_cpp", "250 42").gated().takes(0.28),
        churn("new and delete 2 KiB, aligned to 64", "pairs_cpp", "2048 64 15000000 100").takes(0.1),
    ]
}

fn large() -> Vec<Row> {
    let load =
        |name: &str, program: &str, arguments: &str| workload(name, "large blocks", program, arguments).us().warm(320);
    vec![
        load("realloc doubling to 64 MiB", "realloc_growth", "double 65536 5").gated().takes(0.26),
        load("realloc by 1 % to 64 MiB", "realloc_growth", "percent 65536 2 250").takes(0.65),
        workload("realloc by 100 B to 256 KiB", "large blocks", "realloc_growth", "append 256 2000 80").ns().takes(0.08),
        load("calloc 64 KiB, dirty", "large_calloc", "dirty 64 30000"),
        load("calloc 1 MiB, fresh", "large_calloc", "fresh 1024 3000").gated(),
        load("calloc 1 MiB, dirty", "large_calloc", "dirty 1024 1200"),
        load("calloc 64 MiB, fresh", "large_calloc", "fresh 65536 120 250").takes(0.3),
        load("malloc_large 5-25 MiB", "malloc_large", "20 250 42").takes(0.2),
        load("large_mix 16 KiB-8 MiB", "large_mix", "100 3000 16 8192 42").takes(0.3),
        load("large_mix 1-32 MiB", "large_mix", "20 300 1024 32768 42").takes(0.3),
    ]
}

/// The full suite has no time left for them.
fn live_set(name: &str, group: &str, arguments: &str) -> Row {
    let mut row = workload(name, group, "live_set", arguments).ns().warm(320).threads_at(1).takes(0.2);
    row.apart = true;
    row
}

fn threads() -> Vec<Row> {
    let mid = |name: &str, arguments: &str| {
        workload(name, "threads", "mid_large_mt", arguments).mops().warm(192).threads_at(0)
    };
    let larson = |name: &str, arguments: &str| workload(name, "threads", "larson", arguments).mops().threads_at(6);
    vec![
        mid("mid_large_mt 1 thread, 200k", "1 200000 2048 42 250"),
        mid("mid_large_mt 2 threads, 200k", "2 200000 2048 42 250").gated(),
        mid("mid_large_mt 4 threads, 200k", "4 200000 2048 42 250"),
        mid("mid_large_mt 2 threads, 1M", "2 1000000 2048 42 250"),
        larson("larson 2-32 KiB, 4 threads", "0.5 2048 32768 10000 1 12345 4").warm(1024).takes(0.85),
        larson("larson small, 2 threads", "0.5 8 1000 100 10000 42 2").gated().takes(0.51),
        larson("larson small, 4 threads", "0.3 8 1000 100 10000 42 4").takes(0.31),
        live_set("live_set 2 threads, 16 of 18-250 KiB", "threads", "own 2 100000 16 18432 256000 1 42 200"),
        live_set("live_set 2 threads, 8 of 0.3-3 MiB", "threads", "own 2 100000 8 307200 3145728 0 42 200"),
        live_set("live_set 4 threads, 1,000 of 0.1-64 KiB at once", "threads", "batch 4 100000 1000 100 65536 64 42 200"),
        workload("thread churn", "threads", "thread_churn", "4000 4 100").us().threads_at(1).takes(0.25),
    ]
}

fn remote() -> Vec<Row> {
    let pass = |name: &str, arguments: &str| workload(name, CROSSING, "producer_consumer", arguments).mops();
    let share = |name: &str, program: &str, arguments: &str| {
        workload(name, "false sharing", program, arguments).wall().threads_at(0)
    };
    vec![
        pass("producer/consumer 1x1", "1 1 3000000 16 256 42").gated().takes(0.24),
        pass("producer/consumer 2x2", "2 2 1500000 16 256 42"),
        pass("producer/consumer 4x4", "4 4 700000 16 256 42"),
        pass("producer/consumer 1x3", "1 3 2000000 16 256 42"),
        pass("producer/consumer 3x1", "3 1 700000 16 256 42"),
        pass("producer/consumer 1x1, 1-16 KiB", "1 1 300000 1024 16384 42").takes(0.23),
        live_set(
            "live_set 4 threads, 64 of 18-500 KiB exchanged",
            CROSSING,
            "exchange 4 100000 64 18432 512000 64 42 200",
        ),
        workload("trees that another thread drops", CROSSING, "shared_trees", "4000 8 42").ns().takes(0.08),
        workload("xmalloc_test, 2 threads", CROSSING, "xmalloc_test", "2 0.4 42").mops().threads_at(0).takes(0.41),
        share("cache_scratch, 1 thread", "cache_scratch", "1 1000 8 30000"),
        share("cache_scratch, 2 threads", "cache_scratch", "2 1000 8 30000"),
        share("cache_thrash, 1 thread", "cache_thrash", "1 1000 8 30000"),
        share("cache_thrash, 2 threads", "cache_thrash", "2 1000 8 30000"),
    ]
}

fn classic() -> Vec<Row> {
    let load =
        |name: &str, program: &str, arguments: &str| workload(name, "mixed loads", program, arguments).ns().warm(192);
    vec![
        load("sh6bench, 1 thread", "sh6bench", "1 2000 42").threads_at(0).takes(0.23),
        load("sh6bench, 2 threads", "sh6bench", "2 2000 42").threads_at(0).takes(0.28),
        load("sh8bench, 2 threads", "sh8bench", "2 4000 42").threads_at(0),
        load("alloc_test, 1 thread", "alloc_test", "1 2500000 100000 42").threads_at(0).gated().takes(0.36),
        load("alloc_test, 2 threads", "alloc_test", "2 1200000 100000 42").threads_at(0).takes(0.24),
        load("glibc_simple 128 B", "glibc_simple", "128 4000"),
        load("glibc_thread, 2 threads", "glibc_thread", "2 7000000 42").threads_at(0).takes(0.25),
        load("rptest, 2 threads", "rptest", "2 400 5000 16 8000 42 250").threads_at(0),
        load("rptest, 4 threads", "rptest", "4 200 5000 16 8000 42 250").threads_at(0).takes(0.2),
        load("mstress, 2 threads", "mstress", "2 50000 16 42").threads_at(0).takes(0.24),
        load("mstress, 4 threads", "mstress", "4 50000 8 42").threads_at(0).takes(0.2),
        load("phase change", "phase_change", "20 200000 42").takes(0.32),
        load("burst cycles at 10 Hz", "burst_cycles", "32 5 10 42").takes(0.51),
    ]
}

fn scaling() -> Vec<Row> {
    let live = |name: &str, arguments: &str, warm: usize| {
        workload(name, "cost over live blocks", "live_scaling", arguments).ns().warm(warm)
    };
    vec![
        live("live blocks 10^3", "1000 3000000 42", 64),
        live("live blocks 10^4", "10000 3000000 42", 64),
        live("live blocks 10^5", "100000 1500000 42", 128).takes(0.3),
        live("live blocks 10^6", "1000000 800000 42", 192).takes(0.6),
        live("live blocks 10^7", "10000000 500000 42", 1152).takes(3.2),
    ]
}

fn latency() -> Vec<Row> {
    let times = |name: &str, arguments: &str| {
        let mut row = workload(name, "latency", "latency", arguments).warm(160);
        for field in ["p50_ns", "p99_ns", "p999_ns", "max_ns"] {
            row = row.metric(
                field,
                field.trim_end_matches("_ns").replace("999", "99.9").as_str(),
                1.0,
                Better::Lower,
                Kind::Latency,
            );
        }
        for metric in &mut row.metrics {
            metric.unit = format!("{} ns", metric.unit);
        }
        row.peak()
    };
    let start = workload("start-up of a tiny program", "latency", "startup", "80");
    let start = start.metric("ns_per_op", "us", 1e3, Better::Lower, Kind::Speed);
    vec![
        times("latency, mixed sizes, 20,000 live", "1000000 20000 warm 42").quick().takes(0.28),
        times("latency from the first call", "300000 20000 cold 42"),
        start.memory("tiny_peak_kib", "KiB", 1.0).resident().quick().takes(0.24),
    ]
}

fn memory() -> Vec<Row> {
    let load = |name: &str, program: &str, arguments: &str, warm: usize| {
        workload(name, "memory over time", program, arguments).warm(warm)
    };
    let fragmentation = |name: &str, arguments: &str| {
        load(name, "fragmentation", arguments, 512)
            .memory("ratio_mean", "x live, mean", 1.0)
            .memory("ratio_max", "x live, worst", 1.0)
            .memory("ratio_transition", "x live, worst in between", 1.0)
    };
    let burst = |name: &str, arguments: &str, warm: usize, field: &str, when: &str| {
        load(name, "burst_idle", arguments, warm).memory(field, when, 1024.0).peak()
    };
    vec![
        burst("burst, all freed, idle", "200 all 2 42", 512, "rss_2s_kib", "MiB after 2 s").quick().takes(2.3),
        burst("burst, 90 % freed, idle", "200 scattered 3 42", 512, "rss_3s_kib", "MiB after 3 s")
            .memory("over_floor", "x page floor", 1.0)
            .takes(3.3),
        load("1,000 idle threads", "idle_threads", "1000 1024 2", 1536)
            .memory("kib_per_thread", "KiB/thread", 1.0)
            .peak()
            .takes(3.8),
        fragmentation("fragmentation over phases", "96 5 42").peak().takes(3.3),
        fragmentation("fragmentation, phases of a second", "96 3 42 75").peak().takes(5.0),
        load("survivors", "survivors", "56 12 42", 512)
            .memory("ratio_running", "x live, running", 1.0)
            .memory("ratio_freed", "x survivors, at once", 1.0)
            .memory("ratio_rested", "x survivors, after 3 s", 1.0)
            .peak()
            .takes(5.5),
        load("dense heap 512 MiB", "dense_heap", "512 42", 704).ns().memory("faults", "faults", 1.0).takes(0.5),
    ]
}

/// Heaps of a program's own, and blocks by the dozen.
fn heaps() -> Vec<Row> {
    let heap = |name: &str, arguments: &str| workload(name, "heaps", "heaps", arguments).of_heaps();
    let end = |name: &str, arguments: &str| {
        let mut row = heap(name, arguments).metric("end_ms", "ms", 1.0, Better::Lower, Kind::Speed);
        row.apart = true;
        row.peak().warm(1536).takes(1.6)
    };
    vec![
        end("1 GiB in 10^7 blocks of a heap, its end", "destroy 10000000 107 42"),
        end("1 GiB in 10^7 blocks, freed one by one", "single 10000000 107 42"),
        // So long that threads and heaps do not begin and end for most of it.
        heap("heap churn, 1 thread", "churn 1 1 10000000 42").ns().takes(0.15),
        heap("heap churn, 8 threads, one heap", "churn 8 1 10000000 42").ns().takes(0.1),
        heap("heap churn, 8 threads, a heap each", "churn 8 0 10000000 42").ns().takes(0.1),
        heap("heap churn to 4 KiB, 1 thread", "churn 1 1 250000 42 4096").ns().takes(0.07),
        heap("heaps of 100 blocks", "request 300 100 42").ns(),
        workload("64 blocks of 64 B a call", "heaps", "heaps", "batch 64 64 50000").ns(),
    ]
}

/// What our own options cost or save; no peer has them.
fn options() -> Vec<Row> {
    let with = |name: &str, program: &str, arguments: &str, option: &str, value: &str| {
        workload(name, "hakmem's options", program, arguments).ns().with(option, value).only_ours()
    };
    let level = |value: &str| {
        let name = format!("random_mixed 10M ws 4096, HAKMEM_SAFE={value}");
        with(&name, "random_mixed", "10000000 4096 42", "HAKMEM_SAFE", value)
    };
    let adapt = |value: &str| {
        let name = format!("phase change, HAKMEM_ADAPT={value}");
        with(&name, "phase_change", "40 200000 42", "HAKMEM_ADAPT", value)
    };
    let supply = |option: &str, value: &str| {
        let name = format!("dense heap 512 MiB, {option}={value}");
        with(&name, "dense_heap", "512 42", option, value).warm(704).memory("faults", "faults", 1.0).takes(0.18)
    };
    vec![
        level("0"),
        level("1"),
        level("2").takes(0.8),
        level("3").takes(0.91),
        adapt("on"),
        adapt("off"),
        supply("HAKMEM_HUGE", "off"),
        supply("HAKMEM_HUGE", "force"),
        supply("HAKMEM_PREFAULT", "off"),
        supply("HAKMEM_PREFAULT", "populate"),
    ]
}

fn instructions() -> Vec<Row> {
    let count = |name: &str, program: &str, arguments: &str| {
        let mut row = row(name, "instructions", Target::Callgrind(program.into()), arguments);
        row.warm_mib = 0;
        row.takes_s = 0.7;
        // Valgrind does not know how our helper thread is started.
        let row = row.with("HAKMEM_BACKGROUND", "off");
        row.metric("instructions", "instr.", 1.0, Better::Lower, Kind::Instructions)
    };
    vec![
        count("instructions: pair 64 B", "fixed_pairs", "64 {iterations}"),
        count("instructions: pair 1 KiB", "fixed_pairs", "1024 {iterations}"),
        count("instructions: pair 32 KiB", "fixed_pairs", "32768 {iterations}"),
        count("instructions: random_mixed ws 256", "random_mixed", "{iterations} 256 42"),
        count("instructions: random_mixed ws 4096", "random_mixed", "{iterations} 4096 42"),
        count("instructions: mid_large_mt", "mid_large_mt", "1 {iterations} 256 42"),
        count("instructions: live blocks 10^4", "live_scaling", "10000 {iterations} 42"),
        count("instructions: strings in C", "strings_c", "2000 {iterations} 42"),
    ]
}

/// The rows of the scaling curve: every threaded row at every count, instead of the counts it usually has.
pub fn at_thread_counts(rows: Vec<Row>, counts: &[u32]) -> Vec<Row> {
    let mut seen: Vec<String> = Vec::new();
    let mut scaled = Vec::new();
    for row in rows {
        let (Some(at), plain) = (row.thread_argument, without_count(&row.name)) else { continue };
        if seen.contains(&plain) {
            continue;
        }
        // A block cannot change threads with one.
        let possible = counts.iter().filter(|count| row.group != CROSSING || **count > 1);
        scaled.extend(possible.map(|count| at_count(&row, &plain, at, *count)));
        seen.push(plain);
    }
    scaled
}

fn at_count(row: &Row, plain: &str, argument: usize, count: u32) -> Row {
    let mut scaled = row.clone();
    scaled.arguments[argument] = count.to_string();
    scaled.name = format!("{plain} @ {count} threads");
    scaled
}

/// "larson small, 2 threads" without its thread count: "larson small".
fn without_count(name: &str) -> String {
    let words: Vec<&str> = name.split(' ').collect();
    let is_unit = |i: usize| i > 0 && words[i].starts_with("thread") && words[i - 1].parse::<u32>().is_ok();
    let kept = (0..words.len()).filter(|i| !(is_unit(*i) || (i + 1 < words.len() && is_unit(i + 1))));
    kept.map(|i| words[i]).collect::<Vec<_>>().join(" ").trim_end_matches(',').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_every_row_has_a_figure() {
        let rows = all();
        let names: HashSet<&str> = rows.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names.len(), rows.len());
        assert!(rows.iter().all(|r| !r.metrics.is_empty()));
    }

    #[test]
    fn rows_that_sleep_run_side_by_side() {
        let sleeps = |r: &&Row| r.group == "memory over time" && r.takes_s > 2.0;
        let names: Vec<String> = all().iter().filter(sleeps).map(|r| r.name.clone()).collect();
        assert_eq!(names.len(), 6, "{names:?}");
        assert!(all().iter().filter(sleeps).all(|r| !r.depends_on_load()));
    }

    #[test]
    fn every_row_has_its_memory_from_smaps() {
        let counts = |r: &&Row| r.metrics.iter().any(|m| m.kind == Kind::Instructions);
        let of_smaps = |m: &&Metric| ["rss_", "pss_", "lazyfree_"].iter().any(|s| m.field.contains(s));
        let measured = |r: &Row| r.metrics.iter().filter(of_smaps).filter(|m| m.kind == Kind::Beside).count() == 3;
        assert!(all().iter().filter(|r| !counts(r)).all(measured));
    }

    #[test]
    fn gated_rows_are_quick_rows() {
        assert!(all().iter().filter(|r| r.gate).all(|r| r.quick));
        assert!(all().iter().filter(|r| r.gate).count() >= 10);
    }

    #[test]
    fn thread_counts_replace_the_argument() {
        let rows = at_thread_counts(all(), &[1, 8]);
        let eight = rows.iter().find(|r| r.name == "sh6bench @ 8 threads").unwrap();
        assert_eq!(eight.arguments[0], "8");
        let names: HashSet<&str> = rows.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names.len(), rows.len());
        assert!(!names.contains("xmalloc_test @ 1 threads") && names.contains("xmalloc_test @ 8 threads"));
    }

    #[test]
    fn a_count_leaves_the_name() {
        assert_eq!(without_count("larson small, 2 threads"), "larson small");
        assert_eq!(without_count("mid_large_mt 1 thread, 200k"), "mid_large_mt 200k");
        assert_eq!(without_count("thread churn"), "thread churn");
    }
}
