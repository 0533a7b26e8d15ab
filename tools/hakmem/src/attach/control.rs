// SPDX-License-Identifier: MIT
//! The socket of HAKMEM_CONTROL (src/helper/control.h): a process is asked by it where nobody may write into its
//! memory, and one that is idle answers at once.

use super::request::{Answer, Order};
use anyhow::{bail, Context, Result};
use nix::cmsg_space;
use nix::fcntl::OFlag;
use nix::sys::socket::{
    connect, recvmsg, send, setsockopt, socket, sockopt, AddressFamily, ControlMessageOwned, MsgFlags, SockFlag,
    SockType, UnixAddr,
};
use nix::sys::time::{TimeVal, TimeValLike};
use procfs::process::{FDTarget, Process};
use std::fs::{File, OpenOptions};
use std::io::{IoSliceMut, Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
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

pub struct Control {
    path: PathBuf,
}

impl Control {
    /// None: it has no such socket, or this user may not know.
    pub fn of(pid: i32) -> Option<Control> {
        let process = Process::new(pid).ok()?;
        let name = name_in_environment(&process).or_else(|| name_of_thread(&process))?;
        let path = PathBuf::from(format!("/proc/{pid}/root{name}"));
        let is_socket = std::fs::metadata(&path).is_ok_and(|of| of.file_type().is_socket());
        is_socket.then_some(Control { path })
    }

    /// What it answers, and the file that it gives where the order asks for one.
    pub fn ask(&self, order: &Order) -> Result<(Answer, Option<File>)> {
        let stream = self.connected().with_context(|| format!("its socket {}", self.path.display()))?;
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

    /// By the file itself, as the address of a socket is short.
    fn connected(&self) -> Result<OwnedFd> {
        let place = OpenOptions::new().read(true).custom_flags(OFlag::O_PATH.bits()).open(&self.path)?;
        let address = UnixAddr::new(&PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd())))?;
        let stream = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
        let patience = TimeVal::seconds(PATIENCE_S);
        setsockopt(&stream, sockopt::ReceiveTimeout, &patience)?;
        setsockopt(&stream, sockopt::SendTimeout, &patience)?;
        connect(stream.as_raw_fd(), &address)?;
        Ok(stream)
    }
}

/// There from the moment on at which the name is.
fn name_in_environment(process: &Process) -> Option<String> {
    let wanted = process.environ().ok()?.remove(std::ffi::OsStr::new("HAKMEM_CONTROL"))?;
    let own_id = process.status().ok()?.nspid.and_then(|ids| ids.last().copied()).unwrap_or(process.pid);
    Some(wanted.to_str()?.replace("%p", &own_id.to_string()))
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
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
