// SPDX-License-Identifier: MIT
//! What the last minutes tell: how memory is made up, what grows, and in one sentence what is the matter.

use crate::attach::snapshot::{Class, Snapshot};
use crate::look::human;
use std::collections::VecDeque;

/// Seconds that are kept, a point each.
const KEPT: usize = 300;
/// What is judged, and the least that can be.
const WINDOW: usize = 60;
const WINDOW_MIN: usize = 6;
/// Growth below it is noise.
const GROWTH_MIN: u64 = 64 << 10;
/// A part of what is resident that is worth a word.
const SHARE: f64 = 0.25;
/// Smaller processes have too little for a judgement of parts.
const SMALL: u64 = 4 << 20;

/// The parts of what is resident, as the bar shows them: a name, and a sign that needs no colour.
pub const PARTS: [(&str, &str); 5] =
    [("live", "█"), ("cached", "▓"), ("fragmented", "▒"), ("retained", "░"), ("metadata", "·")];

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    pub seconds: f64,
    pub resident: u64,
    pub live: u64,
    pub cached: u64,
    pub fragmented: u64,
    pub retained: u64,
}

impl Point {
    pub fn of(seconds: f64, snapshot: &Snapshot) -> Point {
        let at = |name| snapshot.value(name);
        Point {
            seconds,
            resident: at("resident"),
            live: at("live"),
            cached: at("cached"),
            fragmented: at("fragmented"),
            retained: at("retained"),
        }
    }
}

#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// Bytes a second, and over how many.
    Grows(f64, f64),
    Fragmented(f64),
    Cached(f64),
    /// The part that is live, and whether it was looked at for long enough to tell growth.
    Steady(f64, bool),
}

impl Verdict {
    pub fn text(&self, pid: i32) -> String {
        let percent = |share: &f64| (share * 100.0).round().min(100.0) as u64;
        match self {
            Verdict::Grows(rate, seconds) => format!(
                "LEAK? live grows by {}/s, for {seconds:.0} s: a leak, or a cache of the program's",
                human(*rate as u64)
            ),
            Verdict::Fragmented(share) => {
                format!("FRAGMENTATION: {} % of resident lies free between live blocks", percent(share))
            }
            Verdict::Cached(share) => {
                format!("CACHE: {} % of resident is freed memory that hakmem keeps; hakmem trim {pid}", percent(share))
            }
            Verdict::Steady(share, false) => {
                format!("{} % of resident is live; whether it grows shows in some seconds", percent(share))
            }
            Verdict::Steady(share, true) => {
                format!("STEADY: {} % of resident is live, and it does not grow", percent(share))
            }
        }
    }
}

#[derive(Default)]
pub struct History {
    points: VecDeque<Point>,
}

