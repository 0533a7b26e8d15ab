// SPDX-License-Identifier: MIT
//! All processes of this host that run hakmem, to choose one from.

use super::columns;
use super::keys::{self, Keys};
use super::model::{rate, History, Point, Verdict};
use super::{After, View};
use crate::attach::select::all;
use crate::attach::Attached;
use crate::look::human;
use anyhow::Result;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::{Row, Table};
use ratatui::Frame;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Processes that had no hakmem are asked again: they may have become another program.
const AGAIN: Duration = Duration::from_secs(10);
/// What a look may take of them: keys are not read meanwhile. The others come with the next look.
const SHARE: Duration = Duration::from_millis(50);

const TITLES: [&str; 7] = ["PID", "COMM", "LIVE", "CACHED", "FRAGMENTED", "RESIDENT", "GROWTH"];
/// Of the name the least.
const WIDTHS: [u16; 7] = [8, 8, 10, 10, 10, 10, 13];
const COMM: usize = 1;
const COMM_MAX: u16 = 16;

#[derive(Default)]
pub struct Host {
    begin: Option<Instant>,
    known: HashMap<i32, Known>,
    order: Vec<i32>,
    /// The row of the process that is chosen, and which that is.
    row: usize,
    chosen: Option<i32>,
    by_growth: bool,
}

/// What was seen of a process.
enum Known {
    Without(Instant),
    With(Box<Attached>, History),
}

impl Host {
    /// New processes are looked at, those that are gone forgotten.
    fn find(&mut self) -> Result<()> {
        let here: Vec<i32> = all()?.map(|process| process.pid()).collect();
        let alive: HashSet<i32> = here.iter().copied().collect();
        self.known.retain(|pid, _| alive.contains(pid));
        let begin = Instant::now();
        for pid in here {
            let is_old = |seen: &Known| matches!(seen, Known::Without(when) if when.elapsed() > AGAIN);
            if self.known.get(&pid).is_none_or(is_old) {
                let seen = match Attached::now(pid) {
                    Ok(process) => Known::With(Box::new(process), History::default()),
                    Err(_) => Known::Without(Instant::now()),
                };
                self.known.insert(pid, seen);
                if begin.elapsed() > SHARE {
                    break;
                }
            }
        }
        Ok(())
    }

    fn history(&self, pid: i32) -> Option<(&Attached, &History)> {
        match self.known.get(&pid)? {
            Known::With(process, history) => Some((process, history)),
            Known::Without(_) => None,
        }
    }

    fn growth(&self, pid: i32) -> f64 {
        match self.history(pid).map(|(_, history)| history.verdict()) {
            Some(Verdict::Grows(rate, _)) => rate,
            _ => 0.0,
        }
    }

    /// What is chosen stays that in another row. When it is gone, what took its row is chosen.
    fn put(&mut self, order: Vec<i32>) {
        let place = order.iter().position(|pid| Some(*pid) == self.chosen);
        self.order = order;
        self.choose(place.unwrap_or(self.row));
    }

    fn choose(&mut self, row: usize) {
        self.row = row.min(self.order.len().saturating_sub(1));
        self.chosen = self.order.get(self.row).copied();
    }

    fn keys(&self) -> Keys {
        let sort = if self.by_growth { "growth" } else { "live" };
        vec![
            ("q", "quit".into()),
            ("enter", "look into it".into()),
            ("up/down", "choose".into()),
            ("s", format!("sort: {sort}")),
        ]
    }
}

/// Those that fit, and their widths: the name has what the figures leave.
fn columns_for(room: u16, by_growth: bool) -> (Vec<usize>, Vec<u16>) {
    let least_first = if by_growth { [4, 3, 5, 2, 6, COMM] } else { [4, 3, 6, 5, 2, COMM] };
    let columns = columns::fitting(&WIDTHS, &least_first, room);
    let left = room.saturating_sub(columns::needed(&WIDTHS, &columns));
    let width = |&at: &usize| if at == COMM { (WIDTHS[at] + left).min(COMM_MAX) } else { WIDTHS[at] };
    let widths = columns.iter().map(width).collect();
    (columns, widths)
}

/// A cell for each title; the words mean what they mean in `hakmem ps`.
fn figures(pid: i32, comm: &str, now: &Point, growth: f64) -> [String; 7] {
    [
        pid.to_string(),
        comm.to_string(),
        human(now.live),
        human(now.cached),
        human(now.fragmented),
        human(now.resident),
        rate(growth),
    ]
}

