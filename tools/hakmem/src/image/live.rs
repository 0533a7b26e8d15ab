// SPDX-License-Identifier: MIT
//! The profile of a process, copied while it runs and samples on.

use super::decode::{self, Section};
use super::layout::{self, header, point, sample, site, stack, thread};
use super::{Figures, Profile};
use crate::attach::memory::Memory;
use crate::attach::snapshot::Snapshot;
use crate::attach::Attached;
use crate::attach::{self, maps};
use crate::failure::Failure;
use crate::lists::Word;
use anyhow::{bail, ensure, Context, Result};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Copies of a profile that is started anew meanwhile.
const TRIES: usize = 4;
const TABLE_MAX: u64 = 16 << 30;
/// A call reads less than 2 GiB.
const PIECE: usize = 256 << 20;
/// Words a call: the kernel takes 1,024 pieces.
const WORDS: usize = 1024;

/// Fails with what to do when the process has no profile.
pub fn copy_of(process: &Attached) -> Result<Profile> {
    let about = || format!("process {} ({})", process.pid, process.comm);
    let mut profile = copy(process).with_context(about)?;
    profile.origin = about();
    profile.comm.clone_from(&process.comm);
    profile.pid = process.pid as u32; // in a container it knows itself by another number
    if profile.is_active {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        profile.elapsed_us = until(&profile, now, attach::age(process.pid));
    }
    profile.maps = mappings(process).with_context(about)?;
    let settings = process.settings().unwrap_or_default();
    profile.options = settings.into_iter().map(|of| (format!("HAKMEM_{}", of.name), of.value)).collect();
    profile.figures = process.snapshot().ok().map(|snapshot| figures(&snapshot));
    Ok(profile)
}

/// Microseconds from its start to now; the process has written when it sampled last. The clock may have been set since:
/// it is no longer than the process has run.
fn until(profile: &Profile, now: Duration, age: Option<Duration>) -> u64 {
    let passed = now.saturating_sub(Duration::from_nanos(profile.start_unix_ns));
    let passed = age.map_or(passed, |age| passed.min(age));
    profile.elapsed_us.max(passed.as_micros() as u64)
}

/// Whether there is something to copy.
pub fn is_there(process: &Attached) -> Result<bool> {
    let mut magic = [0; 16];
    process.memory.read(process.record.word(Word::Profile)?, &mut magic)?;
    Ok(decode::is_profile(&magic))
}

fn copy(process: &Attached) -> Result<Profile> {
    let address = process.record.word(Word::Profile)?;
    for _ in 0..TRIES {
        let head = head(&process.memory, address)?;
        if !decode::is_profile(&head) {
            bail!(Failure::NoProfile(no_profile(process.pid)));
        }
        decode::check_format(&head)?;
        let profile = tables(process, address)?;
        let resets = |head: &[u8]| header::RESETS.of(head);
        if resets(&head) == resets(&self::head(&process.memory, address)?) {
            return Ok(profile);
        }
    }
    bail!("its profile is started anew again and again")
}

pub fn no_profile(pid: i32) -> String {
    format!(
        "there is no heap profile in process {pid} so far; `hakmem profile {pid} --for 30s` makes one from now on, and \
         `hakmem run --profile -- PROGRAM` makes one from a program's start on"
    )
}

fn head(memory: &Memory, address: u64) -> Result<Vec<u8>> {
    let mut head = vec![0; header::STRIDE_BYTES];
    memory.read(address, &mut head)?;
    Ok(head)
}

