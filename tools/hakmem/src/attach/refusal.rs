// SPDX-License-Identifier: MIT
//! Why the kernel does not let this process look into another one, and the command that would work.

use super::memory::Memory;
use super::status_of;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::{geteuid, Pid, Uid, User};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const BY_SOCKET: &str = ", or start it with HAKMEM_CONTROL=PATH: `hakmem stats --exact`, `heap` and `trim` then ask it";
const GIVE_CAPABILITY: &str = "give the container that capability, or run hakmem outside of it";
pub const PTRACE_SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";
const CAP_SYS_PTRACE: u64 = 1 << 19;
/// CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: each lets read files of other users, as some in /proc are.
const CAPS_READ: u64 = 1 << 1 | 1 << 2;

/// What the kernel's rules look at. What cannot be known is as if it were no obstacle.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    pub own_uid: u32,
    pub own_may_trace: bool,
    /// Also files of other users.
    pub own_may_read: bool,
    /// Capabilities that it has (CapPrm) and this process has not.
    pub lacking: u64,
    /// A filter of system calls is in the way of reading even this process.
    pub own_filter: bool,
    pub uid: u32,
    pub dumpable: bool,
    pub same_user_namespace: bool,
    /// This process's root is root of a namespace of users, not of the machine.
    pub own_namespace: bool,
    pub yama: u32,
}

impl Situation {
    pub fn of(pid: i32) -> Situation {
        let (status, own) = (status_of(pid), status_of(std::process::id() as i32));
        let uid = status.as_ref().map_or(0, |status| status.euid);
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/user"));
        Situation {
            own_uid: geteuid().as_raw(),
            own_may_trace: may_trace(),
            own_may_read: has(CAPS_READ),
            lacking: status.zip(own).map_or(0, |(status, own)| status.capprm & !own.capprm),
            own_filter: !reads_itself(),
            uid,
            dumpable: fs::metadata(format!("/proc/{pid}/maps")).map_or(true, |of| of.uid() == uid),
            same_user_namespace: match (namespace("self"), namespace(&pid.to_string())) {
                (Ok(ours), Ok(theirs)) => ours == theirs,
                _ => true,
            },
            own_namespace: fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| is_partial(&map)),
            yama: yama(),
        }
    }

    /// The first rule that is in the way, and what would do.
    pub fn cause(&self) -> (String, String) {
        let sudo = with_sudo(self.own_uid);
        if self.own_filter {
            let why = "a filter of system calls (seccomp) does not let this process use process_vm_readv";
            return (why.into(), "run hakmem outside of this container, or let the filter pass that call".into());
        }
        if self.own_uid == 0 && !self.own_may_trace {
            let more = match self.lacking & !CAP_SYS_PTRACE {
                0 => String::new(),
                lacking => format!(", and it has capabilities that this process lacks ({})", capabilities(lacking)),
            };
            let why = format!("this is root without CAP_SYS_PTRACE, as in a container{more}");
            return (why, GIVE_CAPABILITY.into());
        }
        if self.own_uid != self.uid && !self.own_may_trace {
            return (format!("it runs as {}, and this is {}", name(self.uid), name(self.own_uid)), sudo);
        }
        if self.own_uid != self.uid && !self.own_may_read && self.same_user_namespace && !self.own_namespace {
            let why = format!(
                "it runs as {}, and this is {} with CAP_SYS_PTRACE and without CAP_DAC_READ_SEARCH: some of its files \
                 in /proc may not be read",
                name(self.uid),
                name(self.own_uid)
            );
            return (why, "give hakmem both capabilities".into());
        }
        if !self.same_user_namespace || (self.own_namespace && self.own_may_trace) {
            let why = "it is in another user namespace, where this user has no rights";
            let outside = "outside of all containers";
            let remedy = if self.own_uid == 0 { format!("run hakmem {outside}") } else { format!("{sudo} {outside}") };
            return (why.into(), remedy);
        }
        if !self.dumpable && !self.own_may_trace {
            let why = "it is not dumpable: set-uid, with file capabilities, or by its own wish (PR_SET_DUMPABLE)";
            return (why.into(), sudo);
        }
        match self.yama {
            1 if !self.own_may_trace => (
                "the kernel's Yama (ptrace_scope 1) lets only a process's ancestors look into it".into(),
                sudo + BY_SOCKET,
            ),
            2 if !self.own_may_trace => {
                ("the kernel's Yama (ptrace_scope 2) lets only root look into processes".into(), sudo + BY_SOCKET)
            }
            3 => (
                "the kernel's Yama (ptrace_scope 3) lets nobody look into processes until the next boot".into(),
                format!("HAKMEM_STATS=text prints statistics at the program's end{BY_SOCKET}"),
            ),
            _ if self.own_uid == 0 && self.lacking != 0 => {
                let why = format!("it has capabilities that this process lacks ({})", capabilities(self.lacking));
                (why, "give the container those, or run hakmem outside of it".into())
            }
            _ if self.own_uid == 0 => {
                ("a security module (AppArmor, SELinux) is in the way".into(), "the kernel's log says which".into())
            }
            _ => ("a security module (AppArmor, SELinux) or a missing capability is in the way".into(), sudo),
        }
    }
}

