// SPDX-License-Identifier: MIT
//! Asks a process for something, by the words of src/core/request.h: they are written into its memory, and it follows
//! where it is slow anyway.

use super::Attached;
use crate::failure::Failure;
use crate::lists::Word;
use anyhow::{bail, Context, Result};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long an answer is waited for. A busy process gives it in milliseconds, its helper within an eighth of a second.
pub const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// The numbers are those of hk_command_t.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    Trim,
    Limit {
        soft: u64,
        hard: u64,
    },
    /// NAME=VALUE
    Option(String),
    /// Bytes between samples on average.
    ProfileStart(u64),
    ProfileStop,
    /// The result is where a text of them lies; by a socket they come as a file.
    Statistics,
    /// By a socket alone.
    ProfileWrite,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    pub status: i64,
    pub result: u64,
    /// By the allocator's helper, which has no magazines of its own.
    pub by_helper: bool,
}

/// Where its parts lie in the process.
struct Words {
    order: u64,
    order_size: usize,
    nonce: u64,
    answer: u64,
    status: u64,
    result: u64,
    by: u64,
    command: usize,
    arguments: usize,
    text: usize,
    text_size: usize,
}

impl Words {
    fn of(process: &Attached) -> Result<Words> {
        let record = &process.record;
        let base = record.word(Word::Request)?;
        let at = |word: Word| -> Result<u64> { Ok(base + record.field(word)?.offset as u64) };
        Ok(Words {
            order: base + record.word(Word::RequestOrder)?,
            order_size: record.size(Word::RequestOrderSize)?,
            nonce: at(Word::RequestNonce)?,
            answer: at(Word::RequestAnswer)?,
            status: at(Word::RequestStatus)?,
            result: at(Word::RequestResult)?,
            by: at(Word::RequestBy)?,
            command: record.field(Word::RequestCommand)?.offset,
            arguments: record.size(Word::RequestArguments)?,
            text: record.size(Word::RequestText)?,
            text_size: record.size(Word::RequestTextSize)?,
        })
    }

    fn bytes(&self, order: &Order) -> Result<Vec<u8>> {
        let (command, arguments, text) = order.words();
        let mut bytes = vec![0; self.order_size];
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        put(self.command, command);
        for (at, value) in arguments.into_iter().enumerate() {
            put(self.arguments + 8 * at, value);
        }
        check_length(text, self.text_size)?;
        bytes[self.text..self.text + text.len()].copy_from_slice(text.as_bytes());
        Ok(bytes)
    }
}

impl Order {
    /// A command, its arguments and its text, as src/core/request.h has them.
    pub fn words(&self) -> (u64, [u64; 2], &str) {
        match self {
            Order::Trim => (1, [0, 0], ""),
            Order::Limit { soft, hard } => (2, [*soft, *hard], ""),
            Order::Option(setting) => (3, [0, 0], setting),
            Order::ProfileStart(interval) => (4, [*interval, 0], ""),
            Order::ProfileStop => (5, [0, 0], ""),
            Order::Statistics => (7, [0, 0], ""),
            Order::ProfileWrite => (8, [0, 0], ""),
        }
    }
}

/// A text has room for its NUL.
pub fn check_length(text: &str, size: usize) -> Result<()> {
    if text.len() >= size {
        bail!(Failure::Usage(format!("{text}: longer than {} bytes", size - 1)));
    }
    Ok(())
}

impl Attached {
    /// None: the process has not come to it while this waited. What is left behind then is taken back, unless `stays`.
    pub fn ask(&self, order: &Order, stays: bool) -> Result<Option<Answer>> {
        self.ask_words(order, stays).with_context(|| format!("process {} ({})", self.pid, self.comm))
    }

    fn ask_words(&self, order: &Order, stays: bool) -> Result<Option<Answer>> {
        let words = Words::of(self)?;
        let nonce = a_nonce();
        self.memory.write(words.order, &words.bytes(order)?)?;
        self.memory.write(words.nonce, &nonce.to_ne_bytes())?; // behind the order, by a call of its own
        let begin = Instant::now();
        loop {
            if self.memory.number(words.answer, 8)? == nonce {
                let number = |address: u64| self.memory.number(address, 8);
                let (status, result, by) = (number(words.status)? as i64, number(words.result)?, number(words.by)?);
                return Ok(Some(Answer { status, result, by_helper: by != 1 }));
            }
            if begin.elapsed() > PATIENCE {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        if !stays && self.memory.number(words.nonce, 8)? == nonce {
            self.memory.write(words.nonce, &0u64.to_ne_bytes())?;
        }
        Ok(None)
    }
}

/// Not 0, and not one that another asker uses.
fn a_nonce() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64) << 20 | u64::from(std::process::id() & 0xf_ffff) | 1
}
