// SPDX-License-Identifier: MIT
//! A heap profile: of a file, or of a process that runs (docs/profile-format.md).

mod decode;
#[cfg(test)]
pub mod fixture;
pub mod layout;
mod live;

pub use decode::from_bytes;
pub use live::{copy_of, is_there, no_profile};

use crate::attach::maps::{self, Mapping};
use crate::attach::snapshot::Class;

/// Bytes and blocks, as estimated from samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount {
    pub bytes: f64,
    pub objects: f64,
}

impl Amount {
    pub fn add(&mut self, other: Amount) {
        self.bytes += other.bytes;
        self.objects += other.objects;
    }

    pub fn minus(self, other: Amount) -> Amount {
        Amount { bytes: self.bytes - other.bytes, objects: self.objects - other.objects }
    }

    fn of_all(parts: &[Amount]) -> Amount {
        let mut sum = Amount::default();
        parts.iter().for_each(|part| sum.add(*part));
        sum
    }

    fn or_none(self) -> Amount {
        Amount { bytes: self.bytes.max(0.0), objects: self.objects.max(0.0) }
    }
}

/// A frame, and the one that called it; 0: none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    pub pc: u64,
    pub parent: u32,
}

pub const LIFETIMES: usize = layout::PROFILE_LIFETIMES;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    pub stack: u32,
    pub samples: u64,
    pub freed_samples: u64,
    pub alloc: Amount,
    pub freed: Amount,
    pub live: Amount,
    pub peak: Amount,
    pub temporary: Amount,
    /// Objects freed by the thread that allocated them.
    pub same_thread: f64,
    /// Objects freed at an age from 4^n to 4^(n+1) microseconds.
    pub lifetimes: [f64; LIFETIMES],
}

/// A sampled block that the program has.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub address: u64,
    pub size: u64,
    pub slack: u64,
    pub time_us: u64,
    pub site: u32,
    pub thread: u32,
    /// What it stands for.
    pub weight: Amount,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    pub time_us: u64,
    pub live: Amount,
    /// None: not known.
    pub resident: Option<u64>,
    pub mapped: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    pub id: u32,
    pub name: String,
}

/// Where the memory of a process is: parts of what is resident, in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    pub resident: u64,
    pub live: u64,
    pub untouched: u64,
    pub cached: u64,
    pub fragmented: u64,
    pub retained: u64,
    pub metadata: u64,
    /// Given back to the kernel since the start.
    pub given_back: u64,
    pub classes: Vec<Class>,
}

#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// "process 12 (python3)", or a file.
    pub origin: String,
    pub pid: u32,
    pub comm: String,
    /// The process ran as it was read.
    pub is_running: bool,
    pub is_active: bool,
    /// ... because a tool has asked for it, who is to end it.
    pub is_asked: bool,
    /// It wrote this as the last thing that it did.
    pub has_ended: bool,
    /// Bytes between samples on average, now and as it was asked for; 1: each allocation.
    pub interval: u64,
    pub first_interval: u64,
    /// The longest that a thread had of its own, as it allocated in haste; 1 where none had one.
    pub longest_interval: u64,
    pub thinnings: u64,
    /// How often the program began its profile anew.
    pub resets: u64,
    pub samples_taken: u64,
    pub samples_lost: u64,
    pub start_unix_ns: u64,
    pub elapsed_us: u64,
    pub alloc: Amount,
    pub live: Amount,
    pub peak: Amount,
    pub peak_us: u64,
    /// Place 0 of each is none.
    pub nodes: Vec<Node>,
    pub sites: Vec<Site>,
    pub samples: Vec<Sample>,
    pub timeline: Vec<Point>,
    pub threads: Vec<Thread>,
    pub maps: Vec<Mapping>,
    pub options: Vec<(String, String)>,
    pub figures: Option<Figures>,
}

impl Profile {
    /// The frames' places, from the innermost on. A damaged tree ends where it is damaged.
    pub fn stack(&self, innermost: u32) -> Vec<u64> {
        let mut frames = Vec::new();
        let mut at = innermost;
        while let Some(node) = (at != 0).then(|| self.nodes.get(at as usize)).flatten() {
            frames.push(node.pc);
            if node.parent >= at && node.parent != 0 {
                break; // callers come before those that they call
            }
            at = node.parent;
        }
        frames
    }

