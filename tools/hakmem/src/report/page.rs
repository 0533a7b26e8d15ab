// SPDX-License-Identifier: MIT
//! The page: one file that opens with the answer, and needs no network.

#[cfg(test)]
mod browser;
#[cfg(test)]
mod in_browser;

use super::growth::{self, Growth};
use super::view::{bytes, count, rows, Row, Show};
use super::{groups, verdict};
use crate::image::{Amount, Figures, Profile};
use crate::symbols::{Frame, Symbols};
use anyhow::Result;
use minijinja::value::Serde;
use minijinja::Environment;
use serde_json::{json, Value};
use std::collections::HashMap;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");
const GROWN_MAX: usize = 10;

pub fn write(profile: &Profile, symbols: &Symbols) -> Result<Vec<u8>> {
    let grown = growth::of(profile, symbols);
    let mut remarks = symbols.remarks();
    remarks.extend(super::text::remarks(profile));
    let mut environment = Environment::new();
    environment.add_template("page.html", PAGE)?;
    let shown = json!({
        "origin": profile.origin,
        "sampling": profile.sampling(),
        "when": format!("for {}", super::view::duration(profile.elapsed_us as f64)),
        "version": env!("CARGO_PKG_VERSION"),
        "style": STYLE,
        "script": SCRIPT,
        "verdict": verdict::of(profile, &grown),
        "parts": parts(profile),
        "grown": grown.iter().take(GROWN_MAX).map(grown_row).collect::<Vec<_>>(),
        "remarks": remarks,
        "data": data(profile, symbols)?,
    });
    let text = environment.get_template("page.html")?.render(minijinja::Value::from(Serde(&shown)))?;
    Ok(text.into_bytes())
}

/// What is resident, in parts; of a file without figures only what the samples tell.
fn parts(profile: &Profile) -> Vec<Value> {
    let part = |key: &str, name: &str, value: f64, all: f64, what: &str| {
        let share = if all > 0.0 { 100.0 * value / all } else { 0.0 };
        json!({"key": key, "name": name, "text": bytes(value), "share": share, "what": what})
    };
    let sums = [
        part("given", "at the peak", profile.peak.bytes, 0.0, "in use when it was most"),
        part("given", "allocated", profile.alloc.bytes, 0.0, "all in all"),
    ];
    let Some(Figures { resident, live, untouched, cached, fragmented, retained, metadata, given_back, .. }) =
        profile.figures
    else {
        let last = profile.timeline.last().and_then(|point| point.resident).unwrap_or(0) as f64;
        let all = last.max(profile.live.bytes);
        let mut parts = vec![part("live", "in use", profile.live.bytes, all, "blocks that the program has")];
        if last > profile.live.bytes {
            let what = "the process's: free blocks, code, stacks, other memory";
            parts.push(part("other", "resident besides", last - profile.live.bytes, all, what));
        }
        parts.extend(sums);
        return parts;
    };
    let all = resident as f64;
    let touched = live.saturating_sub(untouched) as f64;
    let mut parts = vec![
        part("live", "in use", touched, all, "blocks that the program has, as far as they are resident"),
        part("cached", "cached", cached as f64, all, "free blocks that threads keep"),
        part("fragmented", "fragmented", fragmented as f64, all, "free, on pages with blocks in use"),
        part("retained", "free pages", retained as f64, all, "to be given back, or used first"),
        part("metadata", "own records", metadata as f64, all, "of the allocator"),
        part("given", "given back", given_back as f64, 0.0, "to the kernel, since the start"),
    ];
    parts.extend(sums);
    parts
}

fn grown_row(growth: &Growth) -> Value {
    let most = growth.ages.iter().copied().fold(0.0, f64::max).max(1.0);
    json!({
        "bytes": bytes(growth.left.bytes), "objects": count(growth.left.objects), "rate": bytes(growth.rate * 60.0),
        "ages": growth.ages.map(|part| (100.0 * part / most).round()), "place": growth.row.place(5),
    })
}

/// What the script draws. Nothing in it can end the element that it stands in.
fn data(profile: &Profile, symbols: &Symbols) -> Result<String> {
    let mut frames = Frames::default();
    let sites: Vec<Value> = rows(profile, symbols, Show::Inuse).iter().map(|row| site(row, &mut frames)).collect();
    let points = profile.timeline.iter().map(|p| json!([p.time_us, p.live.bytes.round(), p.resident]));
    let threads = groups::by_thread(profile);
    let threads = threads.iter().map(|t| json!([t.name, t.live.bytes.round(), t.live.objects.round()]));
    let classes = groups::by_class(profile);
    let classes =
        classes.iter().map(|c| json!([c.size, c.live.bytes.round(), c.live.objects.round(), c.slack.round()]));
    let all = json!({
        "timeline": points.collect::<Vec<_>>(),
        "threads": threads.collect::<Vec<_>>(),
        "classes": classes.collect::<Vec<_>>(),
        "sites": sites,
        "frames": frames.list,
    });
    Ok(serde_json::to_string(&all)?.replace('<', "\\u003c"))
}

/// Each is written once.
#[derive(Default)]
struct Frames {
    known: HashMap<Frame, usize>,
    list: Vec<Value>,
}

impl Frames {
    fn number(&mut self, frame: &Frame) -> usize {
        if let Some(&known) = self.known.get(frame) {
            return known;
        }
        let place = if frame.line > 0 { format!("{}:{}", frame.file, frame.line) } else { frame.file.clone() };
        self.list.push(json!([frame.name, place, frame.module]));
        self.known.insert(frame.clone(), self.list.len() - 1);
        self.list.len() - 1
    }
}

fn site(row: &Row, frames: &mut Frames) -> Value {
    let sums: Vec<f64> = [row.live, row.peak, row.alloc, row.temporary]
        .iter()
        .flat_map(|Amount { bytes, objects }| [bytes.round(), (objects * 10.0).round() / 10.0])
        .collect();
    let lives: Vec<f64> = row.lifetimes.iter().map(|objects| objects.round()).collect();
    let frames: Vec<usize> = row.frames.iter().map(|frame| frames.number(frame)).collect();
    json!([sums, lives, frames])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols;
    use std::path::Path;

    fn page(profile: &Profile) -> String {
        String::from_utf8(write(profile, &symbols::none(profile)).unwrap()).unwrap()
    }

    fn a_profile() -> Profile {
        crate::image::from_bytes(&growth::tests::a_service().bytes(), Path::new("heap.<1>")).unwrap()
    }

    #[test]
    fn it_opens_with_the_answer() {
        let text = page(&a_profile());
        let (before, _) = text.split_once("id=\"flame\"").unwrap();
        assert!(before.contains("<h1 class=\"leak\">What is in use grows by 240.0 KiB a minute"), "{before}");
        assert!(before.contains("heap.&lt;1&gt;") && before.contains("What grew"));
    }

    #[test]
    fn it_needs_nothing_else() {
        let text = page(&a_profile()).replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!text.contains(outside), "{outside}");
        }
    }

    #[test]
    fn names_cannot_leave_their_place() {
        let mut profile = a_profile();
        profile.maps =
            crate::attach::maps::parse("0-10000 r-xp 00000000 00:00 0 /x/</script><script>alert(1)</script>\n");
        let text = page(&profile);
        assert_eq!(text.matches("</script>").count(), 2);
        assert!(!text.contains("<script>alert"));
    }
}
