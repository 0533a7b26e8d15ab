// SPDX-License-Identifier: MIT
//! `hakmem run --report FILE`: the program is sampled, and what its heap was in the end is left in a file.
//!
//! A program that ends by itself writes its profile at exit. One that is killed does not; so it is read from outside
//! now and then, and once more before a signal is passed on.

use super::supervised::{code, Event, Supervised};
use crate::attach::{check_proc, Attached};
use crate::failure::Failure;
use crate::flags::{is_off, OptionFlags};
use crate::heap::of_file;
use crate::image::{self, Profile};
use crate::output::remark;
use crate::report::view::Show;
use crate::report::{bytes_of, check_place, leave, Form};
use crate::symbols::{self, Places};
use anyhow::{bail, ensure, Context, Result};
use nix::sys::signal::Signal;
use nix::unistd::mkdtemp;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

const OPTION: &str = "HAKMEM_PROFILE";
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_secs(1);
/// Looks take at most this part of the time.
const SHARE: u32 = 50;

pub fn run(mut command: Command, path: &Path, options: &OptionFlags) -> Result<ExitCode> {
    let form = Form::of(path).map_err(|error| Failure::Usage(error.to_string()))?;
    check_place(path)?;
    if let Err(error) = check_proc() {
        remark(format_args!("hakmem: {error}: there will be a report only if the program ends by itself"));
    }
    let folder = Folder::new()?;
    command.env(OPTION, format!("{},out={}", interval(options)?, folder.0.join("%p").display()));
    let mut program = Supervised::start(command)?;
    let (last, status) = watch(&mut program, &folder)?;
    let code = code(status);
    let written = match profile_of(program.pid, &folder, last, status) {
        Ok(profile) => write(&profile, path, form),
        Err(error) => Err(error),
    };
    let Err(error) = written else { return Ok(code) };
    if let Some(own) = folder.left_behind(program.pid) {
        let own = own.display();
        remark(format_args!(
            "hakmem: the program's own profile is {own}; `hakmem heap {own} -o FILE` makes a page of it"
        ));
    }
    if code == ExitCode::SUCCESS {
        return Err(error);
    }
    remark(format_args!("hakmem: {error:#}"));
    Ok(code)
}

/// As it was asked for, or the library's own.
fn interval(options: &OptionFlags) -> Result<String> {
    let given = options.environment.iter().find(|(name, _)| name == OPTION).map(|(_, value)| value.clone());
    let given = given.or_else(|| std::env::var(OPTION).ok()).unwrap_or_else(|| "on".into());
    if given.contains(",out=") {
        bail!(Failure::Usage(format!("--report and {OPTION}={given}: name one file for the profile")));
    }
    Ok(if is_off(&given) { "on".into() } else { given })
}

/// Until the program ends; what was seen of it last.
fn watch(program: &mut Supervised, folder: &Folder) -> Result<(Option<Profile>, ExitStatus)> {
    let (mut last, mut pause) = (None, FIRST_LOOK);
    loop {
        let event = program.next(pause)?;
        if let Event::Ended(status) = event {
            return Ok((last, status));
        }
        let begin = Instant::now();
        last = seen(program.pid).or(last);
        pause = (pause * 2).min(LOOK).max(begin.elapsed() * SHARE);
        if let Event::Signal(signal) = event {
            program.pass_on(signal);
        }
        folder.keep(program.pid);
    }
}

/// None: it has not come so far, or is at its end.
fn seen(pid: i32) -> Option<Profile> {
    image::copy_of(&Attached::now(pid).ok()?).ok()
}

/// What the program wrote itself, if it came to that.
fn profile_of(pid: i32, folder: &Folder, last: Option<Profile>, status: ExitStatus) -> Result<Profile> {
    let own = folder.0.join(pid.to_string());
    let about = last.as_ref().map(|seen| seen.origin.clone());
    let has_ended = own.exists();
    let mut profile = if has_ended { of_file(&own)? } else { last.with_context(|| nothing_seen(status))? };
    profile.has_ended = has_ended;
    profile.origin = about.unwrap_or_else(|| format!("process {pid}"));
    profile.is_running = false; // what leads to its files by its number is gone
    Ok(profile)
}

/// It was too short to be looked at, and wrote none at its end.
fn nothing_seen(status: ExitStatus) -> String {
    let how = match status.signal().map(|number| (number, Signal::try_from(number))) {
        Some((_, Ok(signal))) => format!("was ended by {signal}"),
        Some((number, Err(_))) => format!("was ended by signal {number}"),
        None => "ended by _exit, which leaves out what a program does at its end".into(),
    };
    format!(
        "no report: the program {how}, before a profile could be taken; or hakmem does not serve it, which `hakmem \
         doctor -- PROGRAM` tells"
    )
}

fn write(profile: &Profile, path: &Path, form: Form) -> Result<()> {
    let symbols = symbols::find(profile, &Places::default());
    leave(path, &bytes_of(profile, &symbols, Show::Inuse, form)?)
}

/// Where the program and those that it starts leave their profiles.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let wanted = std::env::temp_dir().join("hakmem-run-XXXXXX");
        let name = wanted.to_string_lossy();
        ensure!(!name.contains('%'), "{name}: hakmem cannot write where % is in the name; set TMPDIR");
        Ok(Folder(mkdtemp(&wanted).with_context(|| format!("cannot make {name}"))?))
    }

    /// The profiles of all others go.
    fn keep(&self, pid: i32) {
        let own = pid.to_string();
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten();
        // A file of the form PID.PID is still being written.
        let whole = |name: &str| name != own && name.bytes().all(|byte| byte.is_ascii_digit());
        for file in files.filter(|file| file.file_name().to_str().is_some_and(whole)) {
            let _ = fs::remove_file(file.path());
        }
    }
}

impl Folder {
    /// What the program wrote stays, if it wrote anything; all else goes.
    fn left_behind(self, pid: i32) -> Option<PathBuf> {
        let own = self.0.join(pid.to_string());
        own.exists().then(|| {
            self.keep(pid);
            std::mem::forget(self);
            own
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a container numbers of processes come again, and a folder of one that was killed is still there.
    #[test]
    fn each_report_has_a_folder_of_its_own() {
        let (one, two) = (Folder::new().unwrap(), Folder::new().unwrap());
        assert!(one.0 != two.0 && one.0.is_dir() && two.0.is_dir());
    }

    #[test]
    fn a_profile_that_became_no_report_stays() {
        let folder = Folder::new().unwrap();
        let place = folder.0.clone();
        fs::write(place.join("12"), "a").unwrap();
        fs::write(place.join("13"), "of a child").unwrap();
        assert_eq!(folder.left_behind(12), Some(place.join("12")));
        assert!(place.join("12").exists() && !place.join("13").exists());
        assert_eq!(Folder(place.clone()).left_behind(14), None);
        assert!(!place.exists());
    }

    #[test]
    fn a_report_is_of_a_program_that_is_sampled() {
        let with = |value: &str| {
            let environment = vec![(OPTION.to_string(), value.to_string())];
            interval(&OptionFlags { environment }).unwrap()
        };
        assert_eq!(["off", "0", "No", "64K"].map(with), ["on", "on", "on", "64K"]);
    }
}
