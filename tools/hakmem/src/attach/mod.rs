// SPDX-License-Identifier: MIT
//! A running process that has hakmem in it, looked at from outside. It is not stopped, and nothing is written to it but
//! requests.

pub mod control;
pub mod maps;
pub mod memory;
pub mod notes;
pub mod order;
mod page_scan;
pub mod record;
pub mod refusal;
pub mod request;
pub mod resident;
pub mod rest;
pub mod select;
pub mod settings;
pub mod snapshot;
pub mod source;
pub mod turn;

use crate::failure::{is_no_hakmem, Failure};
use crate::lists::Word;
use crate::output;
use anyhow::{bail, Context, Result};
use maps::Mapping;
use memory::Memory;
use nix::errno::Errno;
use nix::time::{clock_gettime, ClockId};
use procfs::process::{Process, Stat, Status};
use procfs::{FromRead, ProcError};
use record::Record;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// A process, with what leads to its figures.
pub struct Attached {
    pub pid: i32,
    /// Of whose files in /proc the memory is.
    pub thread: i32,
    pub comm: String,
    pub memory: Memory,
    pub record: Record,
    /// The file that the record is in, as the process has it mapped.
    pub library: String,
    /// Its allocator has been used.
    pub started: bool,
}

/// A record that a process has, and where it came from.
struct Found {
    record: Record,
    library: String,
    /// Its allocator has been used.
    started: bool,
}

/// A program that has only just been started may not have loaded hakmem yet, nor moved it to its place.
const START: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);
/// Of the flags in /proc/PID/stat.
const PF_KTHREAD: u32 = 0x20_0000;

