// SPDX-License-Identifier: MIT
//! Every option of the library as a flag: HAKMEM_PURGE_DELAY=100 is `--purge-delay 100`.

use crate::attach::settings::{initial, values};
use crate::lists::{OptionInfo, OPTIONS};
use clap::builder::{PossibleValue, StyledStr, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Command, ValueHint};
use std::ffi::OsStr;

/// What stands for the first and the second choice where the first is "off".
const NO: [&str; 3] = ["0", "false", "no"];
/// What numbers are offered where there are few.
const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
const YES: [&str; 4] = ["1", "true", "yes", "on"];

/// The variables of the environment that the flags ask for.
#[derive(Debug, Default)]
pub struct OptionFlags {
    pub environment: Vec<(String, String)>,
}

impl clap::FromArgMatches for OptionFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |option: &OptionInfo| {
            let value = matches.get_one::<String>(option.name)?;
            Some((format!("HAKMEM_{}", option.name), value.clone()))
        };
        Ok(OptionFlags { environment: OPTIONS.iter().filter_map(given).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for OptionFlags {
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn flag(option: &'static OptionInfo) -> Arg {
    let name = option.name.to_ascii_lowercase().replace('_', "-");
    let arg = Arg::new(option.name)
        .long(name)
        .value_name(value_name(option))
        .help_heading("Options of hakmem")
        .help(help(option))
        .allow_negative_numbers(true)
        .value_hint(hint(option))
        .hide_possible_values(true) // the help has them, and what else there is
        .value_parser(Checked(option));
    match default_when_bare(option) {
        Some(value) => arg.num_args(0..=1).require_equals(true).default_missing_value(value),
        None => arg,
    }
}

/// Of what a shell completes a value.
fn hint(option: &OptionInfo) -> ValueHint {
    match option.kind {
        "PATH" | "FILE" => ValueHint::AnyPath,
        _ => ValueHint::Other,
    }
}

#[derive(Clone)]
struct Checked(&'static OptionInfo);

impl TypedValueParser for Checked {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let option = self.0;
        (move |text: &str| checked(option, text)).parse_ref(command, arg, value)
    }

    /// For a shell to complete: there may be others.
    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let option = self.0;
        let names: Vec<&'static str> = match option.kind {
            "CHOICE" | "OUTPUT" => option.choices.split(',').collect(),
            "PROFILE" => vec!["off", "on"],
            "NUMBER" => DIGITS.get(usize::try_from(option.min).ok()?..=usize::try_from(option.max).ok()?)?.to_vec(),
            _ => return None,
        };
        Some(Box::new(names.into_iter().map(PossibleValue::new)))
    }
}

fn help(option: &OptionInfo) -> StyledStr {
    format!("{} [default: {}; {}]", option.help, initial(option), values(option)).into()
}

fn value_name(option: &OptionInfo) -> &'static str {
    match option.kind {
        "NUMBER" => "N",
        "SIZE" => "SIZE",
        "LIMIT" => "SOFT[:HARD]",
        "OUTPUT" => "FORM[:FILE]",
        "PROFILE" => "INTERVAL[,out=FILE]",
        "PATH" => "PATH",
        "FILE" => "FILE",
        _ => "CHOICE",
    }
}

/// A switch may stand alone: `--stats`.
fn default_when_bare(option: &OptionInfo) -> Option<&'static str> {
    let mut choices = option.choices.split(',');
    choices.next().filter(|first| *first == "off").and(choices.next())
}

/// As src/core/options.c reads it, so that what is wrong is said before the program starts.
pub fn checked(option: &OptionInfo, text: &str) -> Result<String, String> {
    let choice = text.split(':').next().unwrap_or_default();
    let fits = match option.kind {
        "NUMBER" => text.parse().is_ok_and(|value| (option.min..=option.max).contains(&value)),
        "SIZE" if is_off(text) => option.min == 0,
        "SIZE" => bytes(text).is_some_and(|value| (option.min..=option.max).contains(&value)),
        "LIMIT" => text.eq_ignore_ascii_case("off") || is_limit(text),
        "OUTPUT" => is_choice(option, choice) && !text.ends_with(':'),
        "PROFILE" => {
            let (interval, file) = text.split_once(",out=").unwrap_or((text, "-"));
            !file.is_empty() && (is_choice(option, interval) || bytes(interval).is_some_and(|bytes| bytes > 0))
        }
        "FILE" => !text.is_empty() && (text.eq_ignore_ascii_case("off") || !is_choice(option, text)),
        "PATH" => text.starts_with('/') || text.eq_ignore_ascii_case("off"),
        _ => is_choice(option, text),
    };
    if fits {
        Ok(text.to_string())
    } else {
        Err(format!("expected {}", values(option)))
    }
}

