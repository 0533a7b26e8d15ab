// SPDX-License-Identifier: MIT
//! Compiles the C source as its own build does: flags and lists of files are in c/src/build.txt.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// What build.txt says with `word`.
fn listed<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).collect()
}

/// Patterns have at most one `*`, in the name of the file.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, behind)) => {
            name.len() >= before.len() + behind.len() && name.starts_with(before) && name.ends_with(behind)
        }
    }
}

/// `room/file.c` of every file, sorted.
fn sources(root: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for room in fs::read_dir(root).expect("c/src").flatten().filter(|e| e.path().is_dir()) {
        for file in fs::read_dir(room.path()).expect("a room").flatten() {
            let name = format!("{}/{}", room.file_name().to_string_lossy(), file.file_name().to_string_lossy());
            if name.ends_with(".c") && !name.ends_with("_shared.c") {
                names.push(name);
            }
        }
    }
    names.sort();
    names
}

fn build(flags: &[&str], level: &str) -> cc::Build {
    let mut build = cc::Build::new();
    let here = env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    build
        .std("gnu17")
        .opt_level_str(level)
        .define("_GNU_SOURCE", None)
        .define("HK_BUILD_TYPE", "\"release\"")
        .include("c/src")
        .include("c/include")
        .flag(format!("-ffile-prefix-map={here}=hakmem-sys"))
        .warnings(false)
        .pic(true);
    for flag in flags {
        build.flag(flag);
    }
    build
}

fn is_supported() -> bool {
    let target = |key: &str| env::var(key).unwrap_or_default();
    target("CARGO_CFG_TARGET_OS") == "linux"
        && ["x86_64", "aarch64"].contains(&target("CARGO_CFG_TARGET_ARCH").as_str())
        && ["gnu", "musl"].contains(&target("CARGO_CFG_TARGET_ENV").as_str())
        && target("CARGO_CFG_TARGET_POINTER_WIDTH") == "64"
}

fn main() {
    println!("cargo:rerun-if-changed=c/src");
    println!("cargo:rerun-if-changed=c/include");
    if !is_supported() {
        return; // src/lib.rs says so
    }
    let root = PathBuf::from("c/src");
    let list = fs::read_to_string(root.join("build.txt")).expect("c/src/build.txt");
    let (flags, small) = (listed(&list, "flag"), listed(&list, "small"));
    let overrides = env::var_os("CARGO_FEATURE_OVERRIDE").is_some();

    // The operators of C++ are an archive of their own: they need a C++ runtime, which only a program with C++ has.
    let (cxx, others): (Vec<_>, Vec<_>) = sources(&root)
        .into_iter()
        .filter(|name| overrides || !name.starts_with("shim/"))
        .partition(|name| name.starts_with("shim/cxx"));
    let (small, fast): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|name| small.iter().any(|pattern| matches(pattern, name)));

    let paths = |names: &[String]| names.iter().map(|name| root.join(name)).collect::<Vec<_>>();
    let small = build(&flags, "s").files(paths(&small)).compile_intermediates();
    build(&flags, "2").files(paths(&fast)).objects(small).cargo_metadata(false).compile("hakmem");
    println!("cargo:rustc-link-search=native={}", env::var("OUT_DIR").expect("set by cargo"));
    // Every object is needed: nobody names what runs at load and at exit, and some of the C names would come from the
    // C library.
    println!("cargo:rustc-link-lib=static:+whole-archive,-bundle=hakmem");
    if overrides {
        build(&flags, "2").files(paths(&cxx)).compile("hakmem_cxx");
    }
    println!("cargo:include={}", fs::canonicalize("c/include").expect("c/include").display());
}
