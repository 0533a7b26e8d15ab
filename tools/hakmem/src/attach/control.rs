// SPDX-License-Identifier: MIT
//! The socket of HAKMEM_CONTROL (src/helper/control.h): a process is asked by it where nobody may write into its
//! memory, and one that is idle answers at once.

use super::request::{Answer, Order};
use super::{status_of, Attached};
use anyhow::{bail, ensure, Context, Result};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::fcntl::{open, openat2, OFlag, OpenHow, ResolveFlag};
use nix::sys::socket::{
    connect, getsockopt, recvmsg, send, setsockopt, socket, sockopt, AddressFamily, ControlMessageOwned, MsgFlags,
    SockFlag, SockType, UnixAddr,
};
use nix::sys::stat::Mode;
use nix::sys::time::{TimeVal, TimeValLike};
use procfs::process::{FDTarget, Process};
use std::fs::File;
use std::io::{IoSliceMut, Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

/// hk_order_t: a command, arguments, a text with its NUL.
const ARGUMENTS: usize = 4;
const TEXT_BYTES: usize = 256;
const ORDER_BYTES: usize = 8 + ARGUMENTS * 8 + TEXT_BYTES;
/// control_reply_t: a status and a result.
const REPLY_BYTES: usize = 16;
/// SOCK_SEQPACKET, as proc_net_unix(5) tells the type.
const SEQPACKET: u16 = SockType::SeqPacket as u16;
/// To trim a large heap takes a while; a fork of the process's may be before it.
const PATIENCE_S: i64 = 60;
/// Of a file that comes with an answer: more than the largest profile has.
const FILE_MAX: u64 = 4 << 30;

pub struct Control {
    pid: i32,
    /// As the process names the file.
    name: String,
}

impl Control {
    /// None: it has no such socket, or this user may not know. `memory` is there where it may be read.
    pub fn of(pid: i32, memory: Option<&Attached>) -> Option<Control> {
        let process = Process::new(pid).ok()?;
        let name = match memory.map(|memory| memory.text_of("CONTROL")) {
            Some(Ok(wanted)) => expanded(&wanted?, &process),
            _ => name_in_environment(&process).or_else(|| name_of_thread(&process))?,
        };
        let control = Control { pid, name };
        control.connected().is_ok().then_some(control)
    }

    /// What it answers, and the file that it gives where the order asks for one.
    pub fn ask(&self, order: &Order) -> Result<(Answer, Option<File>)> {
        let stream = self.connected().with_context(|| format!("its socket {}", self.name))?;
        send(stream.as_raw_fd(), &message(order)?, MsgFlags::MSG_NOSIGNAL)?;
        let mut reply = [0; REPLY_BYTES];
        let mut space = cmsg_space!(RawFd);
        let mut pieces = [IoSliceMut::new(&mut reply)];
        let got = recvmsg::<()>(stream.as_raw_fd(), &mut pieces, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
        let (bytes, file) = (got.bytes, got.cmsgs()?.find_map(file_of));
        if bytes != REPLY_BYTES {
            bail!("it has ended, or did not understand what it was asked");
        }
        let word = |at: usize| u64::from_ne_bytes(reply[at..at + 8].try_into().expect("8 bytes"));
        Ok((Answer { status: word(0) as i64, result: word(8), by_helper: true }, file))
    }

    /// By the file itself, as the address of a socket is short. Another process may have the name: a parent, whose
    /// environment this one has.
    fn connected(&self) -> Result<OwnedFd> {
        let place = in_root_of(self.pid, &self.name)?;
        let address = UnixAddr::new(&PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd())))?;
        let stream = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
        let patience = TimeVal::seconds(PATIENCE_S);
        setsockopt(&stream, sockopt::ReceiveTimeout, &patience)?;
        setsockopt(&stream, sockopt::SendTimeout, &patience)?;
        connect(stream.as_raw_fd(), &address)?;
        let peer = getsockopt(&stream, sockopt::PeerCredentials)?;
        let user = status_of(self.pid).context("has ended")?.euid;
        ensure!(peer.pid() == self.pid && (peer.uid() == user || peer.uid() == 0), "another process listens there");
        Ok(stream)
    }
}

/// What is at that name for the process: links lead nowhere else, where the kernel can see to it (Linux 5.6).
fn in_root_of(pid: i32, name: &str) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let path = format!("/proc/{pid}/root");
    let root = open(&path[..], flags | OFlag::O_DIRECTORY, Mode::empty())?;
    match openat2(root, name, OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_IN_ROOT)) {
        Err(Errno::ENOSYS | Errno::EPERM) => open(&(path + name)[..], flags, Mode::empty()),
        opened => opened,
    }
}

/// There from the moment on at which the name is.
fn name_in_environment(process: &Process) -> Option<String> {
    let wanted = process.environ().ok()?.remove(std::ffi::OsStr::new("HAKMEM_CONTROL"))?;
    Some(expanded(wanted.to_str()?, process))
}

/// As hk_path_expand does it, with the number that the process itself has.
fn expanded(name: &str, process: &Process) -> String {
    let own_id = status_of(process.pid).and_then(|status| status.nspid?.last().copied()).unwrap_or(process.pid);
    name.replace("%p", &own_id.to_string())
}

/// Where a thread listens of whose socket the program has no descriptor: the option was compiled in.
fn name_of_thread(process: &Process) -> Option<String> {
    let threads = process.tasks().ok()?.flatten();
    let sockets: Vec<u64> = threads.filter_map(|thread| only_socket(process.pid, thread.tid)).collect();
    if sockets.is_empty() {
        return None;
    }
    let files: Vec<FDTarget> = process.fd().ok()?.flatten().map(|file| file.target).collect();
    let is_of_program = |inode| files.iter().any(|file| matches!(file, FDTarget::Socket(of) if *of == inode));
    let is_ours = |inode| sockets.contains(&inode) && !is_of_program(inode);
    let ours = process.unix().ok()?.into_iter().find(|of| of.socket_type == SEQPACKET && is_ours(of.inode))?;
    Some(ours.path?.to_str()?.to_string())
}

/// The socket of a thread that has this one descriptor, as the thread that listens has.
fn only_socket(pid: i32, thread: i32) -> Option<u64> {
    let mut files = std::fs::read_dir(format!("/proc/{pid}/task/{thread}/fd")).ok()?.flatten();
    let (file, None) = (files.next()?, files.next()) else { return None };
    let target = std::fs::read_link(file.path()).ok()?;
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn file_of(message: ControlMessageOwned) -> Option<File> {
    let ControlMessageOwned::ScmRights(files) = message else { return None };
    // SAFETY: the kernel has made this descriptor for this process, and nobody else has it.
    files.first().map(|&fd| File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn message(order: &Order) -> Result<Vec<u8>> {
    let (command, arguments, text) = order.words();
    let mut bytes = Vec::with_capacity(ORDER_BYTES);
    bytes.extend_from_slice(&command.to_ne_bytes());
    for at in 0..ARGUMENTS {
        bytes.extend_from_slice(&arguments.get(at).copied().unwrap_or(0).to_ne_bytes());
    }
    super::request::check_length(text, TEXT_BYTES)?;
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(ORDER_BYTES, 0);
    Ok(bytes)
}

/// All of a file that came with an answer.
pub fn contents(file: Option<File>) -> Result<Vec<u8>> {
    let mut file = file.context("it gave no file")?;
    ensure!(file.metadata()?.len() <= FILE_MAX, "it gave a file that is too large");
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(FILE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
