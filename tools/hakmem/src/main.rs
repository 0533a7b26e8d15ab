// SPDX-License-Identifier: MIT
//! The hakmem command line tool: one verb per job.
#![deny(clippy::print_stdout, clippy::print_stderr)] // module output is for that

mod attach;
mod bench;
mod failure;
mod flags;
mod library;
mod lists;
mod look;
mod output;
mod program;
mod run;

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
    /// List all options, or those in force in a process
    Options(look::OptionsArgs),
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
            Verb::Options(arguments) => arguments.run(),
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
