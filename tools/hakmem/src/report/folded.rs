// SPDX-License-Identifier: MIT
//! Stacks as lines for flame graphs, and the flame graph itself.

use super::view::{rows, title, Row, Show};
use crate::image::Profile;
use crate::symbols::Symbols;
use anyhow::{anyhow, Result};
use inferno::flamegraph::color::{BasicPalette, Palette};
use inferno::flamegraph::{from_lines, Options};

/// `outermost;...;innermost BYTES`.
pub fn lines(profile: &Profile, symbols: &Symbols, show: Show) -> Vec<String> {
    let rows = rows(profile, symbols, show);
    rows.iter().filter(|row| row.amount.bytes >= 0.5).map(|row| line(row, row.amount.bytes)).collect()
}

fn line(row: &Row, value: f64) -> String {
    format!("{} {value:.0}", stack(row))
}

pub fn stack(row: &Row) -> String {
    let names: Vec<String> = row.frames.iter().rev().map(|frame| frame.name.replace([';', '\n'], ":")).collect();
    if names.is_empty() {
        "[no stack]".into()
    } else {
        names.join(";")
    }
}

pub fn svg(profile: &Profile, symbols: &Symbols, show: Show) -> Result<Vec<u8>> {
    let lines = lines(profile, symbols, show);
    let title = format!("{}: bytes {}", profile.origin, title(show));
    picture(&lines, title, &profile.sampling())
}

/// `lines` may have two values each: before and after.
pub fn picture(lines: &[String], title: String, subtitle: &str) -> Result<Vec<u8>> {
    if lines.is_empty() {
        return Err(anyhow!("there is nothing to draw: no site has any bytes"));
    }
    let mut options = Options::default();
    options.title = title;
    options.subtitle = Some(subtitle.to_string());
    options.count_name = "bytes".into();
    options.colors = Palette::Basic(BasicPalette::Mem);
    options.hash = true;
    let mut out = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut out)
        .map_err(|error| anyhow!("the flame graph cannot be drawn: {error}"))?;
    Ok(out)
}
