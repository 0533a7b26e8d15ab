// SPDX-License-Identifier: MIT
//! A process that is asked for something: by its memory, by its socket, or by both.

use super::control::{contents, Control};
use super::request::{Answer, Order};
use super::Attached;
use crate::failure::{is_not_permitted, Failure};
use crate::image::{self, Profile};
use crate::lists::Word;
use anyhow::{bail, Context, Result};
use nix::errno::Errno;
use serde_json::Value;
use std::path::Path;

pub struct Source {
    pub pid: i32,
    pub comm: String,
    /// None: the kernel does not permit to look into it.
    memory: Option<Attached>,
    socket: Option<Control>,
}

impl Source {
    /// Fails as Attached::to, unless the process has a socket for those who may not look into it.
    pub fn to(pid: i32) -> Result<Source> {
        let memory = match Attached::to(pid) {
            Ok(memory) => memory,
            Err(error) => return by_socket(pid, error),
        };
        let socket = Control::of(pid, Some(&memory));
        Ok(Source { pid, comm: memory.comm.clone(), memory: Some(memory), socket })
    }

    pub fn name(&self) -> String {
        format!("process {} ({})", self.pid, self.comm)
    }

    /// Its memory may be read: a look takes none of its time.
    pub fn is_read(&self) -> bool {
        self.memory.is_some()
    }

    /// Fails when the process has begun another program.
    pub fn check_place(&self) -> Result<()> {
        self.memory.as_ref().map_or(Ok(0), |memory| memory.number(Word::WindowBase)).map(drop)
    }

    /// By its socket it answers at once. None: it has not come to what was written into its memory; that is taken back,
    /// unless `stays`.
    pub fn ask(&self, order: &Order, stays: bool) -> Result<Option<Answer>> {
        match (&self.socket, &self.memory) {
            (Some(socket), None) => Ok(Some(socket.ask(order).with_context(|| self.name())?.0)),
            (Some(socket), Some(memory)) => match socket.ask(order) {
                Ok((answer, _)) => Ok(Some(answer)),
                Err(_) => memory.ask(order, stays),
            },
            (None, Some(memory)) => memory.ask(order, stays),
            (None, None) => unreachable!("there is one of them"),
        }
    }

    /// Takes back what would begin sampling, and says whether there was that. By a socket nothing waits.
    pub fn withdraw_profile(&self) -> Result<bool> {
        self.memory.as_ref().map_or(Ok(false), |memory| memory.withdraw_profile())
    }

    /// What hak_stats_get says in the process. None: it has not come to it.
    pub fn statistics(&self) -> Result<Option<Value>> {
        let by_socket = self.socket.as_ref().map(|socket| socket.ask(&Order::Statistics));
        let text = match (by_socket, &self.memory) {
            (Some(Ok((answer, file))), _) => {
                self.check(answer, "statistics")?;
                String::from_utf8_lossy(&contents(file).with_context(|| self.name())?).into_owned()
            }
            (Some(Err(error)), None) => return Err(error.context(self.name())),
            (_, Some(memory)) => {
                let Some(answer) = memory.ask(&Order::Statistics, false)? else { return Ok(None) };
                self.check(answer, "statistics")?;
                memory.memory.text(answer.result)?
            }
            (None, None) => unreachable!("there is one of them"),
        };
        let value = serde_json::from_str(&text).with_context(|| format!("statistics of {}", self.name()))?;
        Ok(Some(value))
    }

    /// Its profile as it is now; None: it has none.
    pub fn profile(&self) -> Result<Option<Profile>> {
        match (&self.memory, &self.socket) {
            (Some(memory), _) if !image::is_there(memory)? => Ok(None),
            (Some(memory), _) => Ok(Some(image::copy_of(memory)?)),
            (None, Some(socket)) => {
                let (answer, file) = socket.ask(&Order::ProfileWrite).with_context(|| self.name())?;
                if answer.status == Errno::ENOENT as i64 {
                    return Ok(None);
                }
                self.check(answer, "a profile")?;
                let mut profile = image::from_bytes(&contents(file)?, Path::new(&self.name()))?;
                profile.origin = self.name();
                profile.comm.clone_from(&self.comm);
                (profile.pid, profile.is_running) = (self.pid as u32, true);
                super::maps::add_build_ids(&mut profile.maps, |map| {
                    super::maps::build_id_of(Path::new(&format!("/proc/{}/root{}", self.pid, map.path)))
                });
                Ok(Some(profile))
            }
            (None, None) => unreachable!("there is one of them"),
        }
    }

    /// Bytes that it has allocated so far.
    pub fn allocated(&self) -> Result<u64> {
        if let Some(memory) = &self.memory {
            let snapshot = memory.snapshot()?;
            return Ok(snapshot.classes.iter().map(|class| class.alloc_count.wrapping_mul(class.block_size)).sum());
        }
        let statistics = self.statistics()?.context("it does not answer")?;
        let of = |class: &Value, name: &str| class[name].as_u64().unwrap_or(0);
        let classes = statistics["classes"].as_array().into_iter().flatten();
        Ok(classes.map(|class| of(class, "alloc_count").wrapping_mul(of(class, "block_size"))).sum())
    }

    /// What the process refused.
    pub fn check(&self, answer: Answer, what: &str) -> Result<()> {
        let who = self.name();
        match Errno::from_raw(answer.status as i32) {
            _ if answer.status == 0 => Ok(()),
            Errno::EINVAL => bail!(Failure::Usage(format!("{who} refused {what}: the value is not valid"))),
            Errno::ENOENT => {
                bail!(Failure::Usage(format!("{who} has no such option: {what}; `hakmem options` lists them")))
            }
            Errno::EPERM => bail!(Failure::Usage(format!("{who} refused {what}: it can be set at start only"))),
            Errno::ENOSYS => bail!("{who} runs a version of hakmem that does not know this command"),
            other => bail!("{who} refused {what}: {other}"),
        }
    }
}

/// Without a look into its memory, for which there is `error`.
fn by_socket(pid: i32, error: anyhow::Error) -> Result<Source> {
    match is_not_permitted(&error).then(|| Control::of(pid, None)).flatten() {
        None => Err(error),
        socket => {
            let process = procfs::process::Process::new(pid).map_err(|error| super::gone(pid, &error))?;
            Ok(Source { pid, comm: super::comm_of(&process), memory: None, socket })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_why() {
        let source = Source { pid: 1, comm: "x".into(), memory: None, socket: None };
        let refused = |status: Errno| {
            let answer = Answer { status: status as i64, result: 0, by_helper: false };
            source.check(answer, "SAFE=2").unwrap_err().to_string()
        };
        assert!(refused(Errno::EPERM).contains("at start only"));
        assert!(refused(Errno::ENOENT).contains("no such option: SAFE=2"));
        assert!(refused(Errno::EINVAL).contains("not valid"));
    }
}
