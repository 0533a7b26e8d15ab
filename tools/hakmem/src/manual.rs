// SPDX-License-Identifier: MIT
//! Manual pages and completions for shells, made of the same description that reads the command line.

use crate::output::say;
use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct ManArgs {
    /// Write a page for each command into this folder; without it, the first page to standard output
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl ManArgs {
    pub fn run(&self) -> Result<ExitCode> {
        let command = crate::Cli::command();
        match &self.folder {
            Some(folder) => {
                fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
                clap_mangen::generate_to(command, folder)
                    .with_context(|| format!("cannot write into {}", folder.display()))?;
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(command).render(&mut page)?;
                say(String::from_utf8_lossy(&page))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl CompletionsArgs {
    pub fn run(&self) -> Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Cli::command(), "hakmem", &mut script);
        say(String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}
