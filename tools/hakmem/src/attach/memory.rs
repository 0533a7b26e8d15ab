// SPDX-License-Identifier: MIT
//! Another process's memory, read while it runs and without its taking notice; and written, for requests.

use nix::errno::Errno;
use nix::sys::uio::{process_vm_readv, process_vm_writev, RemoteIoVec};
use nix::unistd::Pid;
use std::io::{IoSlice, IoSliceMut};

#[derive(Clone, Copy)]
pub struct Memory {
    pid: Pid,
}

/// Longer texts are cut.
const TEXT_MAX: usize = 64 * 1024;
const TEXT_PIECE: usize = 4096;

impl Memory {
    pub fn of(pid: i32) -> Memory {
        Memory { pid: Pid::from_raw(pid) }
    }

    /// All of `out`, or an error.
    pub fn read(&self, address: u64, out: &mut [u8]) -> nix::Result<()> {
        let length = out.len();
        self.read_pieces(&[(address, length)], out)
    }

    /// Several pieces one behind the other, in the order in which they are given, by one system call.
    pub fn read_pieces(&self, pieces: &[(u64, usize)], out: &mut [u8]) -> nix::Result<()> {
        let remote: Vec<RemoteIoVec> =
            pieces.iter().map(|&(address, len)| RemoteIoVec { base: address as usize, len }).collect();
        let wanted: usize = pieces.iter().map(|piece| piece.1).sum();
        let read = process_vm_readv(self.pid, &mut [IoSliceMut::new(&mut out[..wanted])], &remote)?;
        if read == wanted {
            Ok(())
        } else {
            Err(Errno::EFAULT)
        }
    }

    /// All of `bytes`, or an error.
    pub fn write(&self, address: u64, bytes: &[u8]) -> nix::Result<()> {
        let remote = [RemoteIoVec { base: address as usize, len: bytes.len() }];
        match process_vm_writev(self.pid, &[IoSlice::new(bytes)], &remote)? {
            written if written == bytes.len() => Ok(()),
            _ => Err(Errno::EFAULT),
        }
    }

    /// Up to the end of the page, if less is there.
    pub fn read_some(&self, address: u64, out: &mut [u8]) -> nix::Result<usize> {
        let remote = [RemoteIoVec { base: address as usize, len: out.len() }];
        process_vm_readv(self.pid, &mut [IoSliceMut::new(out)], &remote)
    }

    /// An unsigned number of `size` bytes, at most 8.
    pub fn number(&self, address: u64, size: usize) -> nix::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes[..size.min(8)])?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// `count` words of 64 bits.
    pub fn words(&self, address: u64, count: usize) -> nix::Result<Vec<u64>> {
        let mut bytes = vec![0; count * 8];
        self.read(address, &mut bytes)?;
        Ok(bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes"))).collect())
    }

    /// A text that ends with a NUL.
    pub fn text(&self, address: u64) -> nix::Result<String> {
        let mut text = Vec::new();
        while text.len() < TEXT_MAX {
            let mut piece = [0; TEXT_PIECE];
            let at = address + text.len() as u64;
            let to_page_end = TEXT_PIECE - (at as usize % TEXT_PIECE);
            let read = self.read_some(at, &mut piece[..to_page_end])?;
            let end = piece[..read].iter().position(|&byte| byte == 0);
            text.extend_from_slice(&piece[..end.unwrap_or(read)]);
            if end.is_some() {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}