/// What would do for any process, for who may not look as `may_trace` does.
pub fn remedy(yama: bool) -> String {
    remedy_for(geteuid().as_raw(), yama)
}

fn remedy_for(own_uid: u32, yama: bool) -> String {
    match own_uid {
        0 => format!("this is root without CAP_SYS_PTRACE: {GIVE_CAPABILITY}"),
        _ => with_sudo(own_uid) + if yama { BY_SOCKET } else { "" },
    }
}

pub fn explain(pid: i32, comm: &str) -> String {
    let (cause, remedy) = Situation::of(pid).cause();
    format!("process {pid} ({comm}) may not be looked into: {cause}; {remedy}")
}

/// Of a process that /proc does not show, though it exists.
pub fn hidden(pid: i32) -> Option<String> {
    let exists = matches!(kill(Pid::from_raw(pid), None), Err(Errno::EPERM));
    let option = hidepid()?;
    exists.then(|| {
        format!("process {pid} is not visible: /proc is mounted with {option}; {}", with_sudo(geteuid().as_raw()))
    })
}

/// The option by which /proc hides other users' processes.
pub fn hidepid() -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_proc = |line: &&str| line.split(' ').nth(1) == Some("/proc");
    let of_proc = mounts.lines().filter(is_proc).next_back().unwrap_or_default(); // the newest hides the others
    let options = of_proc.split(' ').nth(3).unwrap_or_default();
    let hides = |option: &&str| option.starts_with("hidepid=") && *option != "hidepid=0" && *option != "hidepid=off";
    options.split(',').find(hides).map(str::to_string)
}

/// Root, mostly.
pub fn may_trace() -> bool {
    has(CAP_SYS_PTRACE)
}

/// One of these capabilities.
fn has(capabilities: u64) -> bool {
    status_of(std::process::id() as i32).is_some_and(|status| status.capeff & capabilities != 0)
}

/// A map of users that does not hold all of them.
fn is_partial(map: &str) -> bool {
    let numbers: Vec<u64> = map.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers != [0, 0, u64::from(u32::MAX)]
}

pub fn yama() -> u32 {
    known_yama().unwrap_or(0)
}

/// None: the kernel's settings are not to be seen. A kernel without Yama has no such file.
pub fn known_yama() -> Option<u32> {
    match fs::read_to_string(PTRACE_SCOPE) {
        Ok(text) => text.trim().parse().ok(),
        Err(_) => Path::new("/proc/sys/kernel").is_dir().then_some(0),
    }
}

fn reads_itself() -> bool {
    let word = 1u64;
    let read = Memory::of(std::process::id() as i32).number(std::ptr::from_ref(&word) as u64, 8);
    read == Ok(1)
}

pub fn name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => format!("user {}", user.name),
        _ => format!("user {uid}"),
    }
}

