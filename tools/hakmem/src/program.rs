// SPDX-License-Identifier: MIT
//! What a program's file, or a library's, tells before it runs: what preloading can do for it.

use crate::failure::Failure;
use anyhow::{bail, ensure, Context, Result};
use object::elf::{FileHeader64, DT_NEEDED, PT_INTERP, PT_NOTE};
use object::read::elf::{ElfFile, FileHeader as _, ProgramHeader as _};
use object::{NativeEndian, ReadCache};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Interpreters of interpreters, as the kernel follows them.
const SCRIPTS_MAX: usize = 4;
const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Libc {
    Glibc,
    Musl,
    Unknown,
}

impl Libc {
    pub fn name(self) -> &'static str {
        match self {
            Libc::Glibc => "glibc",
            Libc::Musl => "musl",
            Libc::Unknown => "an unknown C library",
        }
    }

    pub fn of_interpreter(path: &str) -> Libc {
        if path.contains("ld-musl") {
            Libc::Musl
        } else if path.contains("ld-linux") {
            Libc::Glibc
        } else {
            Libc::Unknown
        }
    }
}

#[derive(Debug)]
pub struct Program {
    /// The file that runs: of a script, its interpreter, or what env starts.
    pub path: PathBuf,
    /// The dynamic linker; none: it is linked statically.
    pub interpreter: Option<String>,
    pub libc: Libc,
    /// It has hakmem's record.
    pub has_hakmem: bool,
    /// For whom it runs instead of its caller.
    pub secure: Option<&'static str>,
}

impl Program {
    /// `name` as a shell finds it.
    pub fn find(name: &Path) -> Result<Program> {
        Program::followed(name).map_err(|error| match error.is::<Failure>() {
            true => error,
            false => Failure::NotExecutable(format!("{error:#}")).into(),
        })
    }

    /// Of a script, what runs it.
    fn followed(name: &Path) -> Result<Program> {
        let mut path = which(name)?;
        for _ in 0..SCRIPTS_MAX {
            match script_interpreter(&path)? {
                Some(interpreter) => {
                    path = which(&interpreter).with_context(|| format!("interpreter of {}", name.display()))?
                }
                None => return Program::of(path),
            }
        }
        bail!("{} has interpreters of interpreters without end", name.display());
    }

    fn of(path: PathBuf) -> Result<Program> {
        let image = Image::of(&path)?;
        let libc = image.interpreter.as_deref().map_or(Libc::Unknown, Libc::of_interpreter);
        let secure = secure(&path);
        Ok(Program { path, interpreter: image.interpreter, libc, has_hakmem: image.has_hakmem, secure })
    }
}

/// What an ELF file of this machine says of itself.
#[derive(Debug)]
pub struct Image {
    pub interpreter: Option<String>,
    pub has_hakmem: bool,
    pub needs: Vec<String>,
}

impl Image {
    pub fn of(path: &Path) -> Result<Image> {
        let file = File::open(path).with_context(|| path.display().to_string())?;
        Image::read(&ReadCache::new(file)).with_context(|| path.display().to_string())
    }

    fn read(data: &ReadCache<File>) -> Result<Image> {
        let file = ElfFile::<FileHeader64<NativeEndian>, _>::parse(data).context("is no ELF file of 64 bits")?;
        if file.elf_header().e_machine(NativeEndian) != machine() {
            bail!("is a program for another machine");
        }
        let mut image = Image { interpreter: None, has_hakmem: false, needs: Vec::new() };
        for segment in file.elf_program_headers() {
            let kind = segment.p_type(NativeEndian);
            if kind != PT_INTERP && kind != PT_NOTE {
                continue;
            }
            let bytes = segment.data(NativeEndian, data).unwrap_or_default();
            if kind == PT_INTERP {
                image.interpreter = Some(String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string());
            } else {
                image.has_hakmem |= crate::attach::record::has_note(bytes);
            }
        }
        image.needs = needs(&file);
        Ok(image)
    }

    /// The C library that it was linked with.
    pub fn libc(&self) -> Libc {
        match self.needs.iter().find(|name| name.starts_with("libc.")) {
            Some(name) if name == "libc.so.6" => Libc::Glibc,
            Some(_) => Libc::Musl,
            None => Libc::Unknown,
        }
    }
}

fn needs<'a>(file: &ElfFile<'a, FileHeader64<NativeEndian>, &'a ReadCache<File>>) -> Vec<String> {
    let Ok(table) = file.elf_dynamic_table() else { return Vec::new() };
    let names = table.iter().filter(|entry| entry.tag == DT_NEEDED).filter_map(|entry| table.string(entry).ok());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

fn machine() -> object::elf::Machine {
    if cfg!(target_arch = "aarch64") {
        object::elf::EM_AARCH64
    } else {
        object::elf::EM_X86_64
    }
}

