// SPDX-License-Identifier: MIT
//! Leak, retention or fragmentation: what a page opens with.

use super::growth::Growth;
use super::view::bytes;
use crate::image::{Figures, Profile};
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// leak, retention, fragmentation, use
    pub kind: &'static str,
    pub title: String,
    pub why: String,
    pub advice: String,
}

/// Of what is resident; what is less is no answer.
const MUCH: f64 = 0.25;
/// What steadily grows is a leak when it makes up so much of what is in use, or would within an hour.
const GROWS: f64 = 0.1;
const HOUR: f64 = 3600.0;
/// A program that has ended sooner had no time to leak: it was setting up.
const TIME_TO_LEAK_US: u64 = 1_000_000;

pub fn of(profile: &Profile, grown: &[Growth]) -> Verdict {
    let figures = profile.figures.clone().unwrap_or_else(|| guessed(profile));
    let was_short = profile.has_ended && profile.elapsed_us < TIME_TO_LEAK_US;
    let growing = if was_short { None } else { growth(profile, grown) };
    let resident = figures.resident.max(1) as f64;
    let kept = (figures.cached + figures.retained) as f64;
    let (fragmented, live) = (figures.fragmented as f64, figures.live as f64);
    if let Some(verdict) = growing {
        return verdict;
    }
    if profile.has_ended {
        return ended(profile, &figures);
    }
    if fragmented / resident >= MUCH && fragmented >= kept {
        return fragmentation(&figures);
    }
    if kept / resident >= MUCH {
        return retention(&figures);
    }
    Verdict {
        kind: "use",
        title: format!("{} in use, and it does not grow steadily", bytes(live.max(profile.live.bytes))),
        why: match profile.figures {
            Some(_) => format!(
                "Of {} resident, {} are blocks that the program has; {} are cached, {} fragmented.",
                bytes(resident),
                bytes(live),
                bytes(figures.cached as f64),
                bytes(fragmented)
            ),
            None => format!("{} at the peak.", bytes(profile.peak.bytes)),
        },
        advice: "To have less resident, look at the largest sites: what they hold is what the program holds.".into(),
    }
}

/// Of a file without figures, from a library before them.
fn guessed(profile: &Profile) -> Figures {
    let live = profile.live.bytes as u64;
    let resident = profile.timeline.last().and_then(|point| point.resident).unwrap_or(live).max(live);
    Figures { resident, live, ..Figures::default() }
}

fn growth(profile: &Profile, grown: &[Growth]) -> Option<Verdict> {
    let rate: f64 = grown.iter().map(|growth| growth.rate).sum();
    let left: f64 = grown.iter().map(|growth| growth.left.bytes).sum();
    let first = grown.first()?;
    let live = profile.live.bytes.max(1.0);
    if left / live < GROWS && rate * HOUR / live < 1.0 {
        return None;
    }
    let more = if grown.len() > 1 { format!(", and {} more", grown.len() - 1) } else { String::new() };
    Some(Verdict {
        kind: "leak",
        title: format!("What is in use grows by {} a minute: it looks like a leak", bytes(rate * 60.0)),
        why: format!(
            "{} of it is from {}{more}. Blocks of all ages are left there, old ones too.",
            bytes(first.left.bytes),
            first.row.place(3)
        ),
        advice: "A cache without a bound looks alike: see what holds these blocks, and what should let them go.".into(),
    })
}

/// What is free then was in use shortly before: it tells nothing of how the program does with its memory.
fn ended(profile: &Profile, figures: &Figures) -> Verdict {
    Verdict {
        kind: "use",
        title: format!("{} in use at the peak, {} in the end", bytes(profile.peak.bytes), bytes(figures.live as f64)),
        why: format!(
            "Of {} resident in the end, {} were cached, {} free pages, {} fragmented: what a program frees as it ends is \
             there still.",
            bytes(figures.resident as f64),
            bytes(figures.cached as f64),
            bytes(figures.retained as f64),
            bytes(figures.fragmented as f64)
        ),
        advice: "To need less, look at the sites that held most at the peak.".into(),
    }
}

