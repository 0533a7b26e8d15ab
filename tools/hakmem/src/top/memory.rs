// SPDX-License-Identifier: MIT
//! Where the memory of a process is from, by site or by thread, while it is sampled.

use crate::attach::Attached;
use crate::image;
use crate::report::text::{self, Size};
use crate::report::view::{By, Show};
use crate::symbols::{self, Places, Symbols};

const ROWS: usize = 200;

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
}
