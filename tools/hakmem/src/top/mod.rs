// SPDX-License-Identifier: MIT
//! `hakmem top`: running processes, once a second. A look tells whether it is leak, cache or fragmentation.

mod columns;
mod host;
mod keys;
mod memory;
mod model;
mod process;
mod screen;

use crate::attach::Attached;
use crate::failure::Failure;
use crate::output::places_text;
use anyhow::{bail, Result};
use clap::Args;
use host::Host;
use keys::{Help, Keys};
use process::OneProcess;
use ratatui::crossterm::event::KeyCode;
use ratatui::Frame;
use screen::{Screen, Seen};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const SIGNALLED: u8 = 128;

#[derive(Args, Debug)]
pub struct TopArgs {
    /// Process id (default: all processes that run hakmem, to choose from)
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,

    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    every: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|value| (0.1..=3600.0).contains(value)).ok_or("expected 0.1 to 3600".into())
}

/// What a view wants after a key.
enum After {
    Stay,
    /// Looks at this process.
    Open(i32),
    Back,
    /// All keys, each in a line.
    Help(Keys),
    Quit,
}

/// What is on the screen.
trait View {
    /// Reads new figures.
    fn look(&mut self) -> Result<()>;
    fn draw(&self, frame: &mut Frame);
    fn key(&mut self, key: KeyCode) -> After;
}

impl TopArgs {
    pub fn run(&self) -> Result<ExitCode> {
        if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
            bail!(Failure::Usage("top needs a terminal; `hakmem stats` and `hakmem metrics` do not".into()));
        }
        if !places_text() {
            let why = "top needs a terminal that can place text, as TERM names one: it is empty or \"dumb\" here";
            bail!(Failure::Usage(format!("{why}; `hakmem stats` and `hakmem ps` need none")));
        }
        let mut views: Vec<Box<dyn View>> = Vec::new();
        match self.pid {
            Some(pid) => views.push(Box::new(OneProcess::of(Attached::to(pid)?))),
            None => views.push(Box::new(Host::default())),
        }
        let mut screen = Screen::open()?;
        let signal = self.show(&mut screen, &mut views)?;
        Ok(if signal == 0 { ExitCode::SUCCESS } else { ExitCode::from(SIGNALLED + signal as u8) })
    }

    /// Until it is told to end: the number of the signal that did, or 0.
    fn show(&self, screen: &mut Screen, views: &mut Vec<Box<dyn View>>) -> Result<i32> {
        let every = Duration::from_secs_f64(self.every);
        let mut next = Instant::now();
        while let Some(view) = views.last_mut() {
            if Instant::now() >= next {
                match view.look() {
                    Ok(()) => {}
                    Err(_) if views.len() > 1 => {
                        views.pop(); // the process has ended: back to the others
                        continue;
                    }
                    Err(error) => return Err(error),
                }
                next = Instant::now() + every;
            }
            let view = views.last_mut().expect("it is looked at");
            screen.terminal.draw(|frame| view.draw(frame))?;
            match screen.wait(next)? {
                Seen::Time | Seen::Resized => {}
                Seen::End(signal) => return Ok(signal),
                Seen::Key(key) => match view.key(key) {
                    After::Stay => {}
                    After::Quit => return Ok(0),
                    After::Back if views.len() == 1 => {}
                    After::Back => {
                        views.pop();
                        next = Instant::now();
                    }
                    After::Help(keys) => views.push(Box::new(Help(keys))),
                    After::Open(pid) => {
                        if let Ok(process) = Attached::to(pid) {
                            views.push(Box::new(OneProcess::of(process)));
                            next = Instant::now();
                        }
                    }
                },
            }
        }
        Ok(0)
    }
}
