// SPDX-License-Identifier: MIT
//! The options in force in a process, and its limits.

use super::Attached;
use crate::failure::Failure;
use crate::lists::{OptionInfo, Word, OPTIONS, PROFILE_LOG2_BITS};
use anyhow::{bail, Context, Result};

const ORIGINS: [&str; 4] = ["default", "environment", "program", "compiled in"];

#[derive(Debug, PartialEq)]
pub struct Setting {
    /// Without HAKMEM_.
    pub name: String,
    pub value: String,
    pub origin: &'static str,
}

#[derive(Debug, Default, PartialEq)]
pub struct Limits {
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

/// How a limit's two parts lie in one word.
struct Packing {
    unit_shift: u64,
    bits: u64,
}

impl Packing {
    fn of(process: &Attached) -> Result<Packing> {
        Ok(Packing {
            unit_shift: process.record.word(Word::LimitUnitShift)?,
            bits: process.record.word(Word::LimitBits)?,
        })
    }

    fn is_off(&self, value: i64) -> bool {
        value == 1 << (2 * self.bits)
    }

    fn parts(&self, value: i64) -> (u64, u64) {
        let part = |value: u64| (value & ((1 << self.bits) - 1)) << self.unit_shift;
        (part(value as u64), part(value as u64 >> self.bits))
    }
}

impl Attached {
    pub fn settings(&self) -> Result<Vec<Setting>> {
        let packing = Packing::of(self)?;
        let setting = |(name, kind, choices, value, origin): (String, String, String, i64, u8)| {
            let value = match &kind[..] {
                "OUTPUT" => self.output(&choices, value)?,
                "PROFILE" => self.profile(value)?,
                "PATH" | "FILE" if value != 0 => self.memory.text(value as u64)?,
                kind => shown(kind, &choices, value, &packing),
            };
            Ok(Setting { name, value, origin: ORIGINS.get(origin as usize).copied().unwrap_or("unknown") })
        };
        self.raw_settings()?.into_iter().map(setting).collect()
    }

    /// Of an option that is a path; None: it is off, or not known there.
    pub fn text_of(&self, name: &str) -> Result<Option<String>> {
        let settings = self.raw_settings()?;
        let value = settings.iter().find(|setting| setting.0 == name).map_or(0, |setting| setting.3);
        Ok(if value == 0 { None } else { Some(self.memory.text(value as u64)?) })
    }

    /// A choice, and the address of a file's name.
    fn output(&self, choices: &str, value: i64) -> Result<String> {
        let bits = self.record.word(Word::OutputChoiceBits)?;
        let (choice, file) = (value as u64 & ((1 << bits) - 1), value as u64 >> bits);
        let choice = choices.split(',').nth(choice as usize).unwrap_or("?");
        let file = if file == 0 { String::new() } else { format!(":{}", self.memory.text(file)?) };
        Ok(format!("{choice}{file}"))
    }

    /// An interval, and the address of a file's name.
    fn profile(&self, value: i64) -> Result<String> {
        let (log2, file) = (value as u64 & ((1 << PROFILE_LOG2_BITS) - 1), value as u64 >> PROFILE_LOG2_BITS);
        let file = if file == 0 { String::new() } else { format!(",out={}", self.memory.text(file)?) };
        Ok(if log2 == 0 { "off".into() } else { size(1 << (log2 - 1)) + &file })
    }

