// SPDX-License-Identifier: MIT
//! Where the library lies.

use crate::program::{Image, Libc};
use anyhow::{bail, ensure, Result};
use std::path::{Path, PathBuf};

const NAMES: [&str; 2] = ["libhakmem.so.0", "libhakmem.so"];
const BUILT: &str = "build/release";
const SYSTEM: [&str; 4] = ["/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64"];
/// The clone that this tool was built from.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The library that was asked for, or the first that is found for programs of this C library.
pub fn find(given: Option<&Path>, wanted: Libc) -> Result<PathBuf> {
    if let Some(path) = given {
        let image = Image::of(path)?;
        ensure!(image.has_hakmem, "{} is no libhakmem of this version", path.display());
        ensure!(fits(&image, wanted), "{}", other_libc(path, &image, wanted));
        return Ok(std::path::absolute(path)?);
    }
    let mut other = None;
    for path in places() {
        match Image::of(&path) {
            Ok(image) if image.has_hakmem && fits(&image, wanted) => return Ok(path),
            Ok(image) if image.has_hakmem => other = other.or(Some(other_libc(&path, &image, wanted))),
            _ => {}
        }
    }
    match other {
        Some(text) => bail!(text),
        None => bail!("there is no libhakmem.so.0 beside this tool, in its build tree, or installed; run `make all` in the clone, or give --library PATH"),
    }
}

fn fits(image: &Image, wanted: Libc) -> bool {
    wanted == Libc::Unknown || image.libc() == Libc::Unknown || image.libc() == wanted
}

fn other_libc(path: &Path, image: &Image, wanted: Libc) -> String {
    format!(
        "{} is built for {}, and the program runs on {}: each C library needs a build of its own (docs/compatibility.md)",
        path.display(),
        image.libc().name(),
        wanted.name()
    )
}

/// Beside the tool, in the prefix that it is installed in, in the build tree above it, in the system's folders.
fn places() -> Vec<PathBuf> {
    let own = std::env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Some(beside) = own.parent() {
        folders.push(beside.into());
        folders.extend(["lib", "lib64"].map(|lib| beside.join("..").join(lib)));
        folders.push(beside.join("../lib").join(multiarch()));
    }
    folders.extend(own.ancestors().skip(1).map(|above| above.join(BUILT)));
    folders.push(Path::new(SOURCE).join(BUILT));
    for system in SYSTEM.map(PathBuf::from) {
        folders.push(system.join(multiarch()));
        folders.push(system);
    }
    let files = folders.into_iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
    files.filter_map(|file| file.canonicalize().is_ok().then(|| clean(&file))).collect()
}

/// Without `..`, but by the name that updates keep.
fn clean(file: &Path) -> PathBuf {
    let folder = file.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, file.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => file.to_path_buf(),
    }
}

fn multiarch() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_of_ours_is_refused() {
        let own = std::env::current_exe().unwrap();
        let said = find(Some(&own), Libc::Unknown).unwrap_err().to_string();
        assert!(said.ends_with("is no libhakmem of this version"), "{said}");
        let said = find(Some(Path::new("/nonexistent.so")), Libc::Unknown).unwrap_err().to_string();
        assert_eq!(said, "/nonexistent.so");
    }
}