impl History {
    pub fn push(&mut self, point: Point) {
        if self.points.len() == KEPT {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    pub fn last(&self) -> Point {
        self.points.back().copied().unwrap_or_default()
    }

    /// The newest `count` values, oldest first.
    pub fn newest(&self, count: usize, of: fn(&Point) -> u64) -> Vec<u64> {
        self.points.iter().skip(self.points.len().saturating_sub(count)).map(of).collect()
    }

    pub fn verdict(&self) -> Verdict {
        if let Some((rate, seconds)) = self.growth() {
            return Verdict::Grows(rate, seconds);
        }
        let now = self.last();
        let share = |bytes: u64| bytes as f64 / now.resident.max(1) as f64;
        let (fragmented, cached) = (share(now.fragmented), share(now.cached + now.retained));
        if now.resident >= SMALL && fragmented > SHARE && fragmented >= cached {
            Verdict::Fragmented(fragmented)
        } else if now.resident >= SMALL && cached > SHARE {
            Verdict::Cached(cached)
        } else {
            Verdict::Steady(share(now.live), self.points.len() >= WINDOW_MIN)
        }
    }

    /// Live memory of the last third of the window lies above all of its first third: what goes up and down does not
    /// grow.
    fn growth(&self) -> Option<(f64, f64)> {
        let window: Vec<Point> = self.points.iter().skip(self.points.len().saturating_sub(WINDOW)).copied().collect();
        if window.len() < WINDOW_MIN {
            return None;
        }
        let third = window.len() / 3;
        let (first, last) = (&window[..third], &window[window.len() - third..]);
        let most = first.iter().map(|point| point.live).max()?;
        let least = last.iter().map(|point| point.live).min()?;
        let mean = |points: &[Point], of: fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
        let grown = mean(last, |point| point.live as f64) - mean(first, |point| point.live as f64);
        let seconds = mean(last, |point| point.seconds) - mean(first, |point| point.seconds);
        let noise = (most / 100).max(GROWTH_MIN);
        (least > most + noise && seconds > 0.0)
            .then(|| (grown / seconds, window[window.len() - 1].seconds - window[0].seconds))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sort {
    Live,
    Growth,
    Allocations,
    Cached,
    Size,
}

impl Sort {
    pub const ALL: [Sort; 5] = [Sort::Live, Sort::Growth, Sort::Allocations, Sort::Cached, Sort::Size];

    pub fn name(self) -> &'static str {
        match self {
            Sort::Live => "live",
            Sort::Growth => "growth",
            Sort::Allocations => "allocations",
            Sort::Cached => "cached",
            Sort::Size => "size",
        }
    }

    pub fn next(self) -> Sort {
        let at = Sort::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Sort::ALL[(at + 1) % Sort::ALL.len()]
    }
}

/// A size class, with what changed since the last look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    pub size: u64,
    pub blocks: u64,
    pub live: u64,
    pub cached: u64,
    pub growth: f64,
    pub allocations: f64,
}

pub fn lines(now: &[Class], before: &[Class], seconds: f64, sort: Sort) -> Vec<Line> {
    let line = |(at, class): (usize, &Class)| {
        let old = before.get(at).cloned().unwrap_or_else(|| class.clone());
        let change = |now: u64, old: u64| (now as f64 - old as f64) / seconds.max(0.001);
        Line {
            size: class.block_size,
            blocks: class.live_blocks(),
            live: class.live_blocks() * class.block_size,
            cached: class.cached_blocks * class.block_size,
            growth: change(class.live_blocks(), old.live_blocks()) * class.block_size as f64,
            allocations: change(class.alloc_count, old.alloc_count).max(0.0),
        }
    };
    let mut all: Vec<Line> = now.iter().enumerate().filter(|(_, class)| !class.is_empty()).map(line).collect();
    let key = |line: &Line| match sort {
        Sort::Live => line.live as f64,
        Sort::Growth => line.growth,
        Sort::Allocations => line.allocations,
        Sort::Cached => line.cached as f64,
        Sort::Size => -(line.size as f64),
    };
    all.sort_by(|a, b| key(b).total_cmp(&key(a)));
    all
}

/// "+1.2 MiB/s".
pub fn rate(bytes: f64) -> String {
    let sign = if bytes > 0.0 {
        "+"
    } else if bytes < 0.0 {
        "-"
    } else {
        ""
    };
    format!("{sign}{}/s", human(bytes.abs() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(live: impl Fn(u64) -> u64, resident: u64) -> History {
        let mut history = History::default();
        for second in 0..30 {
            let point = Point { seconds: second as f64, live: live(second), resident, ..Point::default() };
            history.push(point);
        }
        history
    }

    #[test]
    fn what_only_grows_is_a_leak_and_what_breathes_is_none() {
        let leak = history(|second| (100 + second) << 20, 200 << 20).verdict();
        let Verdict::Grows(rate, seconds) = leak else { panic!("{leak:?}") };
        assert!((rate - (1 << 20) as f64).abs() < 1.0 && seconds == 29.0);
        assert!(leak.text(1).contains("grows by 1.0 MiB/s"));
        let breathing = history(|second| (100 + 20 * (second % 5)) << 20, 200 << 20).verdict();
        assert!(matches!(breathing, Verdict::Steady(_, true)), "{breathing:?}");
        let young = {
            let mut history = History::default();
            history.push(Point::default());
            history.verdict()
        };
        assert!(matches!(young, Verdict::Steady(_, false)));
        assert!(!young.text(1).contains("does not grow"));
    }

    #[test]
    fn the_larger_part_is_named() {
        let verdict = |fragmented: u64, cached: u64, retained: u64| {
            let mut history = history(|_| 40 << 20, 100 << 20);
            let last = history.last();
            history.push(Point {
                fragmented: fragmented << 20,
                cached: cached << 20,
                retained: retained << 20,
                ..last
            });
            history.verdict()
        };
        assert_eq!(verdict(50, 5, 5), Verdict::Fragmented(0.5));
        assert_eq!(verdict(10, 20, 30), Verdict::Cached(0.5));
        assert_eq!(verdict(10, 5, 5), Verdict::Steady(0.4, true));
        assert!(verdict(10, 20, 30).text(7).ends_with("hakmem trim 7"));
    }

    #[test]
    fn classes_are_sorted_by_what_is_asked_for() {
        let class = |size: u64, count: u64| {
            let mut class = Class::default();
            (class.block_size, class.alloc_count) = (size, count);
            class
        };
        let (before, now) = ([class(16, 1000), class(64, 100)], [class(16, 1001), class(64, 200)]);
        let first = |sort: Sort| lines(&now, &before, 1.0, sort)[0].size;
        assert_eq!((first(Sort::Live), first(Sort::Growth), first(Sort::Size)), (16, 64, 16));
        assert_eq!(lines(&now, &before, 2.0, Sort::Growth)[0].growth, 3200.0);
        assert_eq!(Sort::Size.next(), Sort::Live);
        assert_eq!((rate(2048.0), rate(-10.0), rate(0.0)), ("+2.0 KiB/s".into(), "-10 B/s".into(), "0 B/s".into()));
    }
}
