// SPDX-License-Identifier: MIT
//! What is wrong with the arguments is said before anything is built.

mod repository;

use repository::{said, Repository};

/// The first bytes of an ELF file of that type.
fn elf_header(file_type: u16) -> Vec<u8> {
    [b"\x7fELF".as_slice(), &[0; 12], &file_type.to_ne_bytes()].concat()
}

#[test]
fn rows_and_programs_are_checked_first() {
    let repository = Repository::new("rows");
    assert!(repository.refusal(&["bench", "--rows", "nosuchrow"]).contains("no row matches 'nosuchrow'"));
    let said = repository.refusal(&["bench", "--", "./no-such-program"]);
    assert!(said.contains("./no-such-program is not there"), "{said}");
}

/// Names have commas, which separate words too.
#[test]
fn a_row_has_a_name_or_words() {
    let repository = Repository::new("words");
    let listed = |rows: &str| {
        let output = repository.hakmem(&["bench", "--list", "--rows", rows]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let one = listed("larson small, 2 threads");
    assert!(one.contains("larson small, 2 threads") && !one.contains("larson small, 4 threads"), "{one}");
    let more = listed("larson small,survivors");
    assert!(more.contains("larson small, 4 threads") && more.contains("survivors"), "{more}");
    assert!(repository
        .refusal(&["bench", "--rows", "larson small, 3 threads"])
        .contains("no row matches ' 3 threads'"));
}

/// A program of one's own has no rows, and no record to be held against.
#[test]
fn what_a_program_leaves_no_use_for_is_refused() {
    let repository = Repository::new("conflicts");
    for flags in [&["--gate"][..], &["--into", "run"], &["--rows", "larson"], &["--threads", "2"]] {
        let output = repository.hakmem(&[&["bench"], flags, &["--", "true"]].concat()).output().unwrap();
        let text = said(&output);
        assert!(output.status.code() == Some(2) && text.contains("cannot be used with"), "{flags:?}: {text}");
    }
    assert!(repository.refusal(&["bench", "--rows", "larson,"]).contains("an empty word in 'larson,'"));
}

#[test]
fn folders_are_checked_first() {
    let repository = Repository::new("folders");
    assert!(repository.refusal(&["bench", "--into", "nope"]).contains("nope is no result folder"));
    let said = repository.refusal(&["bench", "--out", "/dev/full/x"]);
    assert!(said.contains("cannot write to the folder /dev/full/x: "), "{said}");
    assert!(repository.refusal(&["bench", "--gate"]).contains("no bench/baseline.json"));
}

#[test]
fn names_are_checked_first() {
    let repository = Repository::new("names");
    repository.write("build/peers/manifest.tsv", "a\t1\tliba.so\t\t\n");
    let said = repository.refusal(&["bench", "--allocators", "a,nosuch", "--out", "results"]);
    assert!(
        said.contains("no allocator 'nosuch'; there are: hakmem, hakmem-safe2, hakmem-safe3, glibc, a, p1, p2"),
        "{said}"
    );
    assert!(!repository.path("results").exists());
}

#[test]
fn only_the_peers_that_are_asked_for_are_built_and_the_tool_says_so() {
    let repository = Repository::new("asked");
    let run = |names: &str| {
        let output = repository.hakmem(&["bench", "--allocators", names, "--rounds", "1", "--", "true"]).output();
        (said(&output.unwrap()), repository.read("built"))
    };
    let (said, built) = run("hakmem,glibc");
    assert!(!said.contains("allocators, once") && built.is_empty(), "{said}{built}");
    assert!(said.contains("compiling the workloads"), "{said}");
    let (said, built) = run("glibc,p2");
    assert!(said.contains("building other allocators, once: p2;") && said.contains("peers: building p2\n"), "{said}");
    assert_eq!(built, "p2\n");
    let (said, built) = run("glibc,p2");
    assert!(!said.contains("building other") && built == "p2\n", "{said}{built}");
}

#[test]
fn libraries_are_checked_first() {
    let repository = Repository::new("libraries");
    repository.write("text.so", "INPUT(-lc)\n");
    repository.write("object.o", elf_header(1));
    for (path, problem) in [
        ("/nonexistent/lib.so", "is not there"),
        ("/dev/null", "is no regular file"),
        ("text.so", "is no ELF shared object"),
        ("object.o", "is no ELF shared object"),
    ] {
        let whole = repository.path(path); // an absolute path stays as it is
        let expected = format!("hakmem: --lib foo: {} {problem}; give the path of a shared library\n", whole.display());
        let given = format!("foo={path}");
        assert_eq!(repository.refusal(&["bench", "--lib", &given]), expected);
        assert_eq!(repository.refusal(&["bench", "--list", "--lib", &given]), expected);
    }
    repository.write("shared.so", elf_header(3));
    let output = repository.hakmem(&["bench", "--list", "--lib", "foo=shared.so"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("allocator foo: given by --lib"));
}

#[test]
fn an_allocator_that_was_not_built_is_named_with_its_path() {
    let repository = Repository::new("missing");
    let said = repository.refusal(&["bench", "--no-build", "--allocators", "hakmem", "--out", "results"]);
    assert!(said.contains("hakmem: build/release/libhakmem.so is not there: run `make release`"), "{said}");
    assert!(!repository.path("results").exists());
}

/// There is no launcher.
#[test]
fn a_run_without_figures_has_failed() {
    let repository = Repository::new("nothing");
    let common = ["bench", "--no-build", "--allocators", "glibc", "--rounds", "1", "--out", "results"];
    for what in [&["--", "true"][..], &["--rows", "survivors"]] {
        let said = repository.refusal(&[&common[..], what].concat());
        assert!(said.contains("nothing could be measured"), "{said}");
    }
}

/// What has no --json says so in docs/observe.md: it starts programs, is for a terminal, or has a form of its own.
#[test]
fn each_command_that_shows_something_writes_json() {
    let help = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_hakmem")).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let all = help(&["--help"]);
    let commands = all.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = commands.lines().map(|line| line.split_whitespace().next().unwrap());
    let without: Vec<&str> =
        names.filter(|name| *name != "help" && !help(&[name, "--help"]).contains("--json")).collect();
    assert_eq!(without, ["run", "top", "metrics", "serve", "man", "completions", "bench"]);
}