impl Attached {
    /// As `now`; a process that has only just been started is given time to load hakmem.
    pub fn to(pid: i32) -> Result<Attached> {
        let begin = Instant::now();
        loop {
            let found = Attached::now(pid);
            let may_come = match &found {
                Ok(process) => !process.started,
                Err(error) => has_moved(error) || is_no_hakmem(error),
            };
            if !may_come || begin.elapsed() > START || age(pid).is_none_or(|age| age > START) {
                return found;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Fails with a reason: no such process, not permitted, no hakmem in it, a record that this tool cannot read.
    pub fn now(pid: i32) -> Result<Attached> {
        check_proc()?;
        let process = Process::new(pid).map_err(|error| gone(pid, &error))?;
        let comm = comm_of(&process);
        if without_program(&process) == Some(Without::Ended) {
            bail!(Failure::NoProcess(format!("process {pid} ({comm}) {WAITS}")));
        }
        let thread = living(pid);
        let memory = Memory::of(thread);
        let found = find(thread, memory).with_context(|| format!("process {pid} ({comm})"));
        let found = found.map_err(|error| refined(pid, &comm, error))?;
        let Some(found) = found else {
            bail!(Failure::NoHakmem(format!(
                "there is no hakmem in process {pid} ({comm}): `hakmem doctor {pid}` says why; `hakmem run -- PROGRAM` \
                 starts a program with it"
            )));
        };
        Ok(Attached { pid, thread, comm, memory, record: found.record, library: found.library, started: found.started })
    }

    /// An error with the process's name, and with the cause where the kernel did not permit it.
    fn told(&self, error: anyhow::Error) -> anyhow::Error {
        let error = error.context(format!("process {} ({})", self.pid, self.comm));
        permitted(self.pid, &self.comm, error)
    }

    pub fn build(&self) -> Result<String> {
        Ok(self.memory.text(self.record.word(Word::Build)?)?)
    }

    /// A number that the process keeps where the record says.
    pub fn number(&self, place: Word) -> Result<u64> {
        Ok(self.memory.number(self.record.word(place)?, 8)?)
    }

    /// The lines of a list.
    pub fn lines(&self, place: Word) -> Result<Vec<String>> {
        let text = self.memory.text(self.record.word(place)?)?;
        Ok(text.lines().map(str::to_string).collect())
    }
}

/// What is known of processes, and of the kernel's settings, is from there.
pub fn check_proc() -> Result<()> {
    let how = "mount it (mount -t proc proc /proc), or have the container made with one";
    match std::fs::read_link("/proc/self") {
        Ok(own) if own == Path::new(&std::process::id().to_string()) => Ok(()),
        // Where this process has no number there, the link is there and leads nowhere.
        outcome if outcome.is_ok() || std::fs::symlink_metadata("/proc/self").is_ok() => {
            bail!("/proc is that of another PID namespace: its numbers are of other processes; {how}")
        }
        _ => bail!("/proc is not mounted, and nothing is known of processes; {how}"),
    }
}

/// Since its fork, by the kernel's clock: /proc/uptime may be a container's (lxcfs).
pub fn age(pid: i32) -> Option<Duration> {
    let began = Process::new(pid).ok()?.stat().ok()?.starttime as f64 / procfs::ticks_per_second() as f64;
    let now = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?);
    Some(Duration::from_secs_f64((now.as_secs_f64() - began).max(0.0)))
}

/// What has no memory of a program, so that no malloc serves it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Without {
    /// It is a thread of the kernel's.
    Kernel,
    /// Its parent has not asked for its exit status.
    Ended,
}

/// A process that is `Without::Ended` ...
pub const WAITS: &str = "has ended, and waits for its parent to ask how";

pub fn without_program(process: &Process) -> Option<Without> {
    let stat = process.stat().ok()?;
    if stat.flags & PF_KTHREAD != 0 {
        return Some(Without::Kernel);
    }
    (has_left(&stat) && living(process.pid()) == process.pid()).then_some(Without::Ended)
}

/// A thread of the process that has its memory: the first one, or where that has ended by pthread_exit(3) another one.
pub fn living(pid: i32) -> i32 {
    let Ok(process) = Process::new(pid) else { return pid };
    if !process.stat().is_ok_and(|stat| has_left(&stat)) {
        return pid;
    }
    let mut threads = process.tasks().into_iter().flatten().flatten();
    threads.find(|thread| thread.stat().is_ok_and(|stat| !has_left(&stat))).map_or(pid, |thread| thread.tid)
}

fn has_left(thread: &Stat) -> bool {
    matches!(thread.state, 'Z' | 'X')
}

/// The memory that was read is not there: the process has begun another program, or has not moved hakmem to its place.
pub fn has_moved(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Failure::Moved(_)))
        || error.chain().any(|cause| matches!(cause.downcast_ref(), Some(Errno::EFAULT)))
}

/// It is no more.
pub fn has_ended(pid: i32, error: &anyhow::Error) -> bool {
    // What is not there may be another file, as one that is to be written.
    let is_there = Path::new(&format!("/proc/{pid}")).exists();
    let has_left = |error: &io::Error| {
        error.raw_os_error() == Some(libc::ESRCH) || (error.kind() == io::ErrorKind::NotFound && !is_there)
    };
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(Errno::ESRCH))
            || (matches!(cause.downcast_ref(), Some(ProcError::NotFound(_))) && !is_there)
            || cause.downcast_ref().is_some_and(has_left)
    })
}

/// What it says of itself; its name may be of any bytes.
pub fn status_of(pid: i32) -> Option<Status> {
    let text = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    Status::from_read(String::from_utf8_lossy(&text).as_bytes()).ok()
}

pub fn comm_of(process: &Process) -> String {
    process.stat().map_or_else(|_| "?".into(), |stat| output::name(&stat.comm))
}

pub fn gone(pid: i32, error: &ProcError) -> anyhow::Error {
    match error {
        ProcError::NotFound(_) => match (check_proc(), refusal::hidden(pid)) {
            (Err(error), _) => error,
            (_, Some(text)) => Failure::NotPermitted(text).into(),
            (_, None) => Failure::NoProcess(format!("there is no process {pid}")).into(),
        },
        other => anyhow::anyhow!("process {pid}: {other}"),
    }
}

