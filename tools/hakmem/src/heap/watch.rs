// SPDX-License-Identifier: MIT
//! A process that is sampled for a time, if nobody samples it already.

use crate::attach;
use crate::attach::request::{Answer, Order};
use crate::attach::rest::{Rest, Why};
use crate::attach::source::Source;
use crate::attach::turn::Look;
use crate::failure::{self, Failure};
use crate::image::Profile;
use crate::output::{places_text, remark};
use crate::signals;
use anyhow::{bail, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// About 1 % of a core, at two microseconds a sample.
const SAMPLES_A_SECOND: u64 = 5000;
const INTERVAL_MIN: u64 = 4 << 10;
const INTERVAL_MAX: u64 = 512 << 10;
const LOOK: Duration = Duration::from_millis(200);
const TIME_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
const STEP: Duration = Duration::from_millis(100);
/// Between copies of a profile whose process may end, and the part of the time that they take at most.
const FIRST_COPY: Duration = Duration::from_millis(200);
const COPY: Duration = Duration::from_secs(1);
const SHARE: u32 = 50;

/// How long a look takes: until a signal ends it, or nobody waits for it any more.
pub struct Time<'a> {
    left: Duration,
    is_awaited: &'a dyn Fn() -> bool,
}

impl Time<'_> {
    pub fn of(left: Duration) -> Time<'static> {
        Time { left, is_awaited: &|| true }
    }

    pub fn awaited(left: Duration, is_awaited: &dyn Fn() -> bool) -> Time<'_> {
        Time { left, is_awaited }
    }

    fn is_over(&self) -> bool {
        self.left.is_zero() || signals::came() || !(self.is_awaited)()
    }

    /// A step of it.
    fn pass(&mut self) {
        let begin = Instant::now();
        std::thread::sleep(STEP.min(self.left));
        self.left = self.left.saturating_sub(begin.elapsed());
    }
}

/// What was sampled before, and what there is when the time is over. A process that begins another program meanwhile,
/// as scripts do at their start, is sampled anew for what is left of the time.
pub fn watched(pid: i32, every: Option<u64>, mut time: Time) -> Result<(Option<Profile>, Profile)> {
    let mut has_changed = false;
    loop {
        let error = match watch(pid, every, &mut time) {
            Err(error) if !time.is_over() => error,
            outcome => {
                if has_changed && outcome.is_ok() {
                    let what = "has begun another program (execve) meanwhile: this is of that one alone";
                    remark(format_args!("hakmem: process {pid} {what}"));
                }
                return outcome;
            }
        };
        has_changed |= attach::has_moved(&error);
        let is_between = has_changed && (attach::has_moved(&error) || failure::is_no_hakmem(&error));
        if !is_between {
            return Err(error);
        }
        time.pass();
    }
}

fn watch(pid: i32, every: Option<u64>, time: &mut Time) -> Result<(Option<Profile>, Profile)> {
    let process = Source::to(pid)?;
    let (sampling, before) = Sampling::begin(&process, every)?;
    let mut last = None;
    let outcome = pause(&sampling, time, &mut last).and_then(|()| sampling.profile());
    drop(sampling);
    match (outcome, last) {
        (Err(error), Some(seen)) if attach::has_ended(pid, &error) => {
            remark(format_args!("hakmem: process {pid} has ended: this is what it had when it was last looked at"));
            Ok((before, Profile { is_running: false, ..seen })) // what leads to its files by its number is gone
        }
        (outcome, _) => match outcome? {
            Some(profile) => Ok((before, profile)),
            None => Err(without_samples(&process)),
        },
    }
}

fn without_samples(process: &Source) -> anyhow::Error {
    match process.check_place() {
        Err(error) => error,
        Ok(()) => Failure::NoProfile(nothing_seen(Rest::of(process.pid))).into(),
    }
}

/// How far a profile had come that nobody made any more.
#[derive(Clone, Copy, Debug)]
struct Mark {
    resets: u64,
    elapsed_us: u64,
}

impl Mark {
    fn of(profile: &Profile) -> Option<Mark> {
        (!profile.is_active).then_some(Mark { resets: profile.resets, elapsed_us: profile.elapsed_us })
    }

    /// It goes on, or has gone on for a while: time counts while somebody samples.
    fn is_passed(self, profile: &Profile) -> bool {
        let before_us = if profile.resets == self.resets { self.elapsed_us } else { 0 };
        profile.is_active || profile.elapsed_us > before_us
    }
}

