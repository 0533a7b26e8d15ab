// SPDX-License-Identifier: MIT
//! Tables for a terminal.

use super::groups::{self, Group};
use super::view::{bytes, count, duration, rows, title, By, Row, Show};
use crate::image::{Amount, Profile};
use crate::symbols::{Frame, Symbols};
use std::fmt::Write as _;

/// Frames in a line.
const PLACE_FRAMES: usize = 4;
const SHARE_FROM: f64 = 0.0005;

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub rows: usize,
    pub stacks: bool,
}

pub fn summary(profile: &Profile) -> String {
    let state = if profile.is_running && !profile.is_active { ", not sampled any more" } else { "" };
    let text = format!(
        "{}: {} in use in {} blocks, sampled for {} ({}){state}\n",
        profile.origin,
        bytes(profile.live.bytes),
        count(profile.live.objects),
        duration(profile.elapsed_us as f64),
        profile.sampling(),
    );
    remarks(profile).into_iter().fold(text, |text, line| text + &line + "\n")
}

/// What bears on how far the figures go.
pub fn remarks(profile: &Profile) -> Vec<String> {
    let mut lines = Vec::new();
    if profile.thinnings > 0 {
        lines.push(format!(
            "the tables were full {} times, so samples are further apart than the {} that were asked for",
            profile.thinnings,
            bytes(profile.first_interval as f64)
        ));
    }
    if profile.longest_interval > profile.interval {
        lines.push(format!(
            "a thread that allocated in haste was sampled less often, down to one each {}: \
             what is small beside that is known badly (an interval below 512K gives all samples)",
            bytes(profile.longest_interval as f64)
        ));
    }
    if profile.samples_lost > 0 {
        lines.push(format!("{} samples found no memory for their record", profile.samples_lost));
    }
    lines
}

pub fn table(profile: &Profile, symbols: &Symbols, show: Show, by: By, size: Size) -> String {
    let body = match by {
        By::Site => sites(profile, symbols, show, size),
        By::Thread => grouped(&groups::by_thread(profile), "thread", size),
        By::Class => classes(profile, size),
    };
    summary(profile) + "\n" + &body
}

fn share(part: f64, all: f64) -> String {
    if all > 0.0 {
        format!("{:.1} %", 100.0 * part / all)
    } else {
        String::new()
    }
}

fn sites(profile: &Profile, symbols: &Symbols, show: Show, size: Size) -> String {
    let rows = rows(profile, symbols, show);
    let all = rows.iter().map(|row| row.amount.bytes).sum::<f64>();
    let head = if show == Show::Lifetime { format!(" {:>9}", "median") } else { String::new() };
    let mut text = format!("{:>12} {:>7} {:>12}{head}  {}\n", "bytes", "", "blocks", title(show));
    let worth = |row: &&Row| row.amount.bytes > 0.0 && row.amount.bytes >= SHARE_FROM * all;
    let shown: Vec<&Row> = rows.iter().filter(worth).take(size.rows).collect();
    for row in &shown {
        let life = row.median_lifetime().map_or("-".into(), duration);
        let life = if show == Show::Lifetime { format!(" {life:>9}") } else { String::new() };
        let (amount, place) = (row.amount, row.place(PLACE_FRAMES));
        let _ = writeln!(text, "{}{life}  {place}", numbers(amount, all));
        if size.stacks {
            text += &stack(&row.frames);
        }
    }
    text + &rest(&rows, shown.len(), |row| row.amount)
}

fn numbers(amount: Amount, all: f64) -> String {
    format!("{:>12} {:>7} {:>12}", bytes(amount.bytes), share(amount.bytes, all), count(amount.objects))
}

/// A line a frame, innermost first.
pub fn stack(frames: &[Frame]) -> String {
    frames.iter().fold(String::new(), |mut text, frame| {
        let place = match (&frame.file[..], frame.line) {
            ("", _) => frame.module.clone(),
            (file, 0) => file.to_string(),
            (file, line) => format!("{file}:{line}"),
        };
        let _ = writeln!(text, "{}", format!("{:>37}{}  {place}", "", frame.name).trim_end());
        text
    })
}

fn rest<T>(rows: &[T], shown: usize, of: impl Fn(&T) -> Amount) -> String {
    let mut left = Amount::default();
    rows[shown..].iter().for_each(|row| left.add(of(row)));
    let many = rows[shown..].iter().filter(|row| of(row).bytes > 0.0).count();
    if many == 0 {
        return String::new();
    }
    format!("{:>12} {:>7} {:>12}  in {many} more\n", bytes(left.bytes), "", count(left.objects))
}

fn grouped(groups: &[Group], what: &str, size: Size) -> String {
    let all = groups.iter().map(|group| group.live.bytes).sum::<f64>();
    let mut text = format!("{:>12} {:>7} {:>12}  {what}\n", "bytes", "", "blocks");
    let shown = groups.len().min(size.rows);
    for group in &groups[..shown] {
        let _ = writeln!(text, "{}  {}", numbers(group.live, all), group.name);
    }
    text + &rest(groups, shown, |group| group.live)
}

fn classes(profile: &Profile, size: Size) -> String {
    let classes = groups::by_class(profile);
    let all = classes.iter().map(|class| class.live.bytes).sum::<f64>();
    let mut text = format!("{:>12} {:>7} {:>12} {:>12}  block size\n", "bytes", "", "blocks", "slack");
    for class in classes.iter().take(size.rows) {
        let slack = bytes(class.slack);
        let _ = writeln!(text, "{} {slack:>12}  {}", numbers(class.live, all), class.size);
    }
    text + &rest(&classes, classes.len().min(size.rows), |class| class.live)
}