/// Of capabilities(7), by their numbers.
fn capabilities(set: u64) -> String {
    const NAMES: &str = "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE \
        NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO \
        SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME \
        SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG \
        WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE";
    let names: Vec<&str> = NAMES.split(' ').collect();
    let name = |at: usize| names.get(at).map_or_else(|| format!("number {at}"), |name| format!("CAP_{name}"));
    (0..64).filter(|at| set >> at & 1 == 1).map(name).collect::<Vec<_>>().join(", ")
}

/// This command as root, which it may be already.
fn with_sudo(own_uid: u32) -> String {
    if own_uid == 0 {
        return "run hakmem outside of this container".into();
    }
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy())).collect();
    format!("try `sudo hakmem {}`", words.join(" "))
}

/// As a shell reads it as one word.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=+.,:/%@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(change: impl Fn(&mut Situation)) -> String {
        let mut situation =
            Situation { own_uid: 5, uid: 5, dumpable: true, same_user_namespace: true, ..Situation::default() };
        change(&mut situation);
        let (cause, remedy) = situation.cause();
        format!("{cause}; {remedy}")
    }

    #[test]
    fn each_rule_has_its_cause_and_its_remedy() {
        assert!(cause(|s| s.own_filter = true).contains("seccomp"));
        assert!(cause(|s| s.uid = 4_000_000).contains("it runs as user 4000000, and this is user"));
        assert!(cause(|s| s.uid = 4_000_000).contains("try `sudo hakmem"));
        assert!(cause(|s| s.own_uid = 0).contains("root without CAP_SYS_PTRACE"));
        let inside = cause(|s| (s.own_namespace, s.own_may_trace) = (true, true));
        assert!(inside.contains("user namespace"), "{inside}");
        let traces = cause(|s| (s.uid, s.own_may_trace) = (4, true));
        assert!(traces.contains("without CAP_DAC_READ_SEARCH") && traces.ends_with("both capabilities"), "{traces}");
        assert!(!is_partial("         0          0 4294967295\n") && is_partial("0 65534 1\n"));
        assert!(cause(|s| s.same_user_namespace = false).contains("user namespace"));
        assert!(cause(|s| s.dumpable = false).contains("not dumpable"));
        assert!(cause(|s| s.yama = 1).contains("ptrace_scope 1"));
        assert!(cause(|s| s.yama = 2).contains("ptrace_scope 2"));
        assert!(cause(|s| s.yama = 3).contains("until the next boot"));
        assert!(cause(|_| ()).contains("security module"));
    }

    #[test]
    fn root_is_told_what_it_lacks_and_not_to_become_root() {
        let lacks = |set: u64| cause(|s| (s.own_uid, s.lacking) = (0, set));
        let all = lacks(1 << 12 | 1 << 19 | 1 << 21);
        assert!(all.contains("root without CAP_SYS_PTRACE") && all.contains("(CAP_NET_ADMIN, CAP_SYS_ADMIN)"), "{all}");
        assert!(!lacks(CAP_SYS_PTRACE).contains("lacks"));
        let traces = |set: u64| cause(|s| (s.own_uid, s.uid, s.own_may_trace, s.lacking) = (0, 0, true, set));
        assert!(traces(1 << 40 | 1 << 50).contains("(CAP_CHECKPOINT_RESTORE, number 50)"));
        let namespace = cause(|s| (s.own_uid, s.own_may_trace, s.same_user_namespace) = (0, true, false));
        let yama = cause(|s| (s.own_uid, s.uid, s.own_may_trace, s.yama) = (0, 0, true, 3));
        let any = remedy_for(0, true);
        assert!(any.contains("CAP_SYS_PTRACE") && remedy_for(5, true).starts_with("try `sudo hakmem"), "{any}");
        for told in [all, traces(0), namespace, yama, any, with_sudo(0)] {
            assert!(!told.contains("sudo"), "{told}");
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let all = ["stats", "--comm", "a b", "", "it's"].map(quoted).join(" ");
        assert_eq!(all, r"stats --comm 'a b' '' 'it'\''s'");
    }

    #[test]
    fn this_process_can_be_read() {
        assert!(reads_itself());
    }
}
