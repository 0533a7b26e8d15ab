// SPDX-License-Identifier: MIT
//! One execution of one row under one allocator.

use super::machine;
use super::model::{Allocator, Row, Sample, Target};
use super::parse;
use super::places::Places;
use super::sampler::{Sampler, RESTING, SAMPLING};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const REPORT_FD: i32 = 3;
/// With a launcher that ends what it started.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the name of a scratch folder starts with; the rest is the process that it belongs to.
const SCRATCH_PREFIX: &str = "hakmem-bench-";

/// Scratch files of this run, a folder for each of the runs that go side by side; removed at its end.
pub struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    pub fn new(lanes: usize) -> Result<Scratch> {
        let parent = std::env::temp_dir();
        remove_left_behind(&parent);
        let scratch = Scratch { folder: parent.join(format!("{SCRATCH_PREFIX}{}", std::process::id())) };
        for lane in 0..lanes {
            std::fs::create_dir_all(scratch.lane(lane)).context("cannot make a scratch folder")?;
        }
        Ok(scratch)
    }

    fn lane(&self, lane: usize) -> PathBuf {
        self.folder.join(format!("lane-{lane}"))
    }
}

/// A run that was interrupted or killed cannot remove its folder; the next run does.
fn remove_left_behind(parent: &Path) {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|n| n.strip_prefix(SCRATCH_PREFIX)).and_then(|p| p.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub struct Runner<'a> {
    pub places: &'a Places,
    scratch: &'a Scratch,
    lane: usize,
}

/// What the launcher and the sampler saw.
#[derive(Default)]
pub struct Seen {
    pub fields: BTreeMap<String, f64>,
    pub series: Vec<(f64, f64)>,
    timed_out: bool,
}

