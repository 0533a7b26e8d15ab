// SPDX-License-Identifier: MIT
//! The keys of a view: in one line as far as they fit, and each in a line of its own after `?`.

use super::{After, View};
use anyhow::Result;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line as Text;
use ratatui::widgets::Paragraph;
use ratatui::Frame;

/// A key, and what it does. The first is the way out.
pub type Keys = Vec<(&'static str, String)>;

const MORE: &str = "? keys";
const BETWEEN: &str = "  ";

/// No word is cut. Where not all fit, the second says how to see all.
pub fn line(keys: &Keys, width: u16) -> Text<'static> {
    let width = usize::from(width);
    let mut words: Vec<String> = keys.iter().map(|(key, what)| format!("{key} {what}")).collect();
    if words.join(BETWEEN).len() > width {
        words.insert(1, MORE.into());
    }
    let mut line = String::new();
    for word in words {
        let between = if line.is_empty() { "" } else { BETWEEN };
        if line.len() + between.len() + word.len() <= width {
            line += between;
            line += &word;
        }
    }
    Text::from(line).style(Style::new().add_modifier(Modifier::REVERSED))
}

/// All keys of the view before, until the next key.
pub struct Help(pub Keys);

impl View for Help {
    fn look(&mut self) -> Result<()> {
        Ok(())
    }

    fn draw(&self, frame: &mut Frame) {
        let widest = self.0.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
        let lines = self.0.iter().map(|(key, what)| Text::from(format!("{key:widest$}  {what}")));
        let last = Text::from("any key: back").style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_widget(Paragraph::new(lines.chain([last]).collect::<Vec<_>>()), frame.area());
    }

    fn key(&mut self, key: KeyCode) -> After {
        match key {
            KeyCode::Char('q') => After::Quit,
            _ => After::Back,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_cut_at_any_width() {
        let keys =
            vec![("q", "quit".into()), ("s", "sort: live".into()), ("up/down", "scroll".into()), ("p", "pause".into())];
        let at = |width| line(&keys, width).to_string();
        assert_eq!(at(80), "q quit  s sort: live  up/down scroll  p pause");
        assert_eq!(at(45), at(80));
        assert_eq!(at(43), "q quit  ? keys  s sort: live  p pause");
        assert_eq!(at(28), "q quit  ? keys  s sort: live");
        assert_eq!(at(20), "q quit  ? keys");
        assert_eq!(at(6), "q quit");
        assert_eq!(at(5), "");
    }
}
