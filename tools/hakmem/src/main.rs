// SPDX-License-Identifier: MIT
//! The hakmem command line tool: one verb per job.
#![deny(clippy::print_stdout, clippy::print_stderr)] // module output is for that

mod bench;
mod output;

use anyhow::Result;
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
    output::end_with_the_reader();
    let outcome = match Cli::try_parse() {
        Ok(Cli { verb: Verb::Bench(arguments) }) => bench::run(&arguments),
        Err(message) => show(&message),
    };
    outcome.unwrap_or_else(|error| {
        output::remark(format_args!("hakmem: {error:#}"));
        ExitCode::FAILURE
    })
}

/// Help and version go to standard output, what is wrong with the command line to standard error.
fn show(message: &clap::Error) -> Result<ExitCode> {
    let shown = message.print();
    if !message.use_stderr() {
        shown.map_err(output::not_written)?;
    }
    Ok(ExitCode::from(message.exit_code() as u8))
}
