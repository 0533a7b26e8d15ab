// SPDX-License-Identifier: MIT
//! What went wrong, as scripts tell it apart: by exit code.

use std::fmt;
use std::process::ExitCode;

pub const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  an error, which standard error tells, or no answer in time, as of an idle process
  2  wrong usage
  3  the kernel does not permit to look into that process
  4  there is no hakmem in that process
  126, 127  the program that is to be started cannot be executed, is not there";

#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    NotPermitted(String),
    NoHakmem(String),
    /// Nobody samples it.
    NoProfile(String),
    /// It has not come to what it was asked for.
    AtRest(String),
    NoProcess(String),
    Usage(String),
    /// A program that is to be started is not there.
    NoProgram(String),
    /// It is there.
    NotExecutable(String),
    /// Another program began in the process while it was looked at.
    Moved(String),
    /// It did not take the request, and will not.
    Refused(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Failure::NotPermitted(text)
            | Failure::NoHakmem(text)
            | Failure::NoProfile(text)
            | Failure::AtRest(text)
            | Failure::NoProcess(text)
            | Failure::Usage(text)
            | Failure::NoProgram(text)
            | Failure::NotExecutable(text)
            | Failure::Moved(text)
            | Failure::Refused(text) => out.write_str(text),
        }
    }
}

impl std::error::Error for Failure {}

pub fn is_no_hakmem(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Failure::NoHakmem(_)))
}

pub fn is_not_permitted(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Failure::NotPermitted(_)))
}

pub fn is_refused(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Failure::Refused(_)))
}

pub fn is_at_rest(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Failure::AtRest(_)))
}

/// It has nothing to show, for whoever did not ask for this process by its number.
pub fn is_nothing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Failure::NoHakmem(_) | Failure::NoProfile(_) | Failure::NoProcess(_)))
}

pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref() {
        Some(Failure::Usage(_)) => ExitCode::from(2),
        Some(Failure::NotPermitted(_)) => ExitCode::from(3),
        Some(Failure::NoHakmem(_)) => ExitCode::from(4),
        Some(Failure::NotExecutable(_)) => ExitCode::from(126), // as env(1) and shells have it
        Some(Failure::NoProgram(_)) => ExitCode::from(127),
        _ => ExitCode::FAILURE,
    }
}