    fn raw_settings(&self) -> Result<Vec<(String, String, String, i64, u8)>> {
        let list = self.lines(Word::OptionList)?;
        let values = self.memory.words(self.record.word(Word::OptionValues)?, list.len())?;
        let mut origins = vec![0; list.len()];
        self.memory.read(self.record.word(Word::OptionOrigins)?, &mut origins)?;
        let with_value = list.iter().zip(values).zip(origins);
        let raw = with_value.map(|((line, value), origin)| {
            let mut parts = line.split('\t').map(str::to_string);
            let mut next = || parts.next().unwrap_or_default();
            (next(), next(), next(), value as i64, origin)
        });
        Ok(raw.collect())
    }
}

impl Limits {
    /// Of HAKMEM_LIMIT and of the control group, as the process last read it.
    pub fn of(process: &Attached) -> Result<Limits> {
        let packing = Packing::of(process)?;
        let settings = process.raw_settings()?;
        let value = settings.iter().find(|setting| setting.0 == "LIMIT").context("it has no option LIMIT")?.3;
        if packing.is_off(value) {
            return Ok(Limits::default());
        }
        let (soft, hard) = packing.parts(value);
        let (high, max) = (process.number(Word::CgroupHigh)?, process.number(Word::CgroupMax)?);
        let least = |option: u64, group: u64| if option == 0 { group } else { option.min(group) };
        let hard = least(hard, max);
        let soft = least(soft, high).min(hard);
        let known = |limit: u64| (limit != u64::MAX).then_some(limit);
        Ok(Limits { soft: known(soft), hard: known(hard) })
    }
}

/// As hakmem itself writes the value.
fn shown(kind: &str, choices: &str, value: i64, packing: &Packing) -> String {
    match kind {
        "SIZE" => size(value as u64),
        "LIMIT" if packing.is_off(value) => "off".into(),
        "LIMIT" => {
            let (soft, hard) = packing.parts(value);
            format!("{}:{}", size(soft), size(hard))
        }
        "CHOICE" | "OUTPUT" | "PROFILE" | "PATH" | "FILE" => {
            choices.split(',').nth(value as usize).map_or_else(|| value.to_string(), str::to_string)
        }
        _ => value.to_string(),
    }
}

pub fn size(bytes: u64) -> String {
    let (mut rest, mut unit) = (bytes, 0);
    while unit < 4 && rest != 0 && rest % 1024 == 0 {
        rest /= 1024;
        unit += 1;
    }
    format!("{rest}{}", ["", "K", "M", "G", "T"][unit])
}

/// What may be given for an option, in words.
pub fn values(option: &OptionInfo) -> String {
    match option.kind {
        "CHOICE" => option.choices.replace(',', ", "),
        "OUTPUT" => {
            let with_file = option.choices.split(',').skip(1).map(|choice| format!(", {choice}:FILE"));
            option.choices.replace(',', ", ") + &with_file.collect::<String>()
        }
        "PROFILE" => "off, on, INTERVAL or INTERVAL,out=FILE".into(),
        "PATH" => "off, or an absolute path".into(),
        "FILE" => "off, or a file".into(),
        "SIZE" => format!("bytes, {} to {}", size(option.min as u64), size(option.max as u64)),
        "LIMIT" => "SOFT or SOFT:HARD, or off".into(),
        _ => format!("{} to {}", option.min, option.max),
    }
}

pub fn initial(option: &OptionInfo) -> String {
    let packing = Packing { unit_shift: 16, bits: 31 };
    match option.kind {
        "LIMIT" => "0".into(),
        kind => shown(kind, option.choices, option.initial, &packing),
    }
}

pub fn known(name: &str) -> Option<&'static OptionInfo> {
    OPTIONS.iter().find(|option| option.name == name)
}

/// NAME=VALUE, with or without HAKMEM_: whether a running process can take it over, as far as the list of options says.
pub fn check_setting(setting: &str) -> Result<()> {
    let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
    let upper = name.to_ascii_uppercase();
    let wrong = |why: &str| Failure::Usage(format!("{setting}: {why}"));
    let Some(option) = known(upper.strip_prefix("HAKMEM_").unwrap_or(&upper)) else {
        bail!(wrong("there is no such option; `hakmem options` lists them"));
    };
    if option.at_start {
        bail!(wrong("it can be set at start only"));
    }
    crate::flags::checked(option, value)
        .map(drop)
        .map_err(|why| wrong(&format!("the value is not valid: {why}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_the_library_writes_them() {
        let packing = Packing { unit_shift: 16, bits: 31 };
        let packed = |soft: i64, hard: i64| soft | hard << 31;
        assert_eq!(shown("LIMIT", "", packed(32, 16384), &packing), "2M:1G");
        assert_eq!(shown("LIMIT", "", 1 << 62, &packing), "off");
        assert_eq!(shown("CHOICE", "off,text,json", 2, &packing), "json");
        assert_eq!(shown("SIZE", "", 3 << 20, &packing), "3M");
        assert_eq!(shown("NUMBER", "", -1, &packing), "-1");
        assert_eq!(size(1000), "1000");
        let refusal = |setting: &str| check_setting(setting).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!((refusal("PURGE_DELAY=5"), refusal("hakmem_limit=1G:2G")), (String::new(), String::new()));
        for (setting, why) in [
            ("NO_SUCH=1", "no such option"),
            ("SAFE=2", "at start only"),
            ("PURGE_DELAY=soon", "not valid"),
            ("PURGE_DELAY", "not valid"),
            ("LIMIT=2G:1G", "not valid"),
        ] {
            assert!(refusal(setting).contains(why), "{setting}: {}", refusal(setting));
        }
        assert_eq!(initial(known("HUGE").unwrap()), "auto");
    }
}
