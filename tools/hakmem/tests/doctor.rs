// SPDX-License-Identifier: MIT
//! What the doctor finds, of programs that are made to lack something.

mod running;

use running::{hakmem, json, skipped, sleeping, started, stderr, stdout, Folder, Running, ARCHIVE, LIBRARY, TOOL};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The findings on a process.
fn examined(id: &str) -> (Option<i32>, Value) {
    let output = hakmem(&["doctor", "--json", id]);
    let all = json(&output);
    (output.status.code(), all.as_array().unwrap().last().unwrap().clone())
}

fn finding<'a>(diagnosis: &'a Value, id: &str) -> &'a Value {
    let all = diagnosis["findings"].as_array().unwrap();
    all.iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("no {id}: {diagnosis}"))
}

fn what(diagnosis: &Value, id: &str) -> String {
    finding(diagnosis, id)["what"].as_str().unwrap().to_string()
}

fn remedy(diagnosis: &Value, id: &str) -> String {
    finding(diagnosis, id)["remedy"].as_str().unwrap().to_string()
}

/// Waits until the program itself runs, and no longer who started it.
fn spawned(command: Command, name: &str) -> Running {
    started(command, |id| std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.trim() == name))
}

#[test]
fn an_active_process_is_told_as_that() {
    let child = sleeping(&["--safe", "2"]);
    let (code, found) = examined(&child.id());
    assert_eq!((code, &found["active"]), (Some(0), &Value::Bool(true)), "{found}");
    assert!(what(&found, "active").contains("serves malloc"), "{found}");
    assert!(what(&found, "options").contains("HAKMEM_SAFE=2 (environment)"), "{found}");
    let text = stdout(&hakmem(&["doctor", &child.id()]));
    assert!(text.contains("this machine (Linux ") && text.contains("  ok       hakmem "), "{text}");
}

#[test]
fn a_process_without_it_is_told_why() {
    let mut command = Command::new("sleep");
    command.arg("600").env_remove("LD_PRELOAD");
    let child = spawned(command, "sleep");
    let (code, found) = examined(&child.id());
    assert_eq!((code, &found["active"]), (Some(4), &Value::Bool(false)), "{found}");
    assert!(what(&found, "inactive").contains("LD_PRELOAD did not name it"), "{found}");
    assert_eq!(remedy(&found, "inactive"), "start it again: hakmem run -- sleep 600");
}

#[test]
fn a_library_that_is_not_there_is_named() {
    let mut command = Command::new("sleep");
    command.arg("600").env("LD_PRELOAD", "/nonexistent/libhakmem.so.0").stderr(std::process::Stdio::null());
    let child = spawned(command, "sleep");
    let (_, found) = examined(&child.id());
    assert!(what(&found, "inactive").contains("/nonexistent/libhakmem.so.0 was asked for and is not there"), "{found}");
}

#[test]
fn options_and_limits_that_matter_are_named() {
    let mut command = Command::new("sh");
    let script = format!("ulimit -v 4000000; exec {TOOL} run --library {LIBRARY} -- sleep 600");
    command.args(["-c", &script]).env("HAKMEM_SAVE", "1").stderr(std::process::Stdio::null());
    let child = started(command, running::is_read);
    let (code, found) = examined(&child.id());
    assert_eq!(code, Some(0));
    assert!(what(&found, "option").contains("HAKMEM_SAVE is in its environment and is no option"), "{found}");
    assert!(what(&found, "rlimit_as").contains("RLIMIT_AS is 3.8 GiB"), "{found}");
}

const SLEEPER: &str = "#include <stdlib.h>\n#include <unistd.h>\nint main(void) { free(malloc(100)); sleep(600); }\n";
/// An allocator of somebody else's.
const OTHER: &str = "#include <stddef.h>\nstatic char a[1 << 22]; static size_t at;\n\
    void *malloc(size_t n) { void *p = a + at; at += (n + 15) / 16 * 16; return p; }\n\
    void *calloc(size_t n, size_t m) { return malloc(n * m); }\n\
    void *realloc(void *p, size_t n) { (void)p; return malloc(n); }\nvoid free(void *p) { (void)p; }\n\
    int mi_version(void) { return 1; }\n";