fn refined(pid: i32, comm: &str, error: anyhow::Error) -> anyhow::Error {
    ended(pid, permitted(pid, comm, error))
}

/// What the kernel did not permit is told with its cause, and the command that would work.
fn permitted(pid: i32, comm: &str, error: anyhow::Error) -> anyhow::Error {
    let denied = error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(Errno::EPERM | Errno::EACCES))
            || matches!(cause.downcast_ref(), Some(ProcError::PermissionDenied(_)))
            || cause.downcast_ref().is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied)
    });
    if denied {
        return Failure::NotPermitted(refusal::explain(pid, comm)).into();
    }
    error
}

/// A process that has ended meanwhile is told as that, one that has begun another program, and one that /proc hides.
pub fn ended(pid: i32, error: anyhow::Error) -> anyhow::Error {
    let left = has_ended(pid, &error);
    if let Some(text) = left.then(|| refusal::hidden(pid)).flatten() {
        return Failure::NotPermitted(text).into();
    }
    if left {
        return Failure::NoProcess(format!("process {pid} has ended")).into();
    }
    if has_moved(&error) {
        let text = format!("process {pid} has begun another program (execve) while it was looked at; look again");
        return Failure::Moved(text).into();
    }
    error
}

/// Of several records the one whose allocator is in use, and of those the one that the dynamic linker finds first: a
/// program may have hakmem linked in, another one preloaded, and more inside what it opens.
fn find(thread: i32, memory: Memory) -> Result<Option<Found>> {
    let maps = maps::of_process(thread)?;
    let mut all = all_records(&maps, memory)?;
    let program = std::fs::read_link(format!("/proc/{thread}/exe")).unwrap_or_default();
    if let Some(order) = (all.len() > 1).then(|| order::of(&memory, &maps, &program.to_string_lossy())).flatten() {
        all.sort_by_key(|found| order.iter().position(|path| *path == found.library).unwrap_or(usize::MAX));
    }
    let best = all.iter().position(|found| found.started).unwrap_or(0);
    Ok(all.into_iter().nth(best))
}

fn all_records(maps: &[Mapping], memory: Memory) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    for map in maps::heads_of_code(maps) {
        let address = match record::find(&memory, map.start) {
            Ok(Some(address)) => address,
            Ok(None) | Err(Errno::EFAULT | Errno::EIO) => continue,
            Err(error) => return Err(error.into()),
        };
        let record = record::read(&memory, address)?;
        // The first thread's heap comes last: from then on all is there that the record leads to.
        let started = memory.number(record.word(Word::HeapLimit)?, 4)? > record.word(Word::HeapShared)? + 1;
        all.push(Found { record, library: map.shown(), started });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also once it is told in words, so that a second look is worth it.
    #[test]
    fn what_has_moved_is_known_as_that() {
        let first = anyhow::Error::from(Errno::EFAULT).context("process 1 (sh)");
        assert!(has_moved(&first));
        let told = ended(std::process::id() as i32, first);
        assert!(has_moved(&told) && told.to_string().ends_with("look again"), "{told}");
        assert!(!has_moved(&anyhow::Error::from(Errno::EPERM)));
    }

    #[test]
    fn a_file_that_is_not_there_is_no_end_of_a_process() {
        let error = || anyhow::Error::from(io::Error::from(io::ErrorKind::NotFound)).context("cannot write x.html");
        assert_eq!(ended(std::process::id() as i32, error()).to_string(), "cannot write x.html");
        assert!(ended(i32::MAX, error()).to_string().ends_with("has ended"));
    }

    #[test]
    fn the_end_of_a_process_is_known_by_each_of_its_errors() {
        let by_kernel = io::Error::from_raw_os_error(libc::ESRCH);
        for error in [Errno::ESRCH.into(), by_kernel.into(), io::Error::from(io::ErrorKind::NotFound).into()] {
            assert!(has_ended(i32::MAX, &anyhow::Error::context(error, "process 1 (sh)")));
        }
        assert!(!has_ended(i32::MAX, &Errno::EFAULT.into()));
    }
}
