// SPDX-License-Identifier: MIT
//! The hakmem command line tool: one verb per job.

mod bench;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "hakmem", version, about = "Tools for the hakmem memory allocator")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure allocators side by side: the suite, or a program of your own after `--`
    Bench(Box<bench::args::BenchArgs>),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Bench(arguments) => bench::run(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("hakmem: {error:#}");
        ExitCode::FAILURE
    })
}
