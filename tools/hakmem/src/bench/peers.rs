// SPDX-License-Identifier: MIT
//! The allocators to measure: glibc, hakmem, what bench/peers built, and what the user names.

use super::args::{BenchArgs, Lib};
use super::elf;
use super::model::{Allocator, GIVEN, GUARDED_PEERS, LEVELS, OURS};
use super::places::Places;
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Shown by `--allocators all` only: older packages of the distribution.
const OLDER: &str = "-debian";
/// Stands for the safety levels and who is to be seen beside them.
const GUARDED: &str = "guarded";
/// ... of which these are in the usual run too.
const GUARDED_USUAL: [&str; 4] = [OURS, "glibc", "scudo", "hardened"];
/// Why a peer is missing that bench/peers can build and has not tried.
const NOT_BUILT: &str = "not built yet";

/// Tab-separated lines: name, version, libraries, environment, note.
pub fn parse_manifest(text: &str, folder: &Path) -> Result<Vec<Allocator>> {
    let mut peers = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, version, libraries, environment, note] = columns[..] else {
            bail!("manifest line {}: expected 5 columns, found {}", number + 1, columns.len());
        };
        peers.push(Allocator {
            name: name.into(),
            version: version.trim().into(),
            note: note.into(),
            missing: libraries.is_empty().then(|| note.to_string()),
            environment: environment
                .split_whitespace()
                .filter_map(|w| w.split_once('='))
                .map(|(k, v)| (k.into(), v.into()))
                .collect(),
            preload: libraries.split(':').filter(|l| !l.is_empty()).map(|l| folder.join(l)).collect(),
        });
    }
    Ok(peers)
}

fn glibc_path() -> Option<PathBuf> {
    let path = [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib/aarch64-linux-gnu/libc.so.6",
        "/lib64/libc.so.6",
        "/usr/lib/libc.so.6",
    ];
    path.iter().map(PathBuf::from).find(|p| p.is_file())
}

pub fn glibc() -> Allocator {
    let found = glibc_path();
    Allocator {
        name: "glibc".into(),
        version: glibc_version(),
        missing: found.is_none().then(|| "no libc.so.6 found".into()),
        preload: found.into_iter().collect(),
        ..Allocator::default()
    }
}

/// As the library itself says, for this tool may be linked with another C library.
pub fn glibc_version() -> String {
    glibc_path().and_then(|path| fs::read(path).ok()).and_then(|library| version_in(&library)).unwrap_or_default()
}

/// `GNU C Library (BUILD) stable release version 2.36.`
fn version_in(library: &[u8]) -> Option<String> {
    let title = b"GNU C Library ";
    let at = library.windows(title.len()).position(|bytes| bytes == title)?;
    let line = library[at..].split(|byte| *byte == b'\n' || *byte == 0).next()?;
    let version = String::from_utf8_lossy(line).split(" release version ").nth(1)?.trim_end_matches('.').to_string();
    Some(version)
}

fn ours(places: &Places) -> Allocator {
    let path = places.library();
    let missing = (!path.is_file()).then(|| format!("{} is not there: run `make release`", places.shown(&path)));
    let version = tree_version(&places.root);
    Allocator { name: OURS.into(), version, missing, preload: vec![resolved(&path)], ..Allocator::default() }
}

fn levels(places: &Places) -> impl Iterator<Item = Allocator> + '_ {
    LEVELS.iter().map(|(name, level)| Allocator {
        name: (*name).into(),
        environment: vec![("HAKMEM_SAFE".into(), (*level).into())],
        note: format!("HAKMEM_SAFE={level}"),
        ..ours(places)
    })
}

fn is_level(name: &str) -> bool {
    LEVELS.iter().any(|(level, _)| *level == name)
}

/// Only by its name, or by a word for several.
fn is_special(name: &str) -> bool {
    name.ends_with(OLDER) || is_level(name) || GUARDED_PEERS.contains(&name)
}

fn is_guarded(name: &str) -> bool {
    is_level(name) || GUARDED_PEERS.contains(&name) || GUARDED_USUAL.contains(&name)
}

/// Whether a word of --allocators means this one.
fn means(word: &str, name: &str) -> bool {
    word == name || word == "all" || (word == GUARDED && is_guarded(name))
}