/// Ends with this, however that is left.
struct Sampling<'a> {
    process: &'a Source,
    look: Look,
    /// None: there was no profile, or it was going on.
    mark: Option<Mark>,
    /// The program has itself sampled, before or by now, and goes on with that. So it is with what another tool began
    /// where this user cannot know whether that still looks.
    is_of_program: Cell<bool>,
    /// As far as is known.
    is_on: Cell<bool>,
}

impl Sampling<'_> {
    /// And what was sampled before. A start that was refused needs no end; one that was not answered may come late.
    fn begin(process: &Source, every: Option<u64>) -> Result<(Sampling<'_>, Option<Profile>)> {
        let pid = process.pid;
        let mut look = Look::begin(pid);
        let mut before = process.profile()?;
        let mark = before.as_ref().and_then(Mark::of);
        // What a tool that was killed has left on is begun anew, and so ended.
        let is_left = |profile: &Profile| profile.is_asked && look.is_alone && look.is_known();
        let active = before.as_ref().filter(|profile| profile.is_active && !is_left(profile));
        let is_of_program = active.is_some_and(|profile| profile.is_of_program() || !look.is_known());
        let started = match active {
            Some(profile) => {
                if every.is_some() {
                    let how = profile.sampling();
                    remark(format_args!("hakmem: process {pid} is sampled already: --every does not apply, {how}"));
                }
                Ok(())
            }
            None => {
                let every = every.map_or_else(|| by_rate(process), Ok)?;
                before.iter_mut().for_each(skip_rest);
                ask(process, &Order::ProfileStart(every), true)
            }
        };
        let started = match started {
            Err(error) if failure::is_refused(&error) || failure::is_at_rest(&error) => return Err(error),
            other => other,
        };
        match is_of_program {
            true => look.leave(),
            false => look.go_on(),
        }
        let (is_of_program, is_on) = (Cell::new(is_of_program), Cell::new(true));
        let sampling = Sampling { process, look, mark, is_of_program, is_on };
        started.map(|()| (sampling, before))
    }

    /// As it is now; None: it never began.
    fn profile(&self) -> Result<Option<Profile>> {
        let profile = self.process.profile()?;
        self.is_on.set(profile.as_ref().is_some_and(|profile| profile.is_active));
        self.is_of_program.set(self.is_of_program.get() || profile.as_ref().is_some_and(Profile::is_of_program));
        Ok(profile.filter(|profile| self.mark.is_none_or(|mark| mark.is_passed(profile))))
    }
}

impl Drop for Sampling<'_> {
    /// Not in another program. Where sampling never began, what would begin it is taken back.
    fn drop(&mut self) {
        if self.is_of_program.get() || !self.look.is_last() || self.process.check_place().is_err() {
            return;
        }
        match ask(self.process, &Order::ProfileStop, self.is_on.get()) {
            Err(error) if !attach::has_ended(self.process.pid, &error) => remark(format_args!("hakmem: {error:#}")),
            _ => {}
        }
    }
}

/// An idle process follows when it next needs memory.
fn ask(process: &Source, order: &Order, stays: bool) -> Result<()> {
    let pid = process.pid;
    match process.ask(order, stays)? {
        None if stays => {
            let rest = Rest::of(pid);
            remark(format_args!("hakmem: process {pid} is {}: it follows {}", rest.state(), rest.end()))
        }
        None | Some(Answer { status: 0, .. }) => {}
        Some(Answer { status, .. }) => {
            let why = std::io::Error::from_raw_os_error(status as i32);
            bail!(Failure::Refused(format!("process {pid} cannot be sampled: {why}")))
        }
    }
    Ok(())
}

/// The request does not outlive the look.
fn nothing_seen(rest: Rest) -> String {
    let pid = rest.pid;
    match rest.why {
        Why::Stopped | Why::Crowded(_) => format!(
            "process {pid} is {}, so sampling did not begin, and the request was withdrawn; {} again",
            rest.state(),
            rest.before("try")
        ),
        Why::Idle => format!(
            "process {pid} allocated too little in that time to begin: there is nothing to show, and the request was \
             withdrawn. Try again while it works, look for longer (--for 5m), or start it with `hakmem run --profile \
             -- PROGRAM`"
        ),
    }
}

