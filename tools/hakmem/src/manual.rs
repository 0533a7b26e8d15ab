// SPDX-License-Identifier: MIT
//! Manual pages and completions for shells, made of the same description that reads the command line.

use crate::output::say;
use anyhow::{Context, Result};
use clap::{ArgAction, Args, Command, CommandFactory};
use clap_complete::Shell;
use std::fs;
use std::path::{Path, PathBuf};
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
                let about = || format!("cannot write into {}", folder.display());
                clap_mangen::generate_to(command.clone(), folder).with_context(about)?;
                let mut command = command.disable_help_subcommand(true);
                command.build();
                add_values_to(&command, folder).with_context(about)?;
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(command.clone()).render(&mut page)?;
                say(with_values(&command, &String::from_utf8_lossy(&page)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// To the page of the command, and to those of the commands below it.
fn add_values_to(command: &Command, folder: &Path) -> std::io::Result<()> {
    let path = folder.join(clap_mangen::Man::new(command.clone()).get_filename());
    fs::write(&path, with_values(command, &fs::read_to_string(&path)?))?;
    command.get_subcommands().try_for_each(|below| add_values_to(below, folder))
}

/// clap_mangen names options in the synopsis without what they take: `[--for]` for `[--for TIME]`; and one argument
/// where there may be several: `[PID]` for `[PID]...`.
fn with_values(command: &Command, page: &str) -> String {
    const SYNOPSIS: &str = ".SH SYNOPSIS\n";
    let Some((head, rest)) = page.split_once(SYNOPSIS) else { return page.into() };
    let (synopsis, tail) = rest.split_at(rest.find("\n.SH ").unwrap_or(rest.len()));
    let mut synopsis = synopsis.to_string();
    for option in command.get_opts() {
        if let (Some(long), Some(values)) = (option.get_long(), option.get_value_names()) {
            let name = format!("\\fB\\-\\-{}\\fR", long.replace('-', "\\-"));
            synopsis = synopsis.replace(&name, &format!("{name} \\fI{}\\fR", values.join(" ")));
        }
    }
    for argument in command.get_positionals().filter(|argument| matches!(argument.get_action(), ArgAction::Append)) {
        let name = format!("\\fI{}\\fR", argument.get_value_names().unwrap_or_default().join(" "));
        synopsis = match argument.is_last_set() {
            true => synopsis.replace(&format!("[{name}]"), &format!("[\\-\\- <{name}>...]")),
            false => ["[]", "<>"].iter().fold(synopsis, |text, around| {
                let one = format!("{}{name}{}", &around[..1], &around[1..]);
                text.replace(&one, &format!("{one}..."))
            }),
        };
    }
    [head, SYNOPSIS, &synopsis, tail].concat()
}

impl CompletionsArgs {
    pub fn run(&self) -> Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Cli::command(), "hakmem", &mut script);
        say(String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn the_synopsis_has_what_options_take() {
        let long = |name: &'static str| Arg::new(name).long(name);
        let command = Command::new("x").args([
            long("for").value_name("TIME").help("How long"),
            long("debug-dir").value_name("FOLDER"),
            long("json").action(ArgAction::SetTrue),
        ]);
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).render(&mut page).unwrap();
        let page = with_values(&command, std::str::from_utf8(&page).unwrap());
        for shown in [r"[\fB\-\-for\fR \fITIME\fR]", r"[\fB\-\-debug\-dir\fR \fIFOLDER\fR]", r"[\fB\-\-json\fR]"] {
            assert!(page.contains(shown), "no {shown} in\n{page}");
        }
        assert!(page.contains(r"\fB\-\-for\fR=\fITIME\fR"), "{page}");
    }

    #[test]
    fn each_page_has_it() {
        let folder = std::env::temp_dir().join(format!("hakmem-manual-{}", std::process::id()));
        ManArgs { folder: Some(folder.clone()) }.run().unwrap();
        let page = fs::read_to_string(folder.join("hakmem-profile.1")).unwrap();
        let synopsis = |command: &str| {
            let page = fs::read_to_string(folder.join(format!("hakmem-{command}.1"))).unwrap();
            page.split("SYNOPSIS\n").nth(1).unwrap().lines().next().unwrap().trim_end().to_string()
        };
        for (command, end) in [
            ("limit", r"[\fIPID\fR]... <\fISOFT[:HARD]|off\fR>"),
            ("run", r"<\fIPROGRAM ARGS\fR>..."),
            ("doctor", r"[\fIPID\fR]... [\-\- <\fIPROGRAM ARGS\fR>...]"),
            ("man", r"[\fIDIR\fR]"),
        ] {
            assert!(synopsis(command).ends_with(end), "{}", synopsis(command));
        }
        fs::remove_dir_all(&folder).unwrap();
        assert!(page.contains(r"[\fB\-\-comm\fR \fINAME\fR]"), "{page}");
        assert!(page.contains(r"[\fB\-\-for\fR \fITIME\fR]"), "{page}");
    }
}
