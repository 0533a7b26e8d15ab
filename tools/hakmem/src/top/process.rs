// SPDX-License-Identifier: MIT
//! One process: what its memory is made up of, over time, and by size class.

use super::columns;
use super::keys::{self, Keys};
use super::memory::{Memory, Part};
use super::model::{lines, rate, History, Line, Point, Sort, Verdict, PARTS};
use super::{After, View};
use crate::attach::snapshot::{Class, Snapshot};
use crate::attach::{self, Attached};
use crate::look::human;
use anyhow::Result;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};
use ratatui::Frame;
use std::time::Instant;

const COLORS: [Color; 5] = [Color::Green, Color::Cyan, Color::Yellow, Color::Blue, Color::DarkGray];

pub struct OneProcess {
    process: Attached,
    begin: Instant,
    history: History,
    snapshot: Snapshot,
    before: Vec<Class>,
    /// Between the last two looks.
    seconds: f64,
    sort: Sort,
    part: Part,
    memory: Memory,
    scroll: usize,
    paused: bool,
}

impl OneProcess {
    pub fn of(process: Attached) -> OneProcess {
        OneProcess {
            process,
            begin: Instant::now(),
            history: History::default(),
            snapshot: Snapshot::default(),
            before: Vec::new(),
            seconds: 0.0,
            sort: Sort::Live,
            part: Part::Classes,
            memory: Memory::default(),
            scroll: 0,
            paused: false,
        }
    }

    fn value(&self, name: &str) -> u64 {
        self.snapshot.value(name)
    }

    fn title(&self) -> Text<'static> {
        let version = self.process.record.version().unwrap_or_default();
        let limit = match self.value("limit_hard").max(self.value("limit_soft")) {
            0 => String::new(),
            bytes => format!("  limit {}", human(bytes)),
        };
        let paused = if self.paused { "  PAUSED" } else { "" };
        Text::from(format!(
            "{} ({})  hakmem {version}  heaps {}{limit}{paused}",
            self.process.comm,
            self.process.pid,
            self.value("heaps_now")
        ))
        .style(Style::new().add_modifier(Modifier::BOLD))
    }

    fn verdict(&self) -> Text<'static> {
        let verdict = self.history.verdict();
        let color = match verdict {
            Verdict::Grows(..) => Color::Red,
            Verdict::Fragmented(_) | Verdict::Cached(_) => Color::Yellow,
            Verdict::Steady(_, false) => Color::Reset,
            Verdict::Steady(_, true) => Color::Green,
        };
        Text::from(verdict.text(self.process.pid)).style(Style::new().fg(color).add_modifier(Modifier::BOLD))
    }

    /// The parts of what is resident, as long as they are large.
    fn bar(&self, width: u16) -> Text<'static> {
        let values = PARTS.map(|(name, _)| self.value(name));
        let whole = values.iter().sum::<u64>().max(1);
        let (mut spans, mut sum, mut drawn) = (Vec::new(), 0, 0);
        for ((value, (_, sign)), color) in values.into_iter().zip(PARTS).zip(COLORS) {
            sum += value;
            let end = (u128::from(sum) * u128::from(width) / u128::from(whole)) as usize;
            spans.push(Span::styled(sign.repeat(end - drawn), Style::new().fg(color)));
            drawn = end;
        }
        Text::from(spans)
    }

    fn draw_history(&self, frame: &mut Frame, area: Rect) {
        for (at, (name, of)) in
            [("live", (|p: &Point| p.live) as fn(&Point) -> u64), ("resident", |p| p.resident)].into_iter().enumerate()
        {
            let row = Rect { y: area.y + 2 * at as u16, height: 2, ..area };
            if row.bottom() > area.bottom() {
                return;
            }
            let [label, graph] = Layout::horizontal([Constraint::Length(13), Constraint::Min(1)]).areas(row);
            let values = self.history.newest(graph.width as usize, of);
            let least = values.iter().min().copied().unwrap_or(0);
            let range = values.iter().max().copied().unwrap_or(0) - least;
            frame.render_widget(Paragraph::new(format!("{name}\n{} ↕", human(range))), label);
            // From the least on, so that growth is seen; a line of its own where there is none.
            let heights: Vec<u64> =
                values.iter().map(|value| if range == 0 { 1 } else { value - least + range / 16 }).collect();
            let most = if range == 0 { 8 } else { range + range / 16 };
            frame.render_widget(Sparkline::default().data(&heights).max(most.max(1)), graph);
        }
    }

    fn draw_classes(&self, frame: &mut Frame, area: Rect) {
        let lines = self.lines();
        let first = self.scroll.min(lines.len().saturating_sub(1));
        frame.render_widget(class_table(&lines[first..], self.sort, area.width), area);
    }

    fn draw_memory(&self, frame: &mut Frame, area: Rect) {
        let lines = self.memory.shown(area.width).into_iter().skip(self.scroll).map(Text::from);
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
    }

    /// How many can be scrolled.
    fn line_count(&self) -> usize {
        if self.part == Part::Classes {
            self.lines().len()
        } else {
            self.memory.lines.len()
        }
    }

    /// By class; what has runs of its own is in the last one.
    fn lines(&self) -> Vec<Line> {
        lines(&self.snapshot.classes, &self.before, self.seconds, self.sort)
    }

    fn larger(&self) -> String {
        let classes: u64 = self.snapshot.classes.iter().map(|class| class.live_blocks() * class.block_size).sum();
        let given = self.value("purged_bytes");
        format!(
            "blocks above 256 KiB: {} live   given back so far: {}",
            human(self.value("live").saturating_sub(classes)),
            human(given)
        )
    }

    fn keys(&self) -> Keys {
        vec![
            ("q", "quit".into()),
            ("s", format!("sort: {}", self.sort.name())),
            ("v", format!("view: {}", self.part.next().name())),
            ("up/down", "scroll".into()),
            ("p", "pause".into()),
            ("esc", "back".into()),
        ]
    }
}

