// SPDX-License-Identifier: MIT
//! What was found, and how it is shown.

use anyhow::Result;
use serde_json::{json, Value};
use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    Ok,
    Note,
    Problem,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Problem => "problem",
        }
    }
}

#[derive(Debug)]
pub struct Finding {
    /// For scripts: a word that stays.
    pub id: &'static str,
    pub level: Level,
    pub what: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// All that was found of one subject.
#[derive(Debug, Default)]
pub struct Diagnosis {
    pub subject: String,
    pub process: Option<i32>,
    pub program: Option<String>,
    /// Whether hakmem serves malloc there, or would.
    pub active: Option<bool>,
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    pub fn of(subject: impl Into<String>) -> Diagnosis {
        Diagnosis { subject: subject.into(), ..Diagnosis::default() }
    }

    pub fn ok(&mut self, id: &'static str, what: impl Into<String>) {
        self.findings.push(Finding { id, level: Level::Ok, what: what.into(), remedy: None });
    }

    pub fn note(&mut self, id: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.findings.push(Finding { id, level: Level::Note, what: what.into(), remedy: Some(remedy.into()) });
    }

    pub fn problem(&mut self, id: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.findings.push(Finding { id, level: Level::Problem, what: what.into(), remedy: Some(remedy.into()) });
    }

    pub fn has(&self, level: Level) -> bool {
        self.findings.iter().any(|finding| finding.level == level)
    }
}

pub fn as_text(all: &[Diagnosis]) -> String {
    let mut text = String::new();
    for one in all {
        let _ = writeln!(text, "{}", one.subject);
        for finding in &one.findings {
            let _ = writeln!(text, "  {:<8} {}", finding.level.name(), finding.what);
            if let Some(remedy) = &finding.remedy {
                let _ = writeln!(text, "           -> {remedy}");
            }
        }
    }
    text
}

pub fn as_json(all: &[Diagnosis]) -> Result<String> {
    let finding =
        |one: &Finding| json!({"id": one.id, "level": one.level.name(), "what": one.what, "remedy": one.remedy});
    let object = |one: &Diagnosis| {
        json!({
            "subject": one.subject, "process": one.process, "program": one.program, "active": one.active,
            "findings": one.findings.iter().map(finding).collect::<Vec<_>>(),
        })
    };
    let all: Vec<Value> = all.iter().map(object).collect();
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}