/// What is in use is no more than SOFT, and never more than HARD; 0 is no limit.
fn is_limit(text: &str) -> bool {
    let (soft, hard) = text.split_once(':').unwrap_or((text, "0"));
    matches!((bytes(soft), bytes(hard)), (Some(soft), Some(hard)) if hard == 0 || soft <= hard)
}

/// As a switch that is off is written.
pub fn is_off(text: &str) -> bool {
    text.eq_ignore_ascii_case("off") || NO.iter().any(|word| word.eq_ignore_ascii_case(text))
}

fn is_choice(option: &OptionInfo, text: &str) -> bool {
    let switch =
        default_when_bare(option).is_some() && NO.iter().chain(&YES).any(|word| word.eq_ignore_ascii_case(text));
    switch || option.choices.split(',').any(|choice| choice.eq_ignore_ascii_case(text))
}

/// 64M, 64MB and 64MiB are the same.
pub fn bytes(text: &str) -> Option<i64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = text[digits..].to_ascii_lowercase();
    let unit = unit.strip_suffix("ib").filter(|rest| !rest.is_empty()).or(unit.strip_suffix('b')).unwrap_or(&unit);
    let shift = ["", "k", "m", "g", "t"].iter().position(|name| *name == unit)? * 10;
    text[..digits].parse::<i64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::settings::known;
    use clap::FromArgMatches;

    fn environment(arguments: &[&str]) -> Result<Vec<(String, String)>, clap::Error> {
        let command = OptionFlags::augment_args(Command::new("run")).no_binary_name(true);
        let flags = OptionFlags::from_arg_matches(&command.try_get_matches_from(arguments)?)?;
        Ok(flags.environment)
    }

    #[test]
    fn flags_become_variables() {
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        let given = environment(&["--stats", "--safe", "2", "--limit", "1G:2G", "--purge-delay", "-1"]).unwrap();
        assert_eq!(
            given,
            [
                pair("HAKMEM_STATS", "text"),
                pair("HAKMEM_SAFE", "2"),
                pair("HAKMEM_PURGE_DELAY", "-1"),
                pair("HAKMEM_LIMIT", "1G:2G")
            ]
        );
        assert_eq!(environment(&["--guard", "off", "--stats=on"]).unwrap(), [pair("HAKMEM_STATS", "on"), pair("HAKMEM_GUARD", "off")]);
        assert_eq!(environment(&["--stats=json:/tmp/x"]).unwrap(), [pair("HAKMEM_STATS", "json:/tmp/x")]);
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (arguments, expected) in [
            (&["--safe", "4"][..], "expected 0 to 3"),
            (&["--huge", "maybe"], "expected auto, off, force"),
            (&["--warmup", "64X"], "expected bytes, 0 to 1T"),
            (&["--quarantine", "off"], "expected bytes, 64K to 1T"),
            (&["--control", "here"], "expected off, or an absolute path"),
            (&["--limit", "1G:"], "expected SOFT or SOFT:HARD"),
            (&["--limit", "2G:1G"], "expected SOFT or SOFT:HARD"),
        ] {
            let said = environment(arguments).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn sizes_are_read_as_the_library_reads_them() {
        assert_eq!(bytes("64M"), Some(64 << 20));
        assert_eq!(bytes("64MiB"), bytes("64mb"));
        assert_eq!(
            (bytes("5"), bytes("5b"), bytes(""), bytes("ib"), bytes("5x")),
            (Some(5), Some(5), None, None, None)
        );
        assert!(default_when_bare(known("SAFE").unwrap()).is_none());
    }
}