fn fragmentation(figures: &Figures) -> Verdict {
    let waste = |class: &&crate::attach::snapshot::Class| {
        let held = class.slab_count * class.span;
        held.saturating_sub((class.live_blocks() + class.cached_blocks) * class.block_size)
    };
    let worst = figures.classes.iter().max_by_key(|class| waste(class));
    let worst = worst
        .map_or(String::new(), |class| format!(" Most of it is among blocks of {}.", bytes(class.block_size as f64)));
    Verdict {
        kind: "fragmentation",
        title: format!(
            "{} of {} resident is free but scattered: fragmentation",
            bytes(figures.fragmented as f64),
            bytes(figures.resident as f64)
        ),
        why: format!("Few blocks that live on keep pages, of which the rest is free.{worst}"),
        advice:
            "Look at what lives long among these sizes: blocks that are allocated at one time should be freed at one \
                 time, or come from a heap of their own."
                .into(),
    }
}

fn retention(figures: &Figures) -> Verdict {
    Verdict {
        kind: "retention",
        title: format!(
            "{} of {} resident is free and kept for what comes next: retention",
            bytes((figures.cached + figures.retained) as f64),
            bytes(figures.resident as f64)
        ),
        why: format!(
            "{} are free blocks of threads, {} are free pages that were not given back so far.",
            bytes(figures.cached as f64),
            bytes(figures.retained as f64)
        ),
        advice:
            "Free pages go back to the kernel after HAKMEM_PURGE_DELAY (half a second). What threads keep goes back as \
                 they go on or end."
                .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::growth;
    use super::*;
    use crate::image::Amount;
    use crate::symbols;
    use std::path::Path;

    fn with(change: impl Fn(&mut Figures)) -> Verdict {
        let mut figures = Figures { resident: 100 << 20, live: 90 << 20, ..Figures::default() };
        change(&mut figures);
        let live = Amount { bytes: 90e6, objects: 1000.0 };
        of(&Profile { live, figures: Some(figures), ..Profile::default() }, &[])
    }

    #[test]
    fn of_an_ended_program_the_peak_is_told() {
        let figures = Figures { resident: 100 << 20, live: 1 << 20, retained: 90 << 20, ..Figures::default() };
        let peak = Amount { bytes: f64::from(95 << 20), objects: 1.0 };
        let profile = Profile { peak, figures: Some(figures), has_ended: true, ..Profile::default() };
        assert_eq!(of(&profile, &[]).title, "95.0 MiB in use at the peak, 1.0 MiB in the end");
    }

    #[test]
    fn each_cause_has_its_verdict() {
        assert_eq!(with(|_| ()).kind, "use");
        assert_eq!(with(|f| f.fragmented = 40 << 20).kind, "fragmentation");
        assert_eq!(with(|f| f.cached = 30 << 20).kind, "retention");
        assert!(with(|f| f.retained = 30 << 20).title.starts_with("30.0 MiB of 100.0 MiB resident is free and kept"));
    }

    #[test]
    fn what_grows_is_a_leak() {
        let fixture = growth::tests::a_service();
        let profile = crate::image::from_bytes(&fixture.bytes(), Path::new("f")).unwrap();
        let grown = growth::of(&profile, &symbols::none(&profile));
        let verdict = of(&profile, &grown);
        assert_eq!(verdict.kind, "leak");
        assert!(verdict.title.contains("240.0 KiB a minute") && verdict.why.contains("0xfff < 0x8fff"), "{verdict:?}");
        assert_eq!(of(&profile, &[]).kind, "use");
        let ended = |elapsed_us| of(&Profile { has_ended: true, elapsed_us, ..profile.clone() }, &grown).kind;
        assert_eq!((ended(TIME_TO_LEAK_US), ended(TIME_TO_LEAK_US - 1)), ("leak", "use"));
    }
}
