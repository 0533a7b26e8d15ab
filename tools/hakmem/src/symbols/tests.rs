// SPDX-License-Identifier: MIT
//! Names of a program that is compiled here, as it is, stripped, with its debug file elsewhere, and gone.

use super::*;
use crate::attach::maps;
use crate::image::fixture::{Block, Fixture};
use crate::image::from_bytes;
use std::fs;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "\
static int inner(int n) { return n * 3; }
__attribute__((noinline)) int leaf(int n) {
    return inner(n) + 1;
}
int main(int count, char **words) { (void)words; return leaf(count); }
";
const BASE: u64 = 0x5500_0000_0000;

struct Built {
    folder: PathBuf,
    leaf: u64,
    build_id: String,
}

impl Drop for Built {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn done(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn built(name: &str) -> Built {
    let folder = std::env::temp_dir().join(format!("hakmem-symbols-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("program.c"), SOURCE).unwrap();
    done("cc", &["-g", "-O1", "-fPIE", "-pie", "-Wl,--build-id", "program.c", "-o", "program"], &folder);
    let names = done("nm", &["program"], &folder);
    let leaf = names.lines().find(|line| line.ends_with(" leaf")).unwrap();
    let leaf = u64::from_str_radix(leaf.split(' ').next().unwrap(), 16).unwrap();
    let build_id = maps::build_id_of(&folder.join("program")).unwrap();
    Built { folder, leaf, build_id }
}

impl Built {
    fn path(&self) -> String {
        self.folder.join("program").display().to_string()
    }

    fn strip(&self) {
        let debug = self.folder.join("debug/.build-id").join(&self.build_id[..2]);
        fs::create_dir_all(&debug).unwrap();
        let debug = debug.join(format!("{}.debug", &self.build_id[2..])).display().to_string();
        done("objcopy", &["--only-keep-debug", "program", &debug], &self.folder);
        done("strip", &["program"], &self.folder);
    }

    /// A stack in `leaf`, of a process that had this build of the program mapped.
    fn profile(&self) -> Profile {
        let mut fixture = Fixture::new(0);
        fixture.maps = format!("{:x}-{:x} r-xp 00001000 00:00 0 {}\n", BASE + 0x1000, BASE + 0x2000, self.path());
        let stack = fixture.stack(&[BASE + self.leaf + 2]);
        fixture.block(Block { stack, size: 1, ..Block::default() });
        let mut profile = from_bytes(&fixture.bytes(), Path::new("f")).unwrap();
        profile.maps[0].build_id.clone_from(&self.build_id);
        profile
    }
}

fn names(profile: &Profile, symbols: &Symbols) -> Vec<(String, u32)> {
    let stack = profile.sites[1].stack;
    symbols.stack(profile, stack).iter().map(|frame| (frame.name.clone(), frame.line)).collect()
}

#[test]
fn a_program_with_debug_information_has_functions_and_lines() {
    let built = built("whole");
    let profile = built.profile();
    let symbols = find(&profile, &Places::default());
    let names = names(&profile, &symbols);
    assert_eq!(names.last().unwrap().0, "leaf");
    assert!(names.iter().all(|(_, line)| (1..=4).contains(line)), "{names:?}");
    assert!(symbols.missing.is_empty());
}

#[test]
fn a_separate_debug_file_is_found_by_its_build_id() {
    let built = built("separate");
    built.strip();
    let profile = built.profile();
    let symbols = find(&profile, &Places { debug_dirs: vec![built.folder.join("debug")] });
    assert_eq!(names(&profile, &symbols).last().unwrap().0, "leaf");
    fs::remove_file(built.path()).unwrap();
    let symbols = find(&profile, &Places { debug_dirs: vec![built.folder.join("debug")] });
    assert_eq!(names(&profile, &symbols).last().unwrap().0, "leaf", "without the program itself");
}

#[test]
fn what_has_no_names_is_told_with_its_build_id() {
    let built = built("stripped");
    built.strip();
    let profile = built.profile();
    let bare = (format!("program+{:#x}", built.leaf + 1), 0);
    let check = |why: &str| {
        let symbols = find(&profile, &Places::default());
        assert_eq!(names(&profile, &symbols), std::slice::from_ref(&bare));
        let said = &symbols.remarks()[0];
        assert!(said.contains(why) && said.contains(&built.build_id) && said.contains("1 places"), "{said}");
    };
    check("is stripped");
    fs::copy(std::env::current_exe().unwrap(), built.path()).unwrap();
    check("is of another build by now");
    let replaced = || {
        let mut profile = built.profile();
        (profile.maps[0].build_id, profile.maps[0].is_replaced) = (String::new(), true);
        find(&profile, &Places::default()).remarks()
    };
    assert!(replaced()[0].contains("is of another build by now"), "{:?}", replaced());
    fs::remove_file(built.path()).unwrap();
    check("is not there");
    let symbols = none(&profile);
    assert!(symbols.remarks().is_empty() && names(&profile, &symbols) == std::slice::from_ref(&bare));
}

#[test]
fn compiled_code_is_named_by_the_map_for_perf() {
    let mut fixture = Fixture::new(0);
    fixture.pid = 5_000_000 + std::process::id(); // beyond what Linux gives
    fixture.maps = "10000-20000 rwxp 00000000 00:00 0\n".into();
    let stack = fixture.stack(&[0x10011, 0x18000]);
    fixture.block(Block { stack, size: 1, ..Block::default() });
    let profile = from_bytes(&fixture.bytes(), Path::new("f")).unwrap();
    let map = format!("/tmp/perf-{}.map", fixture.pid);
    fs::write(&map, "10000 20 py::handler:/srv/app.py\n").unwrap();
    let symbols = find(&profile, &Places::default());
    fs::remove_file(map).unwrap();
    assert_eq!(names(&profile, &symbols)[0].0, "py::handler:/srv/app.py");
    assert_eq!(names(&profile, &symbols)[1].0, "[anonymous]+0x7fff");
}
