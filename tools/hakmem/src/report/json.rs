// SPDX-License-Identifier: MIT
//! The profile as JSON.

use super::groups;
use super::view::{rows, Row, Show};
use crate::image::{Amount, Figures, Profile};
use crate::symbols::{Frame, Symbols};
use serde_json::{json, Value};

pub fn amount(of: Amount) -> Value {
    json!({"bytes": of.bytes.round() as i64, "blocks": of.objects.round() as i64})
}

fn frame(frame: &Frame) -> Value {
    let mut object = json!({"function": frame.name, "module": frame.module});
    if !frame.file.is_empty() {
        object["file"] = json!(frame.file);
        object["line"] = json!(frame.line);
    }
    object
}

fn row(row: &Row) -> Value {
    json!({
        "in_use": amount(row.live), "peak": amount(row.peak), "allocated": amount(row.alloc),
        "temporary": amount(row.temporary), "samples": row.samples,
        "freed_by_age": row.lifetimes.map(|objects| objects.round() as i64),
        "stack": row.frames.iter().map(frame).collect::<Vec<_>>(),
    })
}

pub fn figures(figures: &Figures) -> Value {
    json!({
        "resident": figures.resident, "live": figures.live, "untouched": figures.untouched, "cached": figures.cached,
        "fragmented": figures.fragmented, "retained": figures.retained, "metadata": figures.metadata,
        "given_back": figures.given_back,
    })
}

pub fn profile(profile: &Profile, symbols: &Symbols, show: Show) -> Value {
    let point = |p: &crate::image::Point| json!({"ms": p.time_us / 1000, "live": p.live.bytes.round() as i64, "resident": p.resident, "mapped": p.mapped});
    let group = |g: &groups::Group| json!({"thread": g.name, "in_use": amount(g.live)});
    let class =
        |c: &groups::Class| json!({"block_size": c.size, "in_use": amount(c.live), "slack": c.slack.round() as i64});
    json!({
        "origin": profile.origin,
        "process": profile.pid,
        "interval": profile.interval,
        "first_interval": profile.first_interval,
        "longest_interval": profile.longest_interval.max(profile.interval),
        "samples": profile.samples_taken,
        "samples_lost": profile.samples_lost,
        "start_unix_ns": profile.start_unix_ns,
        "elapsed_ms": profile.elapsed_us / 1000,
        "in_use": amount(profile.live),
        "allocated": amount(profile.alloc),
        "peak": amount(profile.peak),
        "peak_ms": profile.peak_us / 1000,
        "memory": profile.figures.as_ref().map(figures),
        "sites": rows(profile, symbols, show).iter().map(row).collect::<Vec<_>>(),
        "threads": groups::by_thread(profile).iter().map(group).collect::<Vec<_>>(),
        "classes": groups::by_class(profile).iter().map(class).collect::<Vec<_>>(),
        "timeline": profile.timeline.iter().map(point).collect::<Vec<_>>(),
        "without_names": symbols.missing.iter().map(|missing| json!({
            "file": missing.path, "build_id": missing.build_id, "why": missing.why, "places": missing.places
        })).collect::<Vec<_>>(),
    })
}
