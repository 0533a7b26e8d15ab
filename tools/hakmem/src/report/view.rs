// SPDX-License-Identifier: MIT
//! What is shown of a profile, and by what.

use crate::image::{Amount, Profile, Site};
use crate::symbols::{Frame, Symbols};
use clap::ValueEnum;
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub enum Show {
    /// What the program has now
    #[default]
    Inuse,
    /// What it had when it had most
    Peak,
    /// All that it has allocated
    Alloc,
    /// How long blocks lived that it has freed
    Lifetime,
    /// What was freed within a millisecond by the thread that had allocated it
    Temporary,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub enum By {
    /// The stack that allocates
    #[default]
    Site,
    /// The thread that allocated (of what is in use)
    Thread,
    /// The size of the blocks (of what is in use)
    Class,
}

pub fn amount(site: &Site, show: Show) -> Amount {
    match show {
        Show::Inuse => site.live,
        Show::Peak => site.peak,
        Show::Alloc => site.alloc,
        Show::Lifetime => Amount { bytes: site.freed.bytes, objects: site.freed.objects },
        Show::Temporary => site.temporary,
    }
}

pub fn title(show: Show) -> &'static str {
    match show {
        Show::Inuse => "in use",
        Show::Peak => "in use at the peak, within 2 %",
        Show::Alloc => "allocated",
        Show::Lifetime => "freed, by lifetime",
        Show::Temporary => "temporary",
    }
}

/// All sites whose stacks have the same names.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Innermost first.
    pub frames: Vec<Frame>,
    pub amount: Amount,
    pub live: Amount,
    pub peak: Amount,
    pub alloc: Amount,
    pub temporary: Amount,
    pub lifetimes: [f64; crate::image::LIFETIMES],
    pub samples: u64,
    /// Numbers of the sites.
    pub sites: Vec<usize>,
}

impl Row {
    fn add(&mut self, number: usize, site: &Site, show: Show) {
        self.amount.add(amount(site, show));
        self.live.add(site.live);
        self.peak.add(site.peak);
        self.alloc.add(site.alloc);
        self.temporary.add(site.temporary);
        self.lifetimes.iter_mut().zip(site.lifetimes).for_each(|(sum, one)| *sum += one);
        self.samples += site.samples;
        self.sites.push(number);
    }

    /// The innermost functions: as much as fits a line.
    pub fn place(&self, frames: usize) -> String {
        let shown: Vec<&str> = self.frames.iter().take(frames).map(|frame| &frame.name[..]).collect();
        let more = if self.frames.len() > frames { " < ..." } else { "" };
        match shown.is_empty() {
            true => "[no stack]".into(),
            false => shown.join(" < ") + more,
        }
    }

    /// The age at which half of what was freed was freed, in microseconds: the middle of its place.
    pub fn median_lifetime(&self) -> Option<f64> {
        let total: f64 = self.lifetimes.iter().sum();
        let mut sum = 0.0;
        for (index, objects) in self.lifetimes.iter().enumerate() {
            sum += objects;
            if total > 0.0 && 2.0 * sum >= total {
                return Some(4f64.powi(index as i32) * 2.0);
            }
        }
        None
    }
}

/// The largest first.
pub fn rows(profile: &Profile, symbols: &Symbols, show: Show) -> Vec<Row> {
    let mut places: HashMap<Vec<&Frame>, usize> = HashMap::new();
    let mut rows: Vec<Row> = Vec::new();
    for (number, site) in profile.real_sites() {
        let frames = symbols.stack(profile, site.stack);
        let at = *places.entry(frames).or_insert_with_key(|frames| {
            rows.push(Row { frames: frames.iter().copied().cloned().collect(), ..Row::default() });
            rows.len() - 1
        });
        rows[at].add(number, site, show);
    }
    rows.sort_by(|a, b| b.amount.bytes.total_cmp(&a.amount.bytes));
    rows
}

/// "1.2 ms" of microseconds.
pub fn duration(microseconds: f64) -> String {
    match microseconds {
        us if us < 1e3 => format!("{us:.0} us"),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us if us < 600e6 => format!("{:.1} s", us / 1e6),
        us if us < 36000e6 => format!("{:.0} min", us / 60e6),
        us => format!("{:.0} h", us / 3600e6),
    }
}

/// Blocks, of which an estimate is no whole number.
pub fn count(objects: f64) -> String {
    match objects.abs() {
        many if many >= 1e9 => format!("{:.1} G", objects / 1e9),
        many if many >= 1e7 => format!("{:.1} M", objects / 1e6),
        _ => {
            let digits = format!("{objects:.0}");
            let (sign, digits) = digits.strip_prefix('-').map_or(("", &digits[..]), |rest| ("-", rest));
            let groups: Vec<&str> =
                digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or("")).collect();
            sign.to_string() + &groups.join(",")
        }
    }
}

pub fn bytes(amount: f64) -> String {
    let sign = if amount <= -0.5 { "-" } else { "" };
    sign.to_string() + &crate::look::human(amount.abs().round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_readers() {
        assert_eq!((&count(1234567.0)[..], &count(-1000.4)[..], &count(0.2)[..]), ("1,234,567", "-1,000", "0"));
        assert_eq!((&duration(900.0)[..], &duration(2.1e6)[..], &duration(7200e6)[..]), ("900 us", "2.1 s", "120 min"));
        assert_eq!((&bytes(-2048.0)[..], &bytes(-0.1)[..]), ("-2.0 KiB", "0 B"));
    }
}