impl View for Host {
    fn look(&mut self) -> Result<()> {
        let begin = *self.begin.get_or_insert_with(Instant::now);
        self.find()?;
        let mut gone = Vec::new();
        for (pid, seen) in &mut self.known {
            let Known::With(process, history) = seen else { continue };
            match process.snapshot() {
                Ok(snapshot) => history.push(Point::of(begin.elapsed().as_secs_f64(), &snapshot)),
                Err(_) => gone.push(*pid),
            }
        }
        for pid in gone {
            self.known.remove(&pid);
        }
        let mut order: Vec<i32> = self.known.keys().copied().filter(|pid| self.history(*pid).is_some()).collect();
        let live = |pid: &i32| self.history(*pid).map_or(0, |(_, history)| history.last().live);
        order.sort_by_key(|pid| (std::cmp::Reverse(live(pid)), *pid));
        if self.by_growth {
            order.sort_by(|a, b| self.growth(*b).total_cmp(&self.growth(*a)));
        }
        self.put(order);
        Ok(())
    }

    fn draw(&self, frame: &mut Frame) {
        let [title, table, keys] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]).areas(frame.area());
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let (count, s) = (self.order.len(), if self.order.len() == 1 { ("", "s") } else { ("es", "") });
        let found = format!("{count} process{} run{} hakmem", s.0, s.1);
        frame.render_widget(Text::from(found).style(bold), title);
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        let (columns, widths) = columns_for(table.width, self.by_growth);
        let header = Row::new(columns.iter().map(|&at| TITLES[at])).style(reversed);
        let row = |(at, pid): (usize, &i32)| {
            let (process, history) = self.history(*pid)?;
            let cells = figures(*pid, &process.comm, &history.last(), self.growth(*pid));
            let cells = columns.iter().map(|&at| cells[at].clone());
            Some(Row::new(cells.collect::<Vec<_>>()).style(if at == self.row { reversed } else { Style::new() }))
        };
        let first = self.row.saturating_sub(usize::from(table.height.saturating_sub(2)));
        let rows: Vec<Row> = self.order.iter().enumerate().skip(first).filter_map(row).collect();
        let widths = widths.into_iter().map(Constraint::Length);
        frame.render_widget(Table::new(rows, widths).header(header), table);
        frame.render_widget(keys::line(&self.keys(), keys.width), keys);
    }

    fn key(&mut self, key: KeyCode) -> After {
        match key {
            KeyCode::Char('q') => return After::Quit,
            KeyCode::Char('?') => return After::Help(self.keys()),
            KeyCode::Enter => return self.chosen.map_or(After::Stay, After::Open),
            KeyCode::Up => self.choose(self.row.saturating_sub(1)),
            KeyCode::Down => self.choose(self.row + 1),
            KeyCode::Char('s') => self.by_growth = !self.by_growth,
            _ => {}
        }
        After::Stay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_the_list_have_their_room_at_any_width() {
        for room in 8..120 {
            for by_growth in [false, true] {
                let (columns, widths) = columns_for(room, by_growth);
                assert!(widths.iter().sum::<u16>() + widths.len() as u16 - 1 <= room, "{room}: {columns:?} {widths:?}");
                assert!(columns.iter().zip(&widths).all(|(&at, &width)| width >= WIDTHS[at]));
            }
        }
        assert_eq!(columns_for(80, false).0.len(), TITLES.len());
        assert_eq!(columns_for(60, false).0, [0, 1, 2, 5, 6]);
    }

    #[test]
    fn the_choice_stays_with_its_process() {
        let mut host = Host::default();
        let mut opens = |order: &[i32], keys: &[KeyCode]| {
            host.put(order.to_vec());
            keys.iter().for_each(|key| drop(host.key(*key)));
            match host.key(KeyCode::Enter) {
                After::Open(pid) => Some(pid),
                _ => None,
            }
        };
        assert_eq!(opens(&[], &[KeyCode::Up, KeyCode::Down]), None);
        assert_eq!(opens(&[11, 12, 13], &[KeyCode::Down]), Some(12));
        assert_eq!(opens(&[12, 11, 13], &[]), Some(12), "sorted anew");
        assert_eq!(opens(&[14, 11, 13, 12], &[]), Some(12));
        assert_eq!(opens(&[14, 11, 13, 15], &[]), Some(15), "it is gone: what took its row");
        assert_eq!(opens(&[14, 11], &[]), Some(11), "the last row is gone as well");
        assert_eq!(opens(&[14, 11], &[KeyCode::Down, KeyCode::Up, KeyCode::Up]), Some(14));
    }

    /// What is retained is not in it, as in `hakmem ps`.
    #[test]
    fn what_is_cached_is_that_alone() {
        let now = Point { cached: 91_853, retained: 1 << 20, ..Point::default() };
        assert_eq!(figures(1, "a", &now, 0.0)[3], "89.7 KiB");
    }
}