/// Samples before sites, and sites before stacks: so what an entry refers to is there.
fn tables(process: &Attached, address: u64) -> Result<Profile> {
    let memory = &process.memory;
    let get = |kind, entry| {
        let head = head(memory, address)?;
        let (start, stride, count) = decode::section_list(&head)?;
        let mut list = vec![0; stride * count];
        memory.read(address + start, &mut list)?;
        decode::table(&decode::sections(&list, stride), kind, entry, |section| piece(memory, section))
    };
    let samples = get(layout::PROFILE_SAMPLES, sample::STRIDE_BYTES)?;
    let sites = get(layout::PROFILE_SITES, site::STRIDE_BYTES)?;
    let stacks = get(layout::PROFILE_STACKS, stack::STRIDE_BYTES)?;
    let head = head(memory, address)?;
    let mut profile = decode::from_header(&head);
    decode::add_stacks(&mut profile, &stacks);
    decode::add_sites(&mut profile, &sites, header::PEAK_EPOCH.of(&head));
    let samples = without_freed(process, samples)?;
    decode::add_samples(&mut profile, &samples);
    decode::add_timeline(&mut profile, &get(layout::PROFILE_TIMELINE, point::STRIDE_BYTES)?);
    decode::add_threads(&mut profile, &get(layout::PROFILE_THREADS, thread::STRIDE_BYTES)?);
    Ok(profile)
}

fn piece(memory: &Memory, section: &Section) -> Result<Vec<u8>> {
    ensure!(section.bytes <= TABLE_MAX, "its profile is damaged");
    let mut bytes = vec![0; section.bytes as usize];
    let mut at = section.place;
    for part in bytes.chunks_mut(PIECE) {
        memory.read(at, part)?;
        at += part.len() as u64;
    }
    Ok(bytes)
}

/// Leaves out blocks that were freed unnoticed: their live bit is set again.
fn without_freed(process: &Attached, mut table: decode::Table) -> Result<decode::Table> {
    use sample as s;
    let bits = process.memory.number(process.record.word(Word::LiveBits)?, 8)?;
    let granule = |entry: &[u8]| s::ADDRESS.of(entry) / 16;
    let asked =
        |entry: &[u8]| s::ADDRESS.of(entry) != 0 && s::FLAGS.of(entry) & layout::PROFILE_SAMPLE_HAS_BIT as u64 != 0;
    let places: Vec<(usize, u64)> =
        table.entries().enumerate().filter(|(_, e)| asked(e)).map(|(at, e)| (at, granule(e))).collect();
    for group in places.chunks(WORDS) {
        let pieces: Vec<(u64, usize)> = group.iter().map(|&(_, g)| (bits.wrapping_add(g / 64 * 8), 8)).collect();
        let mut words = vec![0; 8 * group.len()];
        if process.memory.read_pieces(&pieces, &mut words).is_err() {
            continue; // part of the window has gone meanwhile
        }
        for (&(at, granule), word) in group.iter().zip(words.chunks_exact(8)) {
            let word = u64::from_ne_bytes(word.try_into().expect("8 bytes"));
            if word >> (granule % 64) & 1 == 1 {
                let start = at * s::STRIDE_BYTES + s::ADDRESS.offset;
                table.bytes[start..start + s::ADDRESS.size].fill(0);
            }
        }
    }
    Ok(table)
}

fn mappings(process: &Attached) -> Result<Vec<maps::Mapping>> {
    let mut maps = maps::of_process(process.thread)?;
    maps::add_build_ids(&mut maps, |map| maps::build_id_in(&process.memory, map.start));
    Ok(maps)
}

pub fn figures(snapshot: &Snapshot) -> Figures {
    let value = |name| snapshot.value(name);
    Figures {
        resident: value("resident"),
        live: value("live"),
        untouched: value("untouched"),
        cached: value("cached"),
        fragmented: value("fragmented"),
        retained: value("retained"),
        metadata: value("metadata"),
        given_back: value("purged_bytes"),
        classes: snapshot.classes.iter().filter(|class| !class.is_empty()).cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_sampled_still_is_sampled_until_now() {
        let seconds = Duration::from_secs;
        let profile =
            Profile { start_unix_ns: 1_000_000_000_000, elapsed_us: 112_000, is_active: true, ..Profile::default() };
        assert_eq!(until(&profile, seconds(1060), Some(seconds(100))), 60_000_000);
        assert_eq!(until(&profile, seconds(1060), None), 60_000_000);
        assert_eq!(until(&profile, seconds(9_999_999), Some(seconds(100))), 100_000_000, "the clock was set");
        assert_eq!(until(&profile, seconds(1), Some(seconds(100))), 112_000, "the clock was set back");
    }
}