/// In as many lines as it takes: a part is never cut. What is live and was not touched is not resident.
fn legend(snapshot: &Snapshot, width: u16) -> Vec<Text<'static>> {
    let figure = |name: &str, of: &str| format!("{name} {}", human(snapshot.value(of)));
    let mut lines = vec![vec![Span::from(figure("resident", "resident") + " ")]];
    let mut add = |sign: Span<'static>, text: String| {
        let (text, last) = (Span::from(text), lines.len() - 1);
        let used: usize = lines[last].iter().map(Span::width).sum();
        match used + sign.width() + text.width() > usize::from(width) {
            true => lines.push(vec![sign, text]),
            false => lines[last].extend([sign, text]),
        }
    };
    for ((name, sign), color) in PARTS.into_iter().zip(COLORS) {
        add(Span::styled(format!(" {sign} "), Style::new().fg(color)), figure(name, name));
        if name == "live" && snapshot.value("untouched") != 0 {
            add(Span::from(" "), format!("({})", figure("not touched", "untouched")));
        }
    }
    lines.into_iter().map(Text::from).collect()
}

/// As many columns as fit `width`. What it is sorted by, the sizes and what is live stay longest.
fn class_table(lines: &[Line], sort: Sort, width: u16) -> Table<'static> {
    const TITLES: [&str; 6] = ["block size", "blocks", "live", "growth", "allocs/s", "cached"];
    const WIDTHS: [u16; 6] = [11, 10, 11, 14, 12, 11];
    let sorted = match sort {
        Sort::Size => 0,
        Sort::Live => 2,
        Sort::Growth => 3,
        Sort::Allocations => 4,
        Sort::Cached => 5,
    };
    let mut least_first = [4, 1, 5, 3, 2, 0];
    least_first.sort_by_key(|&at| at == sorted || at == 0);
    let columns = columns::fitting(&WIDTHS, &least_first[..5], width);
    let cell = |text: String| Cell::from(Text::from(text).alignment(Alignment::Right));
    let titles = columns.iter().map(|&at| cell(format!("{}{}", if at == sorted { "▼" } else { "" }, TITLES[at])));
    let header = Row::new(titles).style(Style::new().add_modifier(Modifier::REVERSED));
    let row = |line: &Line| {
        let cells = [
            human(line.size),
            line.blocks.to_string(),
            human(line.live),
            rate(line.growth),
            format!("{:.0}", line.allocations),
            human(line.cached),
        ];
        Row::new(columns.iter().map(|&at| cell(cells[at].clone())).collect::<Vec<_>>())
    };
    let widths = columns.iter().map(|&at| Constraint::Length(WIDTHS[at]));
    Table::new(lines.iter().map(row).collect::<Vec<_>>(), widths).header(header).column_spacing(1)
}