    /// What was allocated and freed since an earlier copy of this profile, and in how long. In use is what was
    /// allocated since: blocks from before that are left count neither now, nor at the peak, nor in the course of time.
    /// Of a peak from before nothing is known but what is in use now. Of a profile that the program has begun anew
    /// since, nothing was before.
    pub fn since(mut self, before: &Profile) -> Profile {
        if self.resets != before.resets {
            return self;
        }
        let from_us = before.elapsed_us.min(self.elapsed_us);
        self.start_unix_ns += from_us * 1000;
        self.elapsed_us -= from_us;
        self.samples_taken = self.samples_taken.saturating_sub(before.samples_taken);
        self.samples_lost = self.samples_lost.saturating_sub(before.samples_lost);
        self.timeline.retain(|point| point.time_us >= from_us);
        self.timeline.iter_mut().for_each(|point| point.time_us -= from_us);
        self.leave_out_until(from_us);
        for (site, old) in self.sites.iter_mut().zip(&before.sites) {
            for (now, then) in
                [(&mut site.alloc, old.alloc), (&mut site.freed, old.freed), (&mut site.temporary, old.temporary)]
            {
                *now = now.minus(then);
            }
            site.samples = site.samples.saturating_sub(old.samples);
            site.freed_samples = site.freed_samples.saturating_sub(old.freed_samples);
            site.same_thread -= old.same_thread;
            site.lifetimes.iter_mut().zip(old.lifetimes).for_each(|(now, then)| *now -= then);
        }
        self.alloc = self.alloc.minus(before.alloc);
        self
    }

    /// The blocks from before that time.
    fn leave_out_until(&mut self, from_us: u64) {
        let is_new = |sample: &Sample| sample.time_us >= from_us;
        let (new, old): (Vec<Sample>, Vec<Sample>) = std::mem::take(&mut self.samples).into_iter().partition(is_new);
        let (live, left) = (self.sums(&new), self.sums(&old));
        let has_peak = self.peak_us >= from_us;
        let at_peak = |peak: Amount, live, left| if has_peak { peak.minus(left).or_none() } else { live };
        for (at, site) in self.sites.iter_mut().enumerate() {
            site.live = live[at];
            site.peak = at_peak(site.peak, live[at], left[at]);
        }
        let (live, left) = (Amount::of_all(&live), Amount::of_all(&left));
        self.live = live;
        self.peak = at_peak(self.peak, live, left);
        self.peak_us = if has_peak { self.peak_us - from_us } else { self.elapsed_us };
        self.timeline.iter_mut().for_each(|point| point.live = point.live.minus(left).or_none());
        self.samples = new;
        self.samples.iter_mut().for_each(|sample| sample.time_us -= from_us);
    }

    /// Of each site.
    fn sums(&self, samples: &[Sample]) -> Vec<Amount> {
        let mut sums = vec![Amount::default(); self.sites.len()];
        samples.iter().for_each(|sample| sums[sample.site as usize].add(sample.weight));
        sums
    }

    /// The sites without the one that is none, and without those of which the profile tells nothing.
    pub fn real_sites(&self) -> impl Iterator<Item = (usize, &Site)> {
        let tells = |site: &Site| site.samples + site.freed_samples > 0 || site.live.objects + site.peak.objects > 0.0;
        self.sites.iter().enumerate().skip(1).filter(move |(_, site)| tells(site))
    }

    pub fn mapping(&self, address: u64) -> Option<&Mapping> {
        maps::find(&self.maps, address)
    }

    pub fn thread_name(&self, id: u32) -> String {
        let named = self.threads.iter().find(|thread| thread.id == id);
        named.map_or_else(|| format!("thread {id}"), |thread| thread.name.clone())
    }

    /// Sampled, and no tool has asked for it.
    pub fn is_of_program(&self) -> bool {
        self.is_active && !self.is_asked
    }

    /// Of the samples that the figures come from.
    pub fn sampling(&self) -> String {
        let every = match self.interval {
            1 => "each allocation is sampled".into(),
            bytes => format!("a sample each {} on average", crate::look::human(bytes)),
        };
        format!("{every}, {} samples", self.samples_taken)
    }
}
