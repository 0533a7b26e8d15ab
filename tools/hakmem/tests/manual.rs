// SPDX-License-Identifier: MIT
//! Manual pages and completions know every command.

mod running;

use running::{hakmem, stdout, Folder};

const VERBS: [&str; 12] =
    ["run", "ps", "stats", "options", "top", "trim", "limit", "metrics", "serve", "doctor", "bench", "completions"];

#[test]
fn every_command_has_a_page() {
    let folder = Folder::new("manual");
    let path = folder.0.join("man1");
    assert!(hakmem(&["man", path.to_str().unwrap()]).status.success());
    for verb in VERBS {
        let page = std::fs::read_to_string(path.join(format!("hakmem-{verb}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH OPTIONS"), "{page}");
    }
    let page = stdout(&hakmem(&["man"]));
    assert!(page.contains(".TH hakmem 1") && page.contains("hakmem\\-doctor(1)"), "{page}");
    assert_eq!(hakmem(&["man", "/dev/full/x"]).status.code(), Some(1));
}

#[test]
fn it_is_installed_with_its_pages_and_removed() {
    let folder = Folder::new("install");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install-tool");
    let install = |arguments: &[&str]| {
        let mut command = std::process::Command::new(script);
        command.args(arguments).arg("/usr/local").arg(&folder.0).env("TOOL", running::TOOL);
        assert!(command.status().unwrap().success());
    };
    install(&[]);
    let there = |path: &str| folder.0.join("usr/local").join(path).exists();
    let files =
        ["bin/hakmem", "share/man/man1/hakmem-run.1", "share/man/man1/hakmem.1", "share/zsh/site-functions/_hakmem"];
    assert!(files.iter().all(|file| there(file)));
    install(&["--remove"]);
    assert!(!files.iter().any(|file| there(file)));
}

#[test]
fn shells_complete_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&hakmem(&["completions", shell]));
        assert!(VERBS.iter().all(|verb| script.contains(verb)), "{shell}");
    }
    assert_eq!(hakmem(&["completions", "none"]).status.code(), Some(2));
}

/// What a value may be is offered, and no files where none is wanted.
#[test]
fn shells_complete_the_values_of_options() {
    let script = stdout(&hakmem(&["completions", "bash"]));
    let offered = |flag: &str| {
        let mut lines = script.lines().map(str::trim).skip_while(|line| *line != format!("{flag})"));
        lines.nth(1).unwrap_or_else(|| panic!("no {flag}")).to_string()
    };
    assert!(offered("--huge").contains("\"auto off force\""), "{}", offered("--huge"));
    assert!(offered("--safe").contains("\"0 1 2 3\""), "{}", offered("--safe"));
    assert!(!offered("--purge-delay").contains("compgen"), "{}", offered("--purge-delay"));
    assert!(offered("--control").contains("compgen -f"), "{}", offered("--control"));
}
