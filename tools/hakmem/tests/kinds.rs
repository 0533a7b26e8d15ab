// SPDX-License-Identifier: MIT
//! Programs of every kind are read: static, on musl, forked, with the library's file deleted.

mod running;

use running::{hakmem, skipped, started, Folder, ARCHIVE, LIBRARY};
use std::path::Path;
use std::process::Command;

/// Has 1,000 blocks of 1,000 bytes; forks if asked, and then the child has 1,000 more.
const PROGRAM: &str = "
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *kept[2000];
int main(int count, char **words) {
    for (int i = 0; i < 1000; i++) memset(kept[i] = malloc(1000), 1, 1000);
    if (count > 1 && fork() == 0)
        for (int i = 1000; i < 2000; i++) memset(kept[i] = malloc(1000), 1, 1000);
    for (;;) pause();
}";

fn live(id: &str) -> u64 {
    running::figure(id, "live")
}

fn has_its_blocks(id: &str) -> bool {
    (1_000_000..1_500_000).contains(&live(id))
}

#[test]
fn a_static_program() {
    let folder = Folder::new("kinds-static");
    for (name, more) in [("fixed", &["-static"][..]), ("moved", &["-static-pie"])] {
        let flags = [more, &["-Wl,--undefined=malloc", ARCHIVE, "-pthread"]].concat();
        drop(started(Command::new(folder.program(name, PROGRAM, &flags)), has_its_blocks));
    }
}

#[test]
fn a_stripped_program_whose_files_are_gone() {
    let folder = Folder::new("kinds-deleted");
    let program = folder.program("gone", PROGRAM, &["-s"]);
    let library = folder.copy(LIBRARY);
    let mut command = Command::new(&program);
    let child = started(
        {
            command.env("LD_PRELOAD", &library);
            command
        },
        has_its_blocks,
    );
    std::fs::remove_file(&program).unwrap();
    std::fs::remove_file(&library).unwrap();
    assert!(has_its_blocks(&child.id()));
    let said = running::stdout(&hakmem(&["doctor", &child.id()]));
    assert!(said.contains("serves malloc: ") && said.contains("(deleted)"), "{said}");
}

#[test]
fn the_child_of_a_fork_has_figures_of_its_own() {
    let folder = Folder::new("kinds-fork");
    let mut command = Command::new(folder.program("forks", PROGRAM, &[]));
    let parent = started(
        {
            command.env("LD_PRELOAD", LIBRARY).arg("fork");
            command
        },
        has_its_blocks,
    );
    let id = parent.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let child = children.split_whitespace().next().expect("there is a child").to_string();
    running::until("the child has its blocks", || live(&child) > 2_000_000);
    assert!(has_its_blocks(&id));
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.parse().unwrap()), nix::sys::signal::SIGKILL);
}

/// Needs a build for musl: docs/compatibility.md says how it is made, and events/musl leaves one too.
#[test]
fn a_program_on_musl() {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build");
    let places = ["musl/libhakmem.a", "release/tests/musl/libhakmem.a"].map(|place| build.join(place));
    let Some(archive) = places.iter().find_map(|place| place.exists().then(|| place.to_str().unwrap())) else {
        return skipped("musl", "there is no build/musl/libhakmem.a");
    };
    let folder = Folder::new("kinds-musl");
    let flags = ["-static", "-Wl,--undefined=malloc", archive];
    match folder.compiled("musl-gcc", "small", PROGRAM, &flags) {
        Some(program) => drop(started(Command::new(program), has_its_blocks)),
        None => skipped("musl", "there is no musl-gcc"),
    }
}

/// It is process 1 there, and its file lies on a mount of its own: names come through /proc/PID/root.
#[test]
fn symbols_come_through_the_root_of_a_container() {
    if !running::may_mount_apart("a program in a container") {
        return;
    }
    let folder = Folder::new("kinds-container");
    let source =
        "#include <stdlib.h>\n__attribute__((noinline)) void keeps_blocks(void) { for (int i = 0; i < 1000; i++) \
                  *(volatile char *)malloc(1000) = 1; }\n#include <unistd.h>\n\
                  int main(void) { keeps_blocks(); for (;;) pause(); }";
    let program = folder.program("inside", source, &["-g", "-fno-optimize-sibling-calls"]);
    let (place, library) = (folder.0.join("mount"), folder.copy(LIBRARY));
    std::fs::create_dir(&place).unwrap();
    let script = "mount -t tmpfs none \"$1\" && cp \"$2\" \"$3\" \"$1\" && export HAKMEM_PROFILE=4K LD_PRELOAD=\"$1/libhakmem.so.0\" && \
                  exec \"$1/inside\"";
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "sh", "-c", script, "sh"]);
    let launcher = running::Running(command.arg(&place).arg(&program).arg(&library).spawn().unwrap());
    let children = format!("/proc/{0}/task/{0}/children", launcher.id());
    let child = || std::fs::read_to_string(&children).unwrap_or_default().trim().to_string();
    running::until("the program never ran there", || live(&child()) > 900_000);
    let said = hakmem(&["heap", &child()]);
    assert!(running::stdout(&said).contains("keeps_blocks < main"), "{said:?}");
    assert!(!running::stderr(&said).contains("inside: is not there"), "{said:?}");
}