/// What --lib names. One that cannot be preloaded is a mistake in the command, not an allocator that is missing.
pub fn given(arguments: &BenchArgs) -> Result<Vec<Allocator>> {
    let allocator = |lib: &Lib| {
        check_library(&lib.path).with_context(|| format!("--lib {}", lib.name))?;
        let (name, environment) = (lib.name.clone(), lib.environment.clone());
        let (version, preload) = (GIVEN.into(), vec![resolved(&lib.path)]);
        Ok(Allocator { name, version, preload, environment, ..Allocator::default() })
    };
    arguments.libs.iter().map(allocator).collect()
}

fn check_library(path: &Path) -> Result<()> {
    let shown = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let shown = shown.display();
    ensure!(path.exists(), "{shown} is not there; give the path of a shared library");
    ensure!(path.is_file(), "{shown} is no regular file; give the path of a shared library");
    ensure!(elf::is_shared_object(path), "{shown} is no ELF shared object; give the path of a shared library");
    Ok(())
}

fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// The commit that the tree is at, with a mark when it has changed since.
fn tree_version(root: &Path) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["describe", "--always", "--dirty=+changes"]);
    let output = git.output().ok().filter(|o| o.status.success());
    output.map_or("this tree".into(), |o| String::from_utf8_lossy(&o.stdout).trim().to_string())
}

fn known(places: &Places) -> Result<Vec<Allocator>> {
    let mut all = vec![ours(places)];
    all.extend(levels(places));
    all.push(glibc());
    if let Ok(text) = fs::read_to_string(places.manifest()) {
        all.extend(parse_manifest(&text, &places.peers())?);
    }
    for name in places.peer_names()? {
        if !all.iter().any(|a| a.name == name) {
            all.push(Allocator { name, missing: Some(NOT_BUILT.into()), ..Allocator::default() });
        }
    }
    Ok(all)
}

/// Those of a plan that have to be built before it can run.
pub fn to_build(chosen: &[Allocator]) -> Vec<String> {
    chosen.iter().filter(|a| a.missing.as_deref() == Some(NOT_BUILT)).map(|a| a.name.clone()).collect()
}

/// The allocators of this run, in the order of the tables.
pub fn choose(places: &Places, arguments: &BenchArgs, usual: impl Fn(&str) -> bool) -> Result<Vec<Allocator>> {
    let mut all = known(places)?;
    for added in given(arguments)? {
        match all.iter_mut().find(|a| a.name == added.name) {
            Some(old) => *old = added,
            None => all.push(added),
        }
    }
    let wanted = &arguments.allocators;
    if let Some(unknown) = wanted.iter().find(|w| !all.iter().any(|a| means(w, &a.name))) {
        let names: Vec<&str> = all.iter().map(|a| a.name.as_str()).collect();
        bail!("no allocator '{unknown}'; there are: {}", names.join(", "));
    }
    let given = |name: &str| arguments.libs.iter().any(|l| l.name == name);
    all.retain(|a| match wanted.is_empty() {
        true => given(&a.name) || (usual(&a.name) && !is_special(&a.name)),
        false => wanted.iter().any(|w| means(w, &a.name)) || given(&a.name),
    });
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_are_chosen_by_name_alone() {
        assert!(
            means("guarded", "hakmem-safe2") && means("guarded", "hardened") && means("guarded", "mimalloc-secure")
        );
        assert!(!means("guarded", "jemalloc") && means("all", "jemalloc-debian") && means("glibc", "glibc"));
        assert!(is_special("hakmem-safe3") && is_special("mimalloc-debian") && !is_special("hardened"));
    }

    #[test]
    fn a_c_library_says_its_version() {
        let library = b"\0GNU\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopyright\0";
        assert_eq!(version_in(library).as_deref(), Some("2.36"));
        assert_eq!(version_in(b"musl libc\0"), None);
        assert_eq!(version_in(b"GNU C Library \0 release version 1."), None);
    }

    #[test]
    fn the_manifest_lists_peers_and_missing_ones() {
        let text = "a\t1.0\tliba.so:libb.so\tX=1 Y=2\tnote\nb\t2\t\t\tnot built: why\n";
        let peers = parse_manifest(text, Path::new("/p")).unwrap();
        assert_eq!(peers[0].preload, vec![PathBuf::from("/p/liba.so"), PathBuf::from("/p/libb.so")]);
        assert_eq!(peers[0].environment.len(), 2);
        assert_eq!(peers[1].missing.as_deref(), Some("not built: why"));
        assert!(parse_manifest("only\tthree\tcolumns", Path::new("/")).is_err());
    }
}