#[test]
fn other_allocators_are_named() {
    let folder = Folder::new("doctor-other");
    let library = folder.program("libmimalloc.so", OTHER, &["-shared", "-fPIC"]);
    let library = library.to_str().unwrap();
    let program = folder.program("sleeper", SLEEPER, &[]);
    let mut command = Command::new(&program);
    command.env("LD_PRELOAD", format!("{library}:{LIBRARY}"));
    let child = spawned(command, "sleeper");
    let (code, found) = examined(&child.id());
    assert_eq!(code, Some(4), "{found}");
    assert!(what(&found, "shadowed").contains("hakmem is loaded, and mimalloc comes before it"), "{found}");
    let mut command = Command::new(&program);
    command.env("LD_PRELOAD", format!("{LIBRARY}:{library}"));
    let child = started(command, running::is_read);
    let (code, found) = examined(&child.id());
    assert_eq!(code, Some(0), "{found}");
    assert!(what(&found, "brought").contains("libmimalloc.so brings mimalloc along"), "{found}");
}

/// Opens a file, which others cannot call into.
const OPENS: &str = "#include <dlfcn.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    int main(int count, char **words) {\n\
        free(malloc(100));\n\
        for (int i = 1; i < count; i++) if (!dlopen(words[i], RTLD_NOW | RTLD_LOCAL)) return 1;\n\
        sleep(600);\n\
    }";
const PLUGIN: &str = "#include <stdlib.h>\nvoid *made(void) { return malloc(100); }";

#[test]
fn a_plug_in_with_a_hakmem_of_its_own_does_not_serve_the_program() {
    let folder = Folder::new("doctor-plug-in");
    let plugin = folder.program("plugin.so", PLUGIN, &["-shared", "-fPIC", "-Wl,--undefined=malloc", ARCHIVE]);
    let program = folder.program("opens", OPENS, &["-fno-builtin", "-ldl"]);
    let plugin = plugin.to_str().unwrap();
    let opened = |preload: Option<&str>| {
        let mut command = Command::new(&program);
        command.arg(plugin).env_remove("LD_PRELOAD").envs(preload.map(|library| ("LD_PRELOAD", library)));
        let maps = |id: &str| std::fs::read_to_string(format!("/proc/{id}/maps"));
        started(command, |id| maps(id).is_ok_and(|maps| maps.contains(plugin)))
    };
    let child = opened(None);
    let (code, found) = examined(&child.id());
    assert_eq!((code, &found["active"]), (Some(4), &Value::Bool(false)), "{found}");
    assert!(what(&found, "inside").starts_with("the C library's malloc serves it ("), "{found}");
    assert!(what(&found, "inside").contains(&format!("hakmem is inside {plugin}, which the program")), "{found}");
    let library = std::path::Path::new(LIBRARY).canonicalize().unwrap();
    let child = opened(Some(library.to_str().unwrap()));
    let (code, found) = examined(&child.id());
    assert_eq!((code, &found["active"]), (Some(0), &Value::Bool(true)), "{found}");
    assert!(what(&found, "active").ends_with(&format!(" serves malloc: {}", library.display())), "{found}");
    assert!(what(&found, "copy").starts_with(&format!("another hakmem is inside {plugin}: ")), "{found}");
    assert_eq!(json(&hakmem(&["stats", "--json", &child.id()]))["library"], library.to_str().unwrap());
}