impl<'a> Runner<'a> {
    pub fn new(places: &'a Places, scratch: &'a Scratch) -> Runner<'a> {
        Runner { places, scratch, lane: 0 }
    }

    /// The same runner with other scratch files, to run beside this one.
    pub fn in_lane(&self, lane: usize) -> Runner<'a> {
        Runner { lane, ..*self }
    }

    fn folder(&self) -> PathBuf {
        self.scratch.lane(self.lane)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Runs the row; whatever goes wrong becomes the sample's failure.
    pub fn run(&self, row: &Row, allocator: &Allocator, round: u32) -> Sample {
        let mut sample =
            Sample { row: row.name.clone(), allocator: allocator.name.clone(), round, ..Sample::default() };
        let busy_before = machine::busy_seconds();
        if let Err(reason) = self.attempt(row, allocator, &mut sample) {
            sample.failure = Some(self.places.anonymous(&format!("{reason:#}")));
        }
        let used = machine::busy_seconds() - busy_before;
        let of = |name: &str| sample.fields.get(name).copied().unwrap_or(0.0);
        sample.busy = row.depends_on_load() && machine::was_busy(used, of("cpu_s"), of("wall_s").max(0.01));
        sample
    }

    fn attempt(&self, row: &Row, allocator: &Allocator, sample: &mut Sample) -> Result<()> {
        if let Target::Callgrind(workload) = &row.target {
            sample.fields = super::callgrind::count(self, workload, row, allocator)?;
            return Ok(());
        }
        let (program, arguments) = self.command_line(row)?;
        let preloaded = !matches!(row.target, Target::Script(_));
        let sampled = is_sampled(row, sample.round);
        let mut environment = self.environment(row, allocator, preloaded);
        environment.extend(sampled.then(|| format!("HAKMEM_BENCH_REST={}", self.file(RESTING).display())));
        let seen = self.launch(&program, &arguments, &environment, row.timeout_s, sampled)?;
        sample.fields = seen.fields;
        sample.series = seen.series;
        self.judge_end(&sample.fields, seen.timed_out, row.timeout_s)?;
        sample.proof = Some(self.check_proof(allocator)?);
        if !matches!(row.target, Target::System(_)) {
            let output = parse::workload_output(&self.read("stdout")).map_err(anyhow::Error::msg)?;
            sample.fields.extend(output.fields);
            if !preloaded {
                let peak = parse::peak_kib(&self.read("proof")).context("the server did not say its peak")?;
                sample.fields.insert("peak_kib".into(), peak);
            }
            if !output.series.is_empty() {
                sample.series = output.series;
            }
        }
        Ok(())
    }

    pub fn command_line(&self, row: &Row) -> Result<(PathBuf, Vec<String>)> {
        let programs = self.places.programs();
        let own = row.group == super::program::GROUP;
        let fill = |text: &String| {
            if own {
                return text.clone(); // what a user writes is meant as it stands
            }
            let text = text.replace("{programs}", &programs.to_string_lossy());
            let text = text.replace("{scratch}", &self.folder().to_string_lossy());
            text.replace("{root}", &self.places.root.to_string_lossy())
        };
        let arguments: Vec<String> = row.arguments.iter().map(fill).collect();
        Ok(match &row.target {
            Target::Workload(name) | Target::Callgrind(name) => (self.places.workloads().join(name), arguments),
            Target::Script(name) => {
                let script = programs.join(name).to_string_lossy().into_owned();
                ("/bin/sh".into(), std::iter::once(script).chain(arguments).collect())
            }
            Target::System(name) if own => (name.into(), arguments),
            Target::System(name) => (binary_of(&fill(name)), arguments),
        })
    }

    /// NAME=VALUE for the launcher. A script finds the allocator in HAKMEM_BENCH_PRELOAD and preloads it itself.
    fn environment(&self, row: &Row, allocator: &Allocator, preloaded: bool) -> Vec<String> {
        let mut libraries: Vec<String> = allocator.preload.iter().map(|p| p.to_string_lossy().into_owned()).collect();
        if !preloaded && allocator.name == "glibc" {
            // A server linked with another allocator takes operator new from it, unless the C++ runtime comes first.
            libraries.push("libstdc++.so.6".into());
        }
        libraries.push(self.places.workloads().join("proof_probe.so").to_string_lossy().into_owned());
        let name = if preloaded { "LD_PRELOAD" } else { "HAKMEM_BENCH_PRELOAD" };
        let mut all = vec![format!("{name}={}", libraries.join(":"))];
        all.push(format!("HAKMEM_BENCH_PROOF={}", self.file("proof").display()));
        all.push(format!("HAKMEM_BENCH_SCRATCH={}", self.folder().display()));
        all.extend(allocator.environment.iter().chain(&row.environment).map(|(k, v)| format!("{k}={v}")));
        all
    }

    fn read(&self, name: &str) -> String {
        let bytes = std::fs::read(self.file(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn judge_end(&self, fields: &BTreeMap<String, f64>, timed_out: bool, timeout_s: u64) -> Result<()> {
        let of = |name: &str| fields.get(name).copied().unwrap_or(-1.0) as i64;
        if timed_out {
            anyhow::bail!("hung: not done after {timeout_s} s");
        }
        let said = self.read("stderr");
        let last = last_words(&said);
        if of("signal") > 0 {
            anyhow::bail!("crashed by signal {}{last}", of("signal"));
        }
        anyhow::ensure!(of("exit") == 0, "ended with status {}{last}", of("exit"));
        Ok(())
    }

    fn check_proof(&self, allocator: &Allocator) -> Result<String> {
        let proofs = parse::proofs(&self.read("proof"));
        let library = allocator.preload.first().context("no library to prove")?;
        let first = proofs.first().context("no proof of the allocator: is the program linked statically?")?;
        for proof in &proofs {
            let said = || loader_words(&self.read("stderr"));
            proof.check(library).map_err(|e| anyhow::Error::msg(e + &said()))?;
        }
        Ok(first.shown())
    }

    fn launch(
        &self,
        program: &Path,
        arguments: &[String],
        environment: &[String],
        timeout_s: u64,
        sampled: bool,
    ) -> Result<Seen> {
        for left in ["proof", RESTING] {
            let _ = std::fs::remove_file(self.file(left));
        }
        let (reader, writer) = pipe()?;
        let mut command = Command::new(self.places.workloads().join("launch"));
        command.arg(REPORT_FD.to_string()).args(environment).arg("--").arg(program).args(arguments);
        command.stdin(Stdio::null());
        command.stdout(File::create(self.file("stdout"))?).stderr(File::create(self.file("stderr"))?);
        let report = writer.as_raw_fd();
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM); // who interrupts the tool means all of it
                hand_over(report)
            });
        }
        let child = command.spawn().context("cannot start the launcher; run make -C bench")?;
        drop(writer);
        let mut sampler = sampled.then(|| Sampler::new(self.file(RESTING)));
        watch(child, &mut File::from(reader), Duration::from_secs(timeout_s), sampler.as_mut())
    }
}

/// Makes `report` the descriptor REPORT_FD, open across exec; called between fork and exec. It may have that number
/// already: runs side by side open and close descriptors in any order.
fn hand_over(report: i32) -> std::io::Result<()> {
    // SAFETY: two async-signal-safe calls on a descriptor of ours.
    let done = unsafe {
        match report {
            REPORT_FD => libc::fcntl(report, libc::F_SETFD, 0),
            _ => libc::dup2(report, REPORT_FD),
        }
    };
    if done < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// ": " and the last line that a failed program wrote, if it wrote one.
pub fn last_words(said: &str) -> String {
    let last = said.lines().rfind(|l| !l.starts_with("allocator-proof") && !l.trim().is_empty());
    last.map_or(String::new(), |l| format!(": {l}"))
}

/// What the dynamic loader says of a library that it cannot preload.
fn loader_words(said: &str) -> String {
    let words = said.lines().find(|l| l.contains("cannot be preloaded"));
    words.map_or(String::new(), |l| format!(": {l}"))
}

/// Looking at a program's memory costs it time, so a round of its own is for that, unless the row times nothing.
fn is_sampled(row: &Row, round: u32) -> bool {
    round == 0 || !row.depends_on_load()
}

/// The program itself, not a script in front of it that chooses between versions: the script would be measured too.
fn binary_of(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| super::elf::is_elf(file)).unwrap_or_else(|| name.into())
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: two fresh descriptors that nobody else owns.
    unsafe {
        anyhow::ensure!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) == 0, "no pipe");
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Reads the launcher's report until it ends, looking at the program's memory in between when asked to.
fn watch(mut child: Child, report: &mut File, timeout: Duration, mut sampler: Option<&mut Sampler>) -> Result<Seen> {
    let begin = Instant::now();
    let mut seen = Seen::default();
    let mut text = String::new();
    loop {
        let wait = if sampler.is_some() { SAMPLING } else { Duration::from_millis(200) };
        if readable(report, wait) {
            let mut buffer = [0; 1024];
            let length = report.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        } else if begin.elapsed() > timeout {
            seen.timed_out = true;
            end(&child, report);
            break;
        } else if let Some(sampler) = &mut sampler {
            sampler.look(&text, &mut seen);
        }
    }
    let _ = child.wait();
    kill_group(&child); // whatever a script left behind
    read_report(&text, &mut seen)?;
    Ok(seen)
}

