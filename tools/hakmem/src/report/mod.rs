// SPDX-License-Identifier: MIT
//! The forms in which a profile is written.

pub mod folded;
pub mod groups;
pub mod growth;
pub mod json;
pub mod page;
pub mod pprof;
pub mod text;
pub mod verdict;
pub mod view;

use crate::image::Profile;
use crate::output::remark;
use crate::symbols::Symbols;
use anyhow::{anyhow, bail, Context, Result};
use nix::errno::Errno;
use nix::unistd::{access, AccessFlags};
use std::fs;
use std::path::Path;
use view::Show;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Pprof,
    Svg,
    Page,
    Json,
    Folded,
}

impl Form {
    /// By the end of the file's name.
    pub fn of(path: &Path) -> Result<Form> {
        let name = path.to_string_lossy().to_ascii_lowercase();
        let forms = [
            (".pb.gz", Form::Pprof),
            (".pprof", Form::Pprof),
            (".svg", Form::Svg),
            (".html", Form::Page),
            (".json", Form::Json),
            (".folded", Form::Folded),
        ];
        match forms.iter().find(|(end, _)| name.ends_with(end)) {
            Some((_, form)) => Ok(*form),
            None => bail!(
                "{}: the name tells the form, and it ends with none of .html, .pb.gz (pprof), .svg, .json, .folded",
                path.display()
            ),
        }
    }
}

pub fn bytes_of(profile: &Profile, symbols: &Symbols, show: Show, form: Form) -> Result<Vec<u8>> {
    match form {
        Form::Pprof => pprof::write(profile, symbols, show),
        Form::Svg => folded::svg(profile, symbols, show),
        Form::Page => page::write(profile, symbols),
        Form::Json => Ok((serde_json::to_string_pretty(&json::profile(profile, symbols, show))? + "\n").into_bytes()),
        Form::Folded => {
            Ok(folded::lines(profile, symbols, show).into_iter().flat_map(|line| (line + "\n").into_bytes()).collect())
        }
    }
}

/// Before anything takes time: whether a file can be made there.
pub fn check_place(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let may = match fs::metadata(folder) {
        Ok(of) if !of.is_dir() => Err(Errno::ENOTDIR),
        _ if path.is_dir() => Err(Errno::EISDIR),
        _ => access(folder, AccessFlags::W_OK | AccessFlags::X_OK),
    };
    may.map_err(|error| anyhow!("cannot write {}: {}", path.display(), error.desc()))
}

/// Nobody finds half a file. Says where it lies.
pub fn leave(path: &Path, bytes: &[u8]) -> Result<()> {
    write_file(path, bytes)?;
    remark(format_args!("hakmem: wrote {}", path.display()));
    Ok(())
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = Path::new(&part);
    let written = fs::write(part, bytes).and_then(|()| fs::rename(part, path));
    written
        .inspect_err(|_| {
            let _ = fs::remove_file(part);
        })
        .with_context(|| format!("cannot write {}", path.display()))
}