pub fn which(name: &Path) -> Result<PathBuf> {
    let shown = name.display();
    let refused = |path: &Path| Failure::NotExecutable(format!("{} is no file that can be executed", path.display()));
    if name.as_os_str().as_encoded_bytes().contains(&b'/') {
        ensure!(is_there(name), Failure::NoProgram(format!("there is no program {shown}")));
        ensure!(is_executable(name), refused(name));
        return Ok(name.to_path_buf());
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&paths).map(|folder| folder.join(name)).collect();
    match places.iter().find(|path| is_executable(path)).or(places.iter().find(|path| path.is_file())) {
        Some(path) if is_executable(path) => Ok(path.clone()),
        Some(path) => bail!(refused(path)),
        None => bail!(Failure::NoProgram(format!("there is no program {shown} in PATH"))),
    }
}

/// As far as this user may know.
fn is_there(path: &Path) -> bool {
    let kind = path.metadata().map_err(|error| error.kind());
    !matches!(kind, Err(ErrorKind::NotFound | ErrorKind::NotADirectory))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// Of a file that begins with `#!`; where that is env, what env starts.
fn script_interpreter(path: &Path) -> Result<Option<PathBuf>> {
    let mut head = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(256).read_to_end(&mut head)?;
    let Some(line) = head.strip_prefix(b"#!") else { return Ok(None) };
    let line = String::from_utf8_lossy(line.split(|&byte| byte == b'\n').next().unwrap_or_default());
    let mut words = line.split_whitespace();
    let Some(interpreter) = words.next().map(PathBuf::from) else { return Ok(None) };
    let is_env = interpreter.file_name().is_some_and(|name| name == "env");
    let started = if is_env { started_by_env(words) } else { None };
    Ok(Some(started.unwrap_or(interpreter)))
}

/// The first word that is neither an option nor an assignment. None: there is no such program, as env itself will say.
fn started_by_env<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<PathBuf> {
    loop {
        match words.next()? {
            "-u" | "--unset" | "-C" | "--chdir" => drop(words.next()),
            word if word.starts_with('-') || word.contains('=') => {}
            word => return which(Path::new(word)).ok(),
        }
    }
}

/// Such a program ignores what its environment says of libraries, and so does hakmem of options.
fn secure(path: &Path) -> Option<&'static str> {
    let about = fs::metadata(path).ok()?;
    if about.mode() & SET_UID != 0 && about.uid() != nix::unistd::getuid().as_raw() {
        return Some("set-uid");
    }
    if about.mode() & SET_GID != 0 && about.gid() != nix::unistd::getgid().as_raw() {
        return Some("set-gid");
    }
    has_capabilities(path).then_some("with file capabilities")
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()) else { return false };
    // SAFETY: both names end with a NUL, and no buffer is given.
    let size = unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) };
    size > 0 && !nix::unistd::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart() {
        let shell = Program::find(Path::new("sh")).unwrap();
        assert!(shell.interpreter.is_some() && !shell.has_hakmem, "{shell:?}");
        assert!(shell.secure.is_none());
        let missing = Program::find(Path::new("no-such-program")).unwrap_err().to_string();
        assert_eq!(missing, "there is no program no-such-program in PATH");
        let folder = Program::find(Path::new("/tmp/")).unwrap_err().to_string();
        assert_eq!(folder, "/tmp/ is no file that can be executed");
        let kind = |name: &str| Program::find(Path::new(name)).unwrap_err().downcast::<Failure>().unwrap();
        for name in ["no-such-program", "/nonexistent", "/etc/passwd/x"] {
            assert!(matches!(kind(name), Failure::NoProgram(_)), "{name}");
        }
        assert!(matches!(kind("/etc/passwd"), Failure::NotExecutable(_)));
    }

    #[test]
    fn a_script_is_its_interpreter() {
        let path = std::env::temp_dir().join(format!("hakmem-script-{}", std::process::id()));
        fs::write(&path, "#!/bin/sh -e\ntrue\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(Program::find(&path).unwrap().path, Path::new("/bin/sh"));
        for line in ["env sh", "env -S A=1 sh -e", "env -S -i -u B sh"] {
            fs::write(&path, format!("#!/usr/bin/{line}\n")).unwrap();
            assert_eq!(Program::find(&path).unwrap().path, which(Path::new("sh")).unwrap(), "{line}");
        }
        fs::write(&path, "#!/usr/bin/env no-such-program\n").unwrap();
        assert_eq!(Program::find(&path).unwrap().path, Path::new("/usr/bin/env"));
        fs::write(&path, "no program").unwrap();
        let error = Program::find(&path).unwrap_err();
        assert!(error.to_string().contains("is no ELF file") && error.is::<Failure>(), "{error:#}");
        fs::write(&path, "#!/nonexistent\n").unwrap();
        let error = Program::find(&path).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(Failure::NoProgram(_))), "{error:#}");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn c_libraries_are_known_by_their_linker() {
        assert_eq!(Libc::of_interpreter("/lib/ld-musl-x86_64.so.1"), Libc::Musl);
        assert_eq!(Libc::of_interpreter("/lib64/ld-linux-x86-64.so.2"), Libc::Glibc);
    }
}
