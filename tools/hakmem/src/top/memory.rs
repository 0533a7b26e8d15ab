// SPDX-License-Identifier: MIT
//! Where the memory of a process is from, by site or by thread, while it is sampled.

use super::columns;
use crate::attach::Attached;
use crate::image;
use crate::report::text::{self, Size};
use crate::report::view::{By, Show};
use crate::symbols::{self, Places, Symbols};

const ROWS: usize = 200;

/// Of the tables: bytes, their share, blocks; and for the beginning of a name. Between them is one column.
const WIDTHS: [u16; 4] = [12, 7, 12, 16];
const NAME: usize = 3;
const LEAST_FIRST: [usize; 2] = [1, 2];

/// What the lower part of the screen shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    Classes,
    Sites,
    Threads,
}

impl Part {
    pub fn next(self) -> Part {
        match self {
            Part::Classes => Part::Sites,
            Part::Sites => Part::Threads,
            Part::Threads => Part::Classes,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Part::Classes => "classes",
            Part::Sites => "sites",
            Part::Threads => "threads",
        }
    }
}

/// The lines as `hakmem heap` prints them. Names are looked up when there are new stacks.
#[derive(Default)]
pub struct Memory {
    pub lines: Vec<String>,
    symbols: Symbols,
    known: usize,
}

impl Memory {
    pub fn look(&mut self, process: &Attached, part: Part) {
        let by = match part {
            Part::Classes => return,
            Part::Sites => By::Site,
            Part::Threads => By::Thread,
        };
        let text = match image::copy_of(process) {
            Ok(profile) => {
                if profile.nodes.len() != self.known {
                    self.symbols = symbols::find(&profile, &Places::default());
                    self.known = profile.nodes.len();
                }
                text::table(&profile, &self.symbols, Show::Inuse, by, Size { rows: ROWS, stacks: false })
            }
            Err(error) => format!("{error:#}"),
        };
        self.lines = text.lines().map(str::to_string).collect();
    }

    /// What is told above a table is read whole. Of the table there are as many columns as fit, and the ends of names
    /// may be missing.
    pub fn shown(&self, width: u16) -> Vec<String> {
        let table = self.lines.iter().position(String::is_empty).unwrap_or(self.lines.len());
        let columns = columns::fitting(&WIDTHS, &LEAST_FIRST, width);
        let told = self.lines[..table].iter().flat_map(|line| folded(line, usize::from(width)));
        told.chain(self.lines[table..].iter().map(|line| with_columns(line, &columns))).collect()
    }
}

/// Between words, into lines of that width.
fn folded(line: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

fn with_columns(line: &str, columns: &[usize]) -> String {
    let part = |&at: &usize| {
        let start = WIDTHS[..at].iter().map(|width| usize::from(width + 1)).sum();
        let rest = line.chars().skip(start);
        match at {
            NAME => rest.collect::<String>(),
            _ => rest.take(usize::from(WIDTHS[at])).collect(),
        }
    };
    columns.iter().map(part).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::fixture::{Block, Fixture};
    use crate::image::from_bytes;
    use std::path::Path;

    fn memory(by: By) -> Memory {
        let mut fixture = Fixture::new(0);
        let stack = fixture.stack(&[0x1000, 0x2000]);
        for _ in 0..1234 {
            fixture.block(Block { stack, size: 300 << 10, thread: 77, ..Block::default() });
        }
        let profile = from_bytes(&fixture.bytes(), Path::new("x")).unwrap();
        let size = Size { rows: ROWS, stacks: false };
        let text = text::table(&profile, &symbols::none(&profile), Show::Inuse, by, size);
        Memory { lines: text.lines().map(str::to_string).collect(), ..Memory::default() }
    }

    #[test]
    fn no_figure_is_cut_where_the_terminal_is_narrow() {
        let whole = ["361.5 MiB", "100.0 %", "1,234"];
        for (by, name) in [(By::Site, "0x"), (By::Thread, "thread 77")] {
            let memory = memory(by);
            for width in 12..90u16 {
                let shown = memory.shown(width);
                let line = shown.last().unwrap();
                let seen: String = line.chars().take(width.into()).collect();
                let figures: Vec<&str> = whole.into_iter().filter(|figure| seen.contains(figure)).collect();
                let begun = 1 + usize::from(width >= 42) + usize::from(width >= 50);
                assert_eq!(figures.len(), begun, "{width}: {seen}");
                assert_eq!(figures[0], whole[0]);
                assert!(width < 29 || seen.contains(name), "{width}: {seen}");
                let told: String = memory.lines[0].split(' ').collect();
                assert!(shown.concat().replace(' ', "").contains(&told), "{width}: {shown:?}");
            }
        }
    }
}
