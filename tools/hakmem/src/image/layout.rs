// SPDX-License-Identifier: MIT
//! Where the fields of a heap profile lie, as build.rs reads src/sample/format.h.
#![allow(dead_code)] // not all is of use to a reader

/// A field; of an array, its first element.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub offset: usize,
    pub size: usize,
}

impl Place {
    /// The value in a copy of the structure.
    pub fn of(self, structure: &[u8]) -> u64 {
        self.at(structure, 0)
    }

    /// Element `index` of an array.
    pub fn at(self, structure: &[u8], index: usize) -> u64 {
        let start = self.offset + index * self.size;
        let mut bytes = [0; 8];
        bytes[..self.size].copy_from_slice(&structure[start..start + self.size]);
        u64::from_le_bytes(bytes)
    }
}

include!(concat!(env!("OUT_DIR"), "/layout.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes that docs/profile-format.md tells.
    #[test]
    fn structures_are_read_whole() {
        assert_eq!((section::STRIDE_BYTES, header::STRIDE_BYTES, stack::STRIDE_BYTES), (24, 160, 16));
        assert_eq!(
            (sample::STRIDE_BYTES, site::STRIDE_BYTES, point::STRIDE_BYTES, thread::STRIDE_BYTES),
            (48, 256, 48, 24)
        );
        assert_eq!((PROFILE_IS_LIVE, PROFILE_STACK_CODE_MIN, PROFILE_MAPS), (1, 4096, 6));
        assert_eq!((header::FORMAT.offset, header::FORMAT.size), (16, 4));
        assert_eq!(thread::NAME.offset, 8);
    }
}
