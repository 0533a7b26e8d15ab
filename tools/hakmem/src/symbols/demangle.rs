// SPDX-License-Identifier: MIT
//! Names of C++ and Rust as their sources have them. A name of C stays as it is: demanglers that take any text read `i`
//! as the type `int`.

use cpp_demangle::Symbol;

pub fn shown(name: &str) -> String {
    // Where names have an underscore in front of them, there is one more.
    let plain = if name.starts_with("__Z") || name.starts_with("__R") { &name[1..] } else { name };
    if !plain.starts_with("_Z") && !plain.starts_with("_R") {
        return name.into();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(plain) {
        return format!("{rust:#}"); // without the hash
    }
    let of_cpp = plain.starts_with("_Z").then(|| Symbol::new(plain).ok()?.demangle().ok()).flatten();
    of_cpp.unwrap_or_else(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn names_of_c_stay_as_they_are() {
        for name in ["b", "i", "f", "v", "d", "Pc", "St", "main", "_R", "_Z", "__Zone", "_Reset", "ZN3foo3barE", ""] {
            assert_eq!(shown(name), name);
        }
    }

    #[test]
    fn names_of_cpp_and_rust_are_as_their_sources_have_them() {
        assert_eq!(shown("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(shown("__ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(shown("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(shown("_RNvCs15kBYyAo9fc_7mycrate3foo"), "mycrate::foo");
    }
}
