// SPDX-License-Identifier: MIT
//! Asks a process for something, by the words of src/core/request.h: they are written into its memory, and it follows
//! where it is slow anyway.

use super::rest::Rest;
use super::turn::Turn;
use super::Attached;
use crate::failure::Failure;
use crate::lists::Word;
use anyhow::{bail, ensure, Result};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long an answer is waited for. A busy process gives it in milliseconds, its helper within an eighth of a second.
pub const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// How many an order of this tool's has.
const ARGUMENTS: usize = 2;

/// The numbers are those of hk_command_t.
const TRIM: u64 = 1;
const LIMIT: u64 = 2;
const OPTION: u64 = 3;
const PROFILE_START: u64 = 4;
const PROFILE_STOP: u64 = 5;
const STATISTICS: u64 = 7;
const PROFILE_WRITE: u64 = 8;

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
        let at = |word: Word| -> Result<u64> { Ok(base.wrapping_add(record.field(word)?.offset as u64)) };
        let words = Words {
            order: base.wrapping_add(record.word(Word::RequestOrder)?),
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
        };
        let ends = [words.command + 8, words.arguments + 8 * ARGUMENTS, words.text + words.text_size];
        ensure!(ends.iter().all(|&end| end <= words.order_size), "its record is damaged (RequestOrderSize)");
        Ok(words)
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
    pub fn words(&self) -> (u64, [u64; ARGUMENTS], &str) {
        match self {
            Order::Trim => (TRIM, [0, 0], ""),
            Order::Limit { soft, hard } => (LIMIT, [*soft, *hard], ""),
            Order::Option(setting) => (OPTION, [0, 0], setting),
            Order::ProfileStart(interval) => (PROFILE_START, [*interval, 0], ""),
            Order::ProfileStop => (PROFILE_STOP, [0, 0], ""),
            Order::Statistics => (STATISTICS, [0, 0], ""),
            Order::ProfileWrite => (PROFILE_WRITE, [0, 0], ""),
        }
    }
}

impl Order {
    /// Whether an order that stands has no meaning once this one is given. Nobody waits for an order that only has an
    /// answer: who gave it was ended.
    fn replaces(&self, command: u64, text: &str) -> bool {
        let (own, _, own_text) = self.words();
        matches!(command, TRIM | STATISTICS) || subject(own, own_text) == subject(command, text)
    }
}

/// What an order sets: limits are an option too, and sampling is on or off.
fn subject(command: u64, text: &str) -> (u64, String) {
    match command {
        LIMIT => (OPTION, "LIMIT".into()),
        OPTION => {
            let name = text.split('=').next().unwrap_or_default().to_ascii_uppercase();
            (OPTION, name.strip_prefix("HAKMEM_").unwrap_or(&name).to_string())
        }
        PROFILE_STOP => (PROFILE_START, String::new()),
        _ => (command, String::new()),
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
        self.ask_words(order, stays).map_err(|error| self.told(error))
    }

    fn ask_words(&self, order: &Order, stays: bool) -> Result<Option<Answer>> {
        let words = Words::of(self)?;
        let _turn = Turn::of(self.thread)?;
        self.make_room(&words, order)?;
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

impl Attached {
    /// There are words for one order. One that an idle process has not come to stays, unless this one takes its place.
    fn make_room(&self, words: &Words, order: &Order) -> Result<()> {
        let begin = Instant::now();
        while let Some((command, text)) = self.standing(words)? {
            if order.replaces(command, &text) {
                return Ok(self.memory.write(words.nonce, &0u64.to_ne_bytes())?);
            }
            if begin.elapsed() > PATIENCE {
                let (rest, what) = (Rest::of(self.pid), described(command, &text));
                bail!(Failure::AtRest(format!(
                    "it is {} and has not come yet to what it was asked for before ({what}): it takes that over {}; \
                     ask again then",
                    rest.state(),
                    rest.end()
                )));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// The command and the text of an order that it has not come to.
    fn standing(&self, words: &Words) -> Result<Option<(u64, String)>> {
        if self.memory.number(words.nonce, 8)? == 0 {
            return Ok(None);
        }
        let mut bytes = vec![0; words.order_size];
        self.memory.read(words.order, &mut bytes)?;
        let text = String::from_utf8_lossy(&bytes[words.text..words.text + words.text_size]);
        let text = text.split('\0').next().unwrap_or_default();
        Ok(Some((word_at(&bytes, words.command), text.to_string())))
    }

    /// Takes back what would begin sampling, and says whether there was that.
    pub fn withdraw_profile(&self) -> Result<bool> {
        self.withdraw_start().map_err(|error| self.told(error))
    }

    fn withdraw_start(&self) -> Result<bool> {
        let words = Words::of(self)?;
        let _turn = Turn::of(self.thread)?;
        let waits = self.standing(&words)?.is_some_and(|(command, _)| command == PROFILE_START);
        if waits {
            self.memory.write(words.nonce, &0u64.to_ne_bytes())?;
        }
        Ok(waits)
    }
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn described(command: u64, text: &str) -> String {
    match command {
        LIMIT => "limits".into(),
        OPTION => text.escape_debug().to_string(),
        PROFILE_START => "the start of sampling".into(),
        PROFILE_STOP => "the end of sampling".into(),
        _ => format!("command {command}"),
    }
}

/// Not 0, and not one that another asker uses.
fn a_nonce() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64) << 20 | u64::from(std::process::id() & 0xf_ffff) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_takes_the_place_of_its_own_kind_alone() {
        let limit = Order::Limit { soft: 1, hard: 0 };
        assert!(limit.replaces(LIMIT, "") && !limit.replaces(OPTION, "SAFE=1") && !Order::Trim.replaces(LIMIT, ""));
        let option = Order::Option("hakmem_purge_delay=1".into());
        assert!(option.replaces(OPTION, "PURGE_DELAY=5") && !option.replaces(OPTION, "PURGE=5"));
        assert!(Order::ProfileStop.replaces(PROFILE_START, "") && limit.replaces(TRIM, ""));
        assert!(limit.replaces(OPTION, "LIMIT=off") && Order::Option("hakmem_limit=off".into()).replaces(LIMIT, ""));
    }
}
