// SPDX-License-Identifier: MIT
//! A folder that passes for the repository, where building anything leaves the file `built`, with the names of the
//! peers that were built.
#![allow(dead_code)] // each test program needs a part of it

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Knows two peers; building one says so and fails to produce it.
const PEERS: &str = r#"
if [ "$1" = --list ]; then echo "p1 p2"; exit; fi
for name; do
    echo "$name" >>built
    echo "peers: building $name"
    printf '%s\t1\t\t\tnot built: a fake\n' "$name" >>build/peers/manifest.tsv
done"#;

pub struct Repository {
    root: PathBuf,
}

impl Repository {
    pub fn new(name: &str) -> Repository {
        let root = std::env::temp_dir().join(format!("hakmem-cli-{name}-{}", std::process::id()));
        let repository = Repository { root };
        repository.write("bench/workloads/common.h", "");
        repository.write("build/peers/log", "");
        repository.write("bench/Makefile", "all:\n\t@touch ../built\n");
        repository.script("bench/peers/build.sh", PEERS);
        repository
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn script(&self, name: &str, text: &str) {
        self.write(name, format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn hakmem(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hakmem"));
        command.args(arguments).current_dir(&self.root);
        command
    }

    /// The message of a command that fails before it has built anything.
    pub fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.hakmem(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", said(&output));
        assert!(!self.path("built").exists(), "{arguments:?} has built something");
        said(&output)
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