/// As redis-server does, which is linked with jemalloc: it sets its title where its environment was.
#[test]
fn a_program_that_wipes_its_environment_is_told_as_served() {
    let folder = Folder::new("doctor-title");
    folder.program("libmimalloc.so", OTHER, &["-shared", "-fPIC"]);
    let wipes = SLEEPER.replace(
        "int main(void) {",
        "#include <string.h>\nextern char **environ; int main(void) {
        for (char **one = environ; *one; one++) memset(*one, 0, strlen(*one));",
    );
    let place = folder.0.to_str().unwrap();
    let program = folder.program(
        "titled",
        &wipes,
        &[
            &format!("-L{place}"),
            "-fno-builtin",
            "-Wl,--no-as-needed",
            "-l:libmimalloc.so",
            &format!("-Wl,-rpath,{place}"),
        ],
    );
    let mut command = Command::new(&program);
    command.env("LD_PRELOAD", LIBRARY);
    let child = started(command, |id| {
        running::is_read(id)
            && std::fs::read(format!("/proc/{id}/environ")).is_ok_and(|all| all.iter().all(|byte| *byte == 0))
    });
    let (code, found) = examined(&child.id());
    assert_eq!((code, &found["active"]), (Some(0), &Value::Bool(true)), "{found}");
    assert!(what(&found, "brought").contains("libmimalloc.so brings mimalloc along"), "{found}");
}

fn planned(folder: &Folder, name: &str) -> (Output, Value) {
    let path = folder.0.join(name);
    let output = hakmem(&["doctor", "--json", "--library", LIBRARY, "--", path.to_str().unwrap()]);
    let found = json(&output).as_array().unwrap().last().unwrap().clone();
    (output, found)
}

#[test]
fn programs_are_judged_before_they_run() {
    let folder = Folder::new("doctor-programs");
    folder.program("dynamic", SLEEPER, &[]);
    let (output, found) = planned(&folder, "dynamic");
    assert_eq!((output.status.code(), &found["active"]), (Some(0), &Value::Bool(true)), "{found}");
    folder.program("alone", SLEEPER, &["-static"]);
    let (output, found) = planned(&folder, "alone");
    assert_eq!(output.status.code(), Some(4), "{found}");
    assert!(what(&found, "static").contains("linked statically"), "{found}");
    assert!(remedy(&found, "static").contains("libhakmem.a"), "{found}");
    folder.program("linked", SLEEPER, &["-static", "-Wl,--undefined=malloc", ARCHIVE, "-pthread"]);
    let (output, found) = planned(&folder, "linked");
    assert_eq!(output.status.code(), Some(0), "{found}");
    assert!(what(&found, "active").contains("linked into it"), "{found}");
    folder.program("own", &(SLEEPER.to_string() + OTHER), &["-fno-builtin"]);
    let (output, found) = planned(&folder, "own");
    assert_eq!(output.status.code(), Some(4), "{found}");
    assert!(what(&found, "shadowed").contains("mimalloc would serve malloc"), "{found}");
}

#[test]
fn a_program_that_calls_another_allocator_by_its_names_is_told_so() {
    let folder = Folder::new("doctor-mixed");
    let other = "#include <stdlib.h>\nvoid *mallocx(size_t size, int flags) { return 0; }";
    folder.program("libjemalloc.so.2", other, &["-shared", "-fPIC"]);
    let beside = folder.0.join("libjemalloc.so.2");
    let linked = ["-fno-builtin", beside.to_str().unwrap(), "-Wl,-rpath,$ORIGIN"];
    for (name, declared) in [("calls", ""), ("looks", " __attribute__((weak))")] {
        let calls = format!(
            "#include <stddef.h>\nvoid *mallocx(size_t, int){declared};\n\
             void *(*used)(size_t, int) = mallocx;\n{SLEEPER}"
        );
        folder.program(name, &calls, &linked);
    }
    let (output, found) = planned(&folder, "calls");
    assert_eq!((output.status.code(), &found["active"]), (Some(0), &Value::Bool(true)), "{found}");
    assert!(what(&found, "mixed").starts_with("calls calls mallocx of jemalloc: "), "{found}");
    assert!(remedy(&found, "mixed").starts_with("preload libhakmem-jemalloc.so.0 "), "{found}");
    let (_, found) = planned(&folder, "looks");
    assert!(!found.to_string().contains("\"mixed\""), "{found}");
    let names = Path::new(LIBRARY).with_file_name("libhakmem-jemalloc.so.0");
    let mut command = Command::new(folder.0.join("calls"));
    command.env("LD_PRELOAD", format!("{LIBRARY}:{}", names.display()));
    let child = started(command, running::is_read);
    let (code, found) = examined(&child.id());
    assert_eq!((code, &found["active"]), (Some(0), &Value::Bool(true)), "{found}");
    assert!(!found.to_string().contains("\"mixed\""), "{found}");
}

