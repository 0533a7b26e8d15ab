// SPDX-License-Identifier: MIT
//! Which allocators there are in files: known by the libraries' names, by symbols, and in stripped programs by their
//! messages.

use crate::program::Image;
use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{NativeEndian, Object, ObjectSection, ObjectSymbol, ReadCache};
use std::fs::File;
use std::path::Path;

/// Names of libraries begin so.
const LIBRARIES: [(&str, &str); 20] = [
    ("libhakmem", "hakmem"),
    ("libjemalloc", "jemalloc"),
    ("libtcmalloc", "tcmalloc"),
    ("libmimalloc", "mimalloc"),
    ("libsnmalloc", "snmalloc"),
    ("librpmalloc", "rpmalloc"),
    ("libtbbmalloc", "tbbmalloc"),
    ("libhardened_malloc", "hardened_malloc"),
    ("libhoard", "Hoard"),
    ("libscudo", "Scudo"),
    ("libclang_rt.scudo", "Scudo"),
    ("libasan", "AddressSanitizer"),
    ("libclang_rt.asan", "AddressSanitizer"),
    ("libtsan", "ThreadSanitizer"),
    ("liblsan", "LeakSanitizer"),
    ("libhwasan", "HWAddressSanitizer"),
    ("libefence", "Electric Fence"),
    ("libduma", "DUMA"),
    ("libumem", "libumem"),
    ("vgpreload_", "Valgrind"),
];

/// Symbols that only this allocator has.
const SYMBOLS: [(&str, &str); 10] = [
    ("hak_version", "hakmem"),
    ("je_mallctl", "jemalloc"),
    ("mallctl", "jemalloc"),
    ("_rjem_mallctl", "jemalloc"),
    ("mi_version", "mimalloc"),
    ("tc_version", "tcmalloc"),
    ("MallocExtension_Internal_GetNumericProperty", "tcmalloc"),
    ("rpmalloc_initialize", "rpmalloc"),
    ("scalable_malloc", "tbbmalloc"),
    ("__asan_init", "AddressSanitizer"),
];

/// Functions of these names alone that give blocks.
const GIVING: [(&str, &str); 9] = [
    ("mallocx", "jemalloc"),
    ("rallocx", "jemalloc"),
    ("mi_malloc", "mimalloc"),
    ("mi_malloc_aligned", "mimalloc"),
    ("mi_heap_malloc", "mimalloc"),
    ("mi_realloc", "mimalloc"),
    ("tc_malloc", "tcmalloc"),
    ("rpmalloc", "rpmalloc"),
    ("scalable_malloc", "tbbmalloc"),
];

/// What their messages begin with: in constants, which no stripping removes.
const MESSAGES: [(&str, &str); 3] =
    [("<jemalloc>: ", "jemalloc"), ("mimalloc: ", "mimalloc"), ("tcmalloc: large alloc", "tcmalloc")];

const CONSTANTS_MAX: u64 = 256 << 20;

/// What a file of machine code brings along.
#[derive(Debug, Default, PartialEq)]
pub struct Brought {
    /// Known allocators in it.
    pub allocators: Vec<&'static str>,
    /// A function that it calls and has from another file, which only that allocator has; and the allocator.
    pub calls: Option<(&'static str, &'static str)>,
    /// It defines `malloc` for all.
    pub malloc: bool,
    /// It is a program of Go's, whose memory does not come from malloc.
    pub go: bool,
}

pub fn by_name(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    LIBRARIES.iter().find(|library| name.starts_with(library.0)).map(|library| library.1)
}

impl Brought {
    /// None: it cannot be read, or is no ELF file.
    pub fn by(path: &Path) -> Option<Brought> {
        let data = ReadCache::new(File::open(path).ok()?);
        let file = ElfFile::<FileHeader64<NativeEndian>, _>::parse(&data).ok()?;
        let is_static = file.section_by_name(".interp").is_none() && file.dynamic_symbols().next().is_none();
        let mut found = Brought { go: file.section_by_name(".go.buildinfo").is_some(), ..Brought::default() };
        for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_definition) {
            found.see(symbol.name().unwrap_or_default(), true);
        }
        // Who asks for a name weakly looks whether it is there.
        let called = |symbol: &_| ObjectSymbol::is_undefined(symbol) && !ObjectSymbol::is_weak(symbol);
        for symbol in file.dynamic_symbols().filter(called) {
            let name = symbol.name().unwrap_or_default();
            found.calls = found.calls.or(GIVING.iter().find(|(giving, _)| *giving == name).copied());
        }
        for symbol in file.symbols().filter(ObjectSymbol::is_definition) {
            found.see(symbol.name().unwrap_or_default(), is_static);
        }
        if Image::of(path).is_ok_and(|image| image.has_hakmem) {
            found.add("hakmem");
        }
        if let Some(constants) = file.section_by_name(".rodata").filter(|section| section.size() <= CONSTANTS_MAX) {
            found.read(constants.data().unwrap_or_default());
        }
        Some(found)
    }

    fn see(&mut self, symbol: &str, serves: bool) {
        self.malloc |= serves && symbol == "malloc";
        if let Some((_, allocator)) = SYMBOLS.iter().find(|(name, _)| *name == symbol) {
            self.add(allocator);
        }
    }

    fn read(&mut self, constants: &[u8]) {
        for (message, allocator) in MESSAGES {
            let message = message.as_bytes();
            if !self.allocators.contains(&allocator) && constants.windows(message.len()).any(|at| at == message) {
                self.add(allocator);
            }
        }
    }

    fn add(&mut self, allocator: &'static str) {
        if !self.allocators.contains(&allocator) {
            self.allocators.push(allocator);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names() {
        assert_eq!(by_name("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"), Some("jemalloc"));
        assert_eq!(by_name("/usr/lib/libtcmalloc_minimal.so.4"), Some("tcmalloc"));
        assert_eq!(by_name("/lib/x86_64-linux-gnu/libc.so.6"), None);
    }

    #[test]
    fn messages_tell_what_is_in_stripped_programs() {
        let mut found = Brought::default();
        found.read(b"xx<jemalloc>: Error in ...");
        found.read(b"yy<jemalloc>: again");
        assert_eq!(found.allocators, ["jemalloc"]);
        found.see("mi_version", false);
        found.see("malloc", false);
        assert_eq!((found.allocators.len(), found.malloc), (2, false));
    }

    #[test]
    fn the_c_library_defines_malloc() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("libc.so"));
        if let Some(path) = path {
            assert!(Brought::by(Path::new(path)).unwrap().malloc, "{path}");
        }
        assert_eq!(Brought::by(Path::new("/etc/passwd")), None);
    }
}