/// Small where little is allocated, so that slow leaks are seen.
fn by_rate(process: &Source) -> Result<u64> {
    let (begin, before) = (Instant::now(), process.allocated()?);
    std::thread::sleep(LOOK);
    let bytes = process.allocated()?.saturating_sub(before) as f64 / begin.elapsed().as_secs_f64();
    Ok(interval_for(bytes as u64))
}

/// Nobody sampled since its last event: what comes from now on is behind that.
fn skip_rest(before: &mut Profile) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    before.elapsed_us = before.elapsed_us.max(now.saturating_sub(before.start_unix_ns) / 1000);
}

fn interval_for(bytes_a_second: u64) -> u64 {
    (bytes_a_second / SAMPLES_A_SECOND).clamp(INTERVAL_MIN, INTERVAL_MAX).next_power_of_two()
}

/// With a bar on a terminal. Whether the process is the program still that it was is looked at meanwhile, and what it
/// has: it may end.
fn pause(sampling: &Sampling, time: &mut Time, last: &mut Option<Profile>) -> Result<()> {
    let (process, whole) = (sampling.process, time.left);
    let length = whole.as_millis() as u64;
    let bar = if places_text() { ProgressBar::new(length) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{bar:40} {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut remains = Ok(());
    let (mut next, mut pause) = (Instant::now() + FIRST_COPY, FIRST_COPY);
    while remains.is_ok() && !time.is_over() {
        bar.set_position((whole - time.left).as_millis() as u64);
        time.pass();
        remains = process.check_place();
        if process.is_read() && Instant::now() >= next {
            let begin = Instant::now();
            *last = sampling.profile().ok().flatten().or(last.take());
            pause = (pause * 2).min(COPY).max(begin.elapsed() * SHARE);
            next = Instant::now() + pause;
        }
    }
    bar.finish_and_clear();
    remains
}

/// "30s", "500ms", "5m", "1h"; at most a year.
pub fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time: 30s, 500ms, 5m, 1h".to_string();
    let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..unit].parse().map_err(|_| wrong())?;
    let milliseconds = match &text[unit..] {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let time = Duration::from_millis(number.saturating_mul(milliseconds));
    (time <= TIME_MAX).then_some(time).ok_or_else(|| "at most a year, 8760h".to_string())
}

pub fn interval(text: &str) -> Result<u64, String> {
    let wrong = || "expected a size: 512K, 64K, 1".to_string();
    let bytes = crate::flags::bytes(text).filter(|bytes| (1..=1 << 40).contains(bytes));
    bytes.map(|bytes| bytes as u64).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(time("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("2m"), time("120s"));
        assert!(time("30").is_err() && time("s").is_err() && time("-1s").is_err() && time("5y").is_err());
        assert!(time("8760h").is_ok() && time("9999999999999999999h").is_err());
        assert_eq!(time("999999999999h").unwrap_err(), "at most a year, 8760h");
        assert_eq!((interval("64K"), interval("1")), (Ok(65536), Ok(1)));
        assert!(interval("0").is_err());
    }

    #[test]
    fn samples_are_as_many_as_a_core_bears() {
        assert_eq!(interval_for(0), 4096);
        assert_eq!(interval_for(1 << 30), 256 << 10);
        assert_eq!(interval_for(u64::MAX), 512 << 10);
    }

    #[test]
    fn a_profile_from_before_has_not_begun() {
        let profile = |resets, elapsed_us, is_active| Profile { resets, elapsed_us, is_active, ..Profile::default() };
        let mark = Mark::of(&profile(1, 500, false)).unwrap();
        assert!(!mark.is_passed(&profile(1, 500, false)));
        assert!(mark.is_passed(&profile(1, 500, true)), "it goes on");
        assert!(mark.is_passed(&profile(1, 501, false)), "it went on, and another has ended it");
        assert!(mark.is_passed(&profile(2, 7, false)), "the program has begun it anew");
        assert!(!mark.is_passed(&profile(2, 0, false)), "the program has emptied it");
        assert!(Mark::of(&profile(1, 500, true)).is_none());
    }

    #[test]
    fn a_process_that_never_began_is_told_what_is_true() {
        let idle = nothing_seen(Rest { pid: 7, why: Why::Idle });
        assert!(idle.contains("was withdrawn") && idle.contains("--for 5m") && !idle.contains("It begins"), "{idle}");
        let stopped = nothing_seen(Rest { pid: 7, why: Why::Stopped });
        assert!(stopped.contains("is stopped") && stopped.contains("kill -CONT 7"), "{stopped}");
    }
}