/// As Java is: a link in PATH, and a library beside the file that it leads to.
#[test]
fn what_lies_beside_a_program_is_found_through_a_link() {
    let folder = Folder::new("doctor-link");
    folder.program("libjli.so", "int beside(void) { return 1; }", &["-shared", "-fPIC"]);
    let beside = folder.0.join("libjli.so");
    let rpath = ["-fno-builtin", "-Wl,--no-as-needed", beside.to_str().unwrap(), "-Wl,-rpath,$ORIGIN"];
    std::fs::create_dir(folder.0.join("bin")).unwrap();
    folder.program("real", SLEEPER, &rpath);
    std::os::unix::fs::symlink("../real", folder.0.join("bin/linked")).unwrap();
    let (output, found) = planned(&folder, "bin/linked");
    assert_eq!((output.status.code(), &found["active"]), (Some(0), &Value::Bool(true)), "{found}");
    assert!(what(&found, "brought").contains("Java's heap does not come from malloc"), "{found}");
    std::fs::remove_file(&beside).unwrap();
    let (output, found) = planned(&folder, "bin/linked");
    assert_eq!(output.status.code(), Some(4), "{found}");
    assert!(what(&found, "program").contains("libjli.so: cannot open shared object file"), "{found}");
}

#[test]
fn a_library_of_another_c_library_is_told_how_to_build() {
    let folder = Folder::new("doctor-musl");
    if folder.compiled("musl-gcc", "sleeper", SLEEPER, &[]).is_none() {
        return running::skipped("musl", "musl-gcc is not installed");
    }
    let (output, found) = planned(&folder, "sleeper");
    assert_eq!(output.status.code(), Some(4), "{found}");
    assert!(what(&found, "library").contains("is built for glibc, and the program runs on musl"), "{found}");
    assert!(remedy(&found, "library").contains("CC=musl-gcc"), "{found}");
}

#[test]
fn set_uid_programs_are_told_as_that() {
    if !running::is_root() {
        return running::skipped("set-uid", "only root can make such a program of another user's");
    }
    let folder = Folder::new("doctor-set-uid");
    let program = folder.program("secure", SLEEPER, &[]);
    std::os::unix::fs::chown(&program, Some(running::NOBODY), None).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let (output, found) = planned(&folder, "secure");
    assert_eq!(output.status.code(), Some(4), "{found}");
    assert!(what(&found, "secure").contains("it is set-uid"), "{found}");
    let mut command = Command::new(&program);
    command.env("LD_PRELOAD", LIBRARY).stderr(std::process::Stdio::null());
    let child = spawned(command, "secure");
    let (_, found) = examined(&child.id());
    assert!(what(&found, "inactive").contains("ignores LD_PRELOAD of set-uid programs"), "{found}");
}

/// The tool with an empty folder in the place of `place`.
fn without(place: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs none \"$0\" && exec \"$@\"";
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, place, TOOL]).args(arguments);
    command.output().unwrap()
}

#[test]
fn without_proc_nothing_is_known() {
    if !running::may_mount_apart("a place without /proc") {
        return;
    }
    let own = std::process::id().to_string();
    for arguments in [
        &["doctor"][..],
        &["doctor", "--json", "--", "true"],
        &["doctor", &own],
        &["ps"],
        &["metrics"],
        &["stats", &own],
        &["trim", "--comm", "x"],
        &["serve", "--listen", "127.0.0.1:0"],
    ] {
        let output = without("/proc", arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), &stdout(&output)[..]), (Some(1), ""), "{arguments:?}: {output:?}");
        assert!(said.starts_with("hakmem: /proc is not mounted") && said.lines().count() == 1, "{arguments:?}: {said}");
    }
}

