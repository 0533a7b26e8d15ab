// SPDX-License-Identifier: MIT
//! `hakmem profile --stop`: ends the sampling of a process, also where the tool that began it was killed.

use crate::attach::request::Order;
use crate::attach::rest::Rest;
use crate::attach::source::Source;
use crate::attach::turn::Look;
use crate::report::view::duration;
use anyhow::Result;
use serde_json::json;

/// What it was found to do, and does now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    NotSampled,
    /// It had been asked, and had not come to it.
    Withdrawn,
    /// Its profile began so many microseconds ago: pauses between two times of sampling count.
    Stopped(u64),
    /// It is at rest.
    StopsLater(u64),
}

pub struct Ended {
    pid: i32,
    comm: String,
    outcome: Outcome,
    /// Another tool looks at it meanwhile.
    is_looked_at: bool,
}

pub fn ended(pid: i32) -> Result<Ended> {
    let process = Source::to(pid)?;
    let is_looked_at = !Look::begin(pid).is_alone;
    let outcome = end(&process)?;
    Ok(Ended { pid, comm: process.comm, outcome, is_looked_at })
}

fn end(process: &Source) -> Result<Outcome> {
    let withdrawn = process.withdraw_profile()?;
    let Some(profile) = process.profile()?.filter(|profile| profile.is_active) else {
        return Ok(if withdrawn { Outcome::Withdrawn } else { Outcome::NotSampled });
    };
    let Some(answer) = process.ask(&Order::ProfileStop, true)? else {
        return Ok(Outcome::StopsLater(profile.elapsed_us));
    };
    process.check(answer, "the end of sampling")?;
    Ok(Outcome::Stopped(profile.elapsed_us))
}

impl Ended {
    pub fn told(&self, as_json: bool) -> Result<String> {
        match as_json {
            true => self.as_json(),
            false => Ok(self.as_text()),
        }
    }

    fn as_text(&self) -> String {
        let what = match self.outcome {
            Outcome::NotSampled => "was not sampled".into(),
            Outcome::Withdrawn => "was to be sampled from when it next needs memory: that is withdrawn".into(),
            Outcome::Stopped(us) => format!("is no longer sampled; its profile began {} ago", duration(us as f64)),
            Outcome::StopsLater(us) => format!(
                "did not come to it yet: sampling, for a profile that began {} ago, ends {}",
                duration(us as f64),
                Rest::of(self.pid).end()
            ),
        };
        let other = match self.is_looked_at && self.outcome != Outcome::NotSampled {
            true => ". Another hakmem looks at it still, and shows what there is until now",
            false => "",
        };
        format!("process {} ({}) {what}{other}\n", self.pid, self.comm)
    }

    fn as_json(&self) -> Result<String> {
        let elapsed_us = match self.outcome {
            Outcome::Stopped(us) | Outcome::StopsLater(us) => Some(us),
            Outcome::NotSampled | Outcome::Withdrawn => None,
        };
        let object = json!({
            "process": self.pid, "program": self.comm, "done": !matches!(self.outcome, Outcome::StopsLater(_)),
            "was_sampled": elapsed_us.is_some(), "elapsed_ms": elapsed_us.map(|us| us / 1000),
        });
        Ok(serde_json::to_string_pretty(&object)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_told() {
        let ended = |outcome, is_looked_at| Ended { pid: 7, comm: "x".into(), outcome, is_looked_at };
        let text = |outcome, is_looked_at| ended(outcome, is_looked_at).as_text();
        assert_eq!(text(Outcome::NotSampled, true), "process 7 (x) was not sampled\n");
        assert!(text(Outcome::Withdrawn, false).ends_with("that is withdrawn\n"));
        assert!(text(Outcome::Stopped(1_500_000), false).contains("no longer sampled; its profile began 1.5"));
        assert!(text(Outcome::Stopped(1_500_000), true).contains("Another hakmem"));
        assert!(text(Outcome::StopsLater(9), false).contains("when it next needs memory"));
        let later = ended(Outcome::StopsLater(2000), false).as_json().unwrap();
        assert!(later.contains("\"done\": false") && later.contains("\"elapsed_ms\": 2"), "{later}");
    }
}