impl View for OneProcess {
    fn look(&mut self) -> Result<()> {
        if self.paused {
            return Ok(());
        }
        let pid = self.process.pid;
        let snapshot = self.process.snapshot().map_err(|error| attach::ended(pid, error))?;
        let seconds = self.begin.elapsed().as_secs_f64();
        self.seconds = seconds - self.history.last().seconds;
        self.history.push(Point::of(seconds, &snapshot));
        self.before = std::mem::replace(&mut self.snapshot, snapshot).classes;
        self.memory.look(&self.process, self.part);
        Ok(())
    }

    fn draw(&self, frame: &mut Frame) {
        let legend = legend(&self.snapshot, frame.area().width);
        let heights = [1, 1, 1, legend.len() as u16, 4, 1].map(Constraint::Length);
        let parts = heights.into_iter().chain([Constraint::Min(0), Constraint::Length(1)]);
        let areas = Layout::vertical(parts).split(frame.area());
        frame.render_widget(self.title(), areas[0]);
        frame.render_widget(self.verdict(), areas[1]);
        frame.render_widget(self.bar(areas[2].width), areas[2]);
        frame.render_widget(Paragraph::new(legend), areas[3]);
        self.draw_history(frame, areas[4]);
        frame.render_widget(Text::from(self.larger()), areas[5]);
        match self.part {
            Part::Classes => self.draw_classes(frame, areas[6]),
            Part::Sites | Part::Threads => self.draw_memory(frame, areas[6]),
        }
        frame.render_widget(keys::line(&self.keys(), areas[7].width), areas[7]);
    }

    fn key(&mut self, key: KeyCode) -> After {
        let last = self.line_count().saturating_sub(1);
        match key {
            KeyCode::Char('q') => return After::Quit,
            KeyCode::Char('?') => return After::Help(self.keys()),
            KeyCode::Esc => return After::Back,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('v') => {
                (self.part, self.scroll) = (self.part.next(), 0);
                self.memory.look(&self.process, self.part);
            }
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down => self.scroll = (self.scroll + 1).min(last),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::PageDown => self.scroll = (self.scroll + 10).min(last),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        After::Stay
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::buffer::Buffer;
    use ratatui::widgets::Widget;

    #[test]
    fn parts_of_memory_are_whole_in_lines_of_any_width() {
        let names = PARTS.map(|(name, _)| name).into_iter().chain(["resident", "untouched"]);
        let mut snapshot = Snapshot { values: names.map(|name| (name, 1000 << 20)).collect(), ..Snapshot::default() };
        let shown = |snapshot: &Snapshot, width: u16| legend(snapshot, width).iter().map(Text::to_string).collect();
        for width in 27..120 {
            let lines: Vec<String> = shown(&snapshot, width);
            assert!(lines.iter().all(|line| line.chars().count() <= usize::from(width)), "{width}: {lines:?}");
            for part in ["█ live 1000.0 MiB", "(not touched 1000.0 MiB)", "· metadata 1000.0 MiB"] {
                assert!(lines.iter().any(|line| line.contains(part)), "{width}: {lines:?}");
            }
        }
        assert_eq!(shown(&snapshot, 80).len(), 3);
        snapshot.values.insert("untouched", 0);
        assert!(!shown(&snapshot, 80).concat().contains("touched"));
    }

    #[test]
    fn no_figure_is_cut_where_the_terminal_is_narrow() {
        let line =
            Line { size: 110_592, blocks: 12, live: 1_327_104, growth: -8192.0, allocations: 345.0, cached: 221_184 };
        let whole = ["108.0 KiB", "12", "1.3 MiB", "-8.0 KiB/s", "345", "216.0 KiB"];
        let shown = |sort: Sort, width: u16| {
            let area = Rect::new(0, 0, width, 2);
            let mut buffer = Buffer::empty(area);
            class_table(std::slice::from_ref(&line), sort, width).render(area, &mut buffer);
            (0..width).map(|x| buffer[(x, 1)].symbol().to_string()).collect::<String>()
        };
        for width in 12..90 {
            let text = shown(Sort::Live, width);
            let figures: Vec<&str> = text.split("  ").map(str::trim).filter(|figure| !figure.is_empty()).collect();
            assert!(figures.iter().all(|figure| whole.contains(figure)), "{width}: {text}");
            assert_eq!(figures[0], whole[0], "{width}");
        }
        assert!(whole.iter().all(|figure| shown(Sort::Live, 80).contains(figure)));
        assert!(shown(Sort::Allocations, 30).contains("345"));
    }
}