fn readable(file: &File, wait: Duration) -> bool {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&mut poll, 1, wait.as_millis() as i32) > 0 }
}

/// The launcher ends what it started, also what has left its group, and then itself. Where that takes long only the
/// group ends.
fn end(launcher: &Child, report: &File) {
    // SAFETY: a child that nobody has waited for.
    unsafe { libc::kill(launcher.id() as i32, libc::SIGTERM) };
    readable(report, PATIENCE);
    kill_group(launcher);
}

/// The launcher leads a process group of its own, which holds nothing but what it started.
fn kill_group(child: &Child) {
    // SAFETY: a group that we created with setpgid before exec.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
}

fn read_report(text: &str, seen: &mut Seen) -> Result<()> {
    let Some(line) = text.lines().find(|l| l.starts_with("wall_ns=")) else {
        anyhow::ensure!(seen.timed_out, "the launcher reported nothing");
        return Ok(());
    };
    let mut fields = parse::pairs(line).map_err(anyhow::Error::msg)?;
    let mut take = |name: &str| fields.remove(name).unwrap_or(0.0);
    let (wall, user, system) = (take("wall_ns") / 1e9, take("user_us") / 1e6, take("system_us") / 1e6);
    seen.fields.extend(fields);
    for (name, value) in [("wall_s", wall), ("user_s", user), ("system_s", system), ("cpu_s", user + system)] {
        seen.fields.insert(name.into(), value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_report_is_read() {
        let mut seen = Seen::default();
        read_report(
            "pid=7\nwall_ns=2000000000 user_us=1500000 system_us=500000 peak_kib=10 exit=0 signal=0\n",
            &mut seen,
        )
        .unwrap();
        assert_eq!(seen.fields["cpu_s"], 2.0);
        assert_eq!(seen.fields["peak_kib"], 10.0);
        assert!(read_report("pid=7\n", &mut Seen::default()).is_err());
    }

    #[test]
    fn folders_of_dead_runs_are_removed() {
        let parent = std::env::temp_dir().join(format!("hakmem-sweep-{}", std::process::id()));
        let [dead, alive, other] =
            [format!("{SCRATCH_PREFIX}{}", u32::MAX), format!("{SCRATCH_PREFIX}{}", std::process::id()), "x-1".into()]
                .map(|name| parent.join(name));
        for folder in [&dead, &alive, &other] {
            std::fs::create_dir_all(folder.join("lane-0")).unwrap();
        }
        remove_left_behind(&parent);
        assert!(!dead.exists() && alive.exists() && other.exists());
        std::fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn a_command_of_the_users_is_left_as_it_stands() {
        let places = Places { root: "/r".into() };
        let scratch = Scratch { folder: "/nowhere/at/all".into() };
        let runner = Runner::new(&places, &scratch);
        let row = super::super::program::row(&["grep".into(), "{root} {programs} {scratch}".into()]);
        assert_eq!(runner.command_line(&row).unwrap().1, ["{root} {programs} {scratch}"]);
        let row = Row { group: "g".into(), arguments: vec!["{root}".into()], ..row };
        assert_eq!(runner.command_line(&row).unwrap().1, ["/r"]);
    }

    #[test]
    fn last_words_are_reported() {
        assert_eq!(last_words("a\nwhy\n\nallocator-proof: malloc=x\n"), ": why");
        assert_eq!(last_words("allocator-proof: malloc=x\n"), "");
        assert_eq!(loader_words("ld.so: object 'x' cannot be preloaded\n"), ": ld.so: object 'x' cannot be preloaded");
    }

    #[test]
    fn a_binary_is_preferred_to_a_script() {
        assert!(binary_of("cargo-that-is-nowhere").to_string_lossy() == "cargo-that-is-nowhere");
        assert!(binary_of("env").is_absolute());
        assert_eq!(binary_of("/bin/sh"), PathBuf::from("/bin/sh"));
    }
}
