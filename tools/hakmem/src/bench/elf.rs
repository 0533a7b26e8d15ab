// SPDX-License-Identifier: MIT
//! As much of an ELF file's header as tells a program from a library and both from other files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

const MAGIC: &[u8] = b"\x7fELF";
/// e_type, in the byte order of the machine that the file is for, which has to be this one.
const TYPE: std::ops::Range<usize> = 16..18;
const SHARED_OBJECT: u16 = 3;

fn file_type(path: &Path) -> Option<u16> {
    let mut header = [0; TYPE.end];
    File::open(path).and_then(|mut f| f.read_exact(&mut header)).ok()?;
    let [low, high] = [header[TYPE.start], header[TYPE.start + 1]];
    header.starts_with(MAGIC).then_some(u16::from_ne_bytes([low, high]))
}

pub fn is_elf(path: &Path) -> bool {
    file_type(path).is_some()
}

pub fn is_shared_object(path: &Path) -> bool {
    file_type(path) == Some(SHARED_OBJECT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_from_other_files() {
        let libc = crate::bench::peers::glibc().preload.remove(0);
        assert!(is_elf(&libc) && is_shared_object(&libc));
        let object = std::env::temp_dir().join(format!("hakmem-elf-{}", std::process::id()));
        std::fs::write(&object, [MAGIC, &[0; 12], &1u16.to_ne_bytes()].concat()).unwrap();
        assert!(is_elf(&object) && !is_shared_object(&object));
        std::fs::write(&object, MAGIC).unwrap();
        assert!(!is_elf(&object));
        std::fs::remove_file(&object).unwrap();
        assert!(!is_elf(&object) && !is_elf(Path::new("/")));
    }
}
