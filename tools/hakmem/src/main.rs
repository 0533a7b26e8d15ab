// SPDX-License-Identifier: MIT
//! The hakmem command line tool: one verb per job.
#![deny(clippy::print_stdout, clippy::print_stderr)] // module output is for that

mod attach;
mod bench;
mod doctor;
mod failure;
mod flags;
mod heap;
mod image;
mod library;
mod lists;
mod look;
mod manual;
mod metrics;
mod output;
mod program;
mod report;
mod run;
mod serve;
mod signals;
mod symbols;
mod top;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "hakmem",
    version,
    about = "Start programs on the hakmem memory allocator, and look into those that run",
    after_help = failure::EXIT_CODES
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Start a program on hakmem, its options as flags
    Run(Box<run::RunArgs>),
    /// List the processes that run hakmem
    Ps(look::PsArgs),
    /// Show what a process has allocated, cached, and resident; it is neither stopped nor changed
    Stats(look::StatsArgs),
    /// Show which code allocated the memory of a process, which runs or wrote a profile
    Heap(heap::HeapArgs),
    /// Sample a process for a time, and show which code allocated its memory
    Profile(heap::ProfileArgs),
    /// Show which code of a process allocates and does not free
    Leaks(heap::LeaksArgs),
    /// Compare two profiles
    Diff(heap::DiffArgs),
    /// List all options, or those in force in a process
    Options(look::OptionsArgs),
    /// Watch processes, once a second: leak, cache or fragmentation?
    Top(top::TopArgs),
    /// Have a process empty its caches and give back what is free
    Trim(look::TrimArgs),
    /// Set a process's limits on memory
    Limit(look::LimitArgs),
    /// Write the figures of processes for Prometheus, of all on this host or of those named
    Metrics(metrics::MetricsArgs),
    /// Answer /metrics, and /debug/pprof/ for `go tool pprof`, for all processes of this host
    Serve(serve::ServeArgs),
    /// Tell whether hakmem is active in a process or would be in a program, and if not, why and what to do
    Doctor(doctor::DoctorArgs),
    /// Write the manual pages of all commands
    Man(manual::ManArgs),
    /// Write completions for a shell
    Completions(manual::CompletionsArgs),
    /// Measure allocators side by side: the suite, or a program of your own after `--`
    Bench(Box<bench::args::BenchArgs>),
}

fn main() -> ExitCode {
    output::end_with_the_reader();
    let outcome = match Cli::try_parse() {
        Ok(Cli { verb }) => verb.run(),
        Err(message) => show(&message),
    };
    outcome.unwrap_or_else(|error| {
        output::remark(format_args!("hakmem: {error:#}"));
        failure::exit_code(&error)
    })
}

impl Verb {
    fn run(&self) -> Result<ExitCode> {
        match self {
            Verb::Run(arguments) => arguments.run(),
            Verb::Ps(arguments) => arguments.run(),
            Verb::Stats(arguments) => arguments.run(),
            Verb::Heap(arguments) => arguments.run(),
            Verb::Profile(arguments) => arguments.run(),
            Verb::Leaks(arguments) => arguments.run(),
            Verb::Diff(arguments) => arguments.run(),
            Verb::Options(arguments) => arguments.run(),
            Verb::Top(arguments) => arguments.run(),
            Verb::Trim(arguments) => arguments.run(),
            Verb::Limit(arguments) => arguments.run(),
            Verb::Metrics(arguments) => arguments.run(),
            Verb::Serve(arguments) => arguments.run(),
            Verb::Doctor(arguments) => arguments.run(),
            Verb::Man(arguments) => arguments.run(),
            Verb::Completions(arguments) => arguments.run(),
            Verb::Bench(arguments) => bench::run(arguments),
        }
    }
}

/// Help and version go to standard output, what is wrong with the command line to standard error.
fn show(message: &clap::Error) -> Result<ExitCode> {
    let shown = message.print();
    if !message.use_stderr() {
        shown.map_err(output::not_written)?;
    }
    Ok(ExitCode::from(message.exit_code() as u8))
}
