// SPDX-License-Identifier: MIT
//! The record of src/inspect/record.h: found by its note in an ELF file that a process has mapped, and read word by
//! word.

use super::memory::Memory;
use super::notes;
use crate::lists::Word;
use anyhow::{bail, ensure, Context, Result};

const OWNER: &[u8] = b"hakmem";
const NOTE_TYPE: u32 = 1;
/// The newest layout that this tool reads.
const LAYOUT: u32 = 1;
const MAGIC: &[u8; 8] = b"hakmem\0\0";
/// Magic, size and layout.
const HEAD: usize = 16;
/// No offset, size or count that a record has is larger. Whoever writes a record may have written anything.
const NUMBER_MAX: u64 = 1 << 20;
/// Nor is a table, in bytes.
const TABLE_MAX: usize = 64 << 20;

pub struct Record {
    words: Vec<u64>,
}

/// Where a field lies in a structure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    pub offset: usize,
    pub size: usize,
}

impl Field {
    pub fn end(self) -> usize {
        self.offset + self.size
    }

    /// The field's value in a copy of the structure.
    pub fn of(self, structure: &[u8]) -> u64 {
        let mut bytes = [0; 8];
        bytes[..self.size].copy_from_slice(&structure[self.offset..self.end()]);
        u64::from_ne_bytes(bytes)
    }
}

impl Record {
    #[cfg(test)]
    pub fn of(words: Vec<u64>) -> Record {
        Record { words }
    }

    pub fn word(&self, word: Word) -> Result<u64> {
        let found = self.words.get(word as usize).copied();
        found.with_context(|| format!("its library is too old to tell ({word:?}); use the hakmem tool of its version"))
    }

    pub fn size(&self, word: Word) -> Result<usize> {
        let number = self.word(word)?;
        ensure!(number <= NUMBER_MAX, damaged(word));
        Ok(number as usize)
    }

    /// The size of a structure that has these fields.
    pub fn stride(&self, word: Word, fields: &[Field]) -> Result<usize> {
        let stride = self.size(word)?;
        ensure!(stride > 0 && fields.iter().all(|field| field.end() <= stride), damaged(word));
        Ok(stride)
    }

    pub fn field(&self, word: Word) -> Result<Field> {
        let field = self.array(word)?;
        ensure!(field.size <= 8, damaged(word));
        Ok(field)
    }

    /// A field that is longer than a number.
    pub fn array(&self, word: Word) -> Result<Field> {
        let packed = self.word(word)?;
        let field = Field { offset: (packed & 0xffff_ffff) as usize, size: (packed >> 32) as usize };
        ensure!(field.size > 0 && field.size.max(field.offset) as u64 <= NUMBER_MAX, damaged(word));
        Ok(field)
    }

    pub fn version(&self) -> Result<String> {
        let number = self.word(Word::Version)?;
        Ok(format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100))
    }
}

fn damaged(word: Word) -> String {
    format!("its record is damaged ({word:?})")
}

pub fn table_bytes(count: usize, stride: usize) -> Result<usize> {
    let bytes = count.checked_mul(stride).filter(|&bytes| bytes <= TABLE_MAX);
    bytes.context("its record is damaged: a table is too large")
}

/// The address of the record that the ELF file at `start` leads to, if it has one.
pub fn find(memory: &Memory, start: u64) -> nix::Result<Option<u64>> {
    let segments = notes::in_memory(memory, start)?;
    Ok(segments.iter().find_map(|(address, notes)| Some(address.wrapping_add(leads_to(notes)?))))
}

pub fn has_note(notes: &[u8]) -> bool {
    leads_to(notes).is_some()
}

/// The record's address, counted from the start of the notes.
fn leads_to(notes: &[u8]) -> Option<u64> {
    let ours = notes::all(notes).find(|note| note.owner == OWNER && note.kind == NOTE_TYPE)?;
    let distance = i32::from_ne_bytes(ours.content.get(4..8)?.try_into().ok()?);
    Some((ours.at as u64 + 4).wrapping_add_signed(i64::from(distance)))
}

pub fn read(memory: &Memory, address: u64) -> Result<Record> {
    let mut head = [0; HEAD];
    memory.read(address, &mut head)?;
    let number = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().expect("4 bytes"));
    let (size, layout) = (number(8) as usize, number(12));
    if head[..8] != MAGIC[..] || size < HEAD + 16 || size > 64 * 1024 {
        bail!("its note leads to something that is no record of hakmem's");
    }
    let words = memory.words(address.wrapping_add(HEAD as u64), (size - HEAD) / 8)?;
    let record = Record { words };
    if layout > LAYOUT {
        bail!(newer(&record, memory, layout)?);
    }
    Ok(record)
}

fn newer(record: &Record, memory: &Memory, layout: u32) -> Result<String> {
    Ok(format!(
        "it runs {} with a record of layout {layout}, and this tool reads layouts up to {LAYOUT}: use the hakmem tool of \
         version {} or later",
        memory.text(record.word(Word::Build)?)?,
        record.version()?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_note(owner: &[u8], kind: u32, distance: i32) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [owner.len() as u32, 8, kind] {
            note.extend_from_slice(&word.to_ne_bytes());
        }
        note.extend_from_slice(owner);
        note.resize(note.len().next_multiple_of(4), 0);
        note.extend_from_slice(&1u32.to_ne_bytes());
        note.extend_from_slice(&distance.to_ne_bytes());
        note
    }

    #[test]
    fn the_note_is_found_among_others() {
        let ours = a_note(b"hakmem\0", 1, 100);
        assert_eq!(leads_to(&ours), Some(24 + 100));
        let before = a_note(b"GNU\0", 3, 5);
        assert_eq!(leads_to(&[before.clone(), ours.clone()].concat()), Some(before.len() as u64 + 24 + 100));
        assert_eq!(leads_to(&before), None);
        assert_eq!(leads_to(&a_note(b"hakmem\0", 2, 100)), None);
        assert_eq!(leads_to(&ours[..ours.len() - 1]), None);
        assert_eq!(leads_to(&[0xff; 40]), None);
    }

    #[test]
    fn fields_have_the_size_that_the_record_says() {
        let record = Record { words: vec![10203, 4 | 2 << 32, 9 << 32] };
        let field = record.field(Word::Build).unwrap();
        assert_eq!(field, Field { offset: 4, size: 2 });
        assert_eq!(field.of(&[9, 9, 9, 9, 1, 2, 9, 9]), 0x0201);
        assert_eq!(record.version().unwrap(), "1.2.3");
        assert!(record.field(Word::OptionList).is_err());
        assert!(record.size(Word::OptionList).is_err(), "no count is so large");
        assert_eq!(record.stride(Word::Version, &[field]).unwrap(), 10203);
        assert!(Record::of(vec![5]).stride(Word::Version, &[field]).is_err(), "the field ends behind the structure");
        assert!(Record::of(vec![0]).stride(Word::Version, &[]).is_err());
        assert!(table_bytes(1 << 20, 1 << 20).is_err() && table_bytes(usize::MAX, 2).is_err());
        assert!(record.word(Word::Counters).unwrap_err().to_string().contains("too old"));
    }
}