#[test]
fn what_cannot_be_read_is_not_made_up() {
    if !running::may_mount_apart("a place without /sys") {
        return;
    }
    let said = |place: &str| stdout(&without(place, &["doctor", "--", "true"]));
    let text = said("/sys");
    assert!(text.contains("note     transparent huge pages: not known") && !text.contains("are off"), "{text}");
    assert!(text.contains("limits of a control group on memory: not known"), "{text}");
    let text = said("/proc/sys");
    let release = nix::sys::utsname::uname().unwrap().release().to_string_lossy().into_owned();
    assert!(text.starts_with(&format!("this machine (Linux {release}, ")), "{text}");
    assert!(text.contains("vm.overcommit_memory: not known") && text.contains("whether Yama restricts"), "{text}");
}

#[test]
fn usage_and_what_is_not_there() {
    assert_eq!(hakmem(&["doctor"]).status.code(), Some(0));
    assert_eq!(hakmem(&["doctor", "0"]).status.code(), Some(2));
    assert_eq!(hakmem(&["doctor", "2147483647"]).status.code(), Some(1));
}

/// HAKMEM_LIMIT=off has hakmem ignore the limits of the group that a process is in, which `--cgroup` finds.
#[test]
fn limits_of_the_group_are_told() {
    let roots = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
    let limits = ["memory.limit_in_bytes", "memory.max"];
    let made = roots.iter().zip(limits).find_map(|(root, limit)| {
        let group = Path::new(root).join(format!("hakmem-doctor-{}", std::process::id()));
        std::fs::create_dir(&group).ok()?;
        match std::fs::write(group.join(limit), "80M") {
            Ok(()) => Some(group),
            Err(_) => std::fs::remove_dir(&group).ok().and(None),
        }
    });
    let Some(group) = made else {
        return skipped("a group of its own", "this user may not make one that limits memory");
    };
    let said = ["0", "off"].map(|limit| {
        let child = running::sleeping(&["--limit", limit]);
        std::fs::write(group.join("cgroup.procs"), child.id()).unwrap();
        let stats = hakmem(&["stats", "--cgroup", group.to_str().unwrap()]);
        assert_eq!(stats.status.code(), Some(0), "{stats:?}");
        what(&examined(&child.id()).1, "cgroup")
    });
    running::until("the group is never empty", || std::fs::remove_dir(&group).is_ok());
    assert!(said[0].contains("memory max 80.0 MiB; hakmem keeps to them"), "{said:?}");
    assert!(said[1].contains("memory max 80.0 MiB; hakmem ignores them"), "{said:?}");
}

#[test]
fn what_is_to_be_started_again_is_quoted() {
    let mut command = Command::new("sh");
    command.args(["-c", "read line; echo $line", "a b"]).stdin(Stdio::piped());
    let child = Running(command.spawn().unwrap());
    running::until("the shell is never there", || {
        std::fs::read_to_string(format!("/proc/{}/comm", child.id())).is_ok_and(|name| name.trim() == "sh")
    });
    let said = remedy(&examined(&child.id()).1, "inactive");
    assert!(said.ends_with("hakmem run -- sh -c 'read line; echo $line' 'a b'"), "{said}");
}

/// Numbers there are those of other processes.
#[test]
fn another_namespace_of_processes_is_told() {
    if !running::may_mount_apart("another PID namespace") {
        return;
    }
    for verb in [&["ps"][..], &["doctor", "1"], &["trim", "1"], &["stats", "1"]] {
        let output = Command::new("unshare").args(["--pid", "--fork", TOOL]).args(verb).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains("/proc is that of another PID namespace"), "{output:?}");
    }
}
