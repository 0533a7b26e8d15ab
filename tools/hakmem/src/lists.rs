// SPDX-License-Identifier: MIT
//! The library's own lists, as build.rs reads them from its source.

/// An option of src/core/options.def.
#[derive(Debug)]
pub struct OptionInfo {
    /// Without HAKMEM_.
    pub name: &'static str,
    /// NUMBER, SIZE, LIMIT, CHOICE, OUTPUT, PROFILE, PATH, FILE.
    pub kind: &'static str,
    pub initial: i64,
    pub min: i64,
    pub max: i64,
    /// Separated by commas.
    pub choices: &'static str,
    pub at_start: bool,
    pub help: &'static str,
}

/// A statistic of src/api/stats.def.
#[derive(Debug)]
pub struct Statistic {
    pub group: &'static str,
    pub field: &'static str,
    pub bytes: bool,
    pub label: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/lists.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_whole() {
        let safe = OPTIONS.iter().find(|option| option.name == "SAFE").unwrap();
        assert_eq!((safe.kind, safe.initial, safe.min, safe.max, safe.at_start), ("NUMBER", 1, 0, 3, true));
        assert!(safe.help.contains("of a block, 3 also"));
        let limit = OPTIONS.iter().find(|option| option.name == "LIMIT").unwrap();
        assert!(limit.help.contains("hard one requests fail") && limit.help.ends_with("no limits at all"), "{}", limit.help);
        let live = STATISTICS.iter().find(|statistic| statistic.field == "live").unwrap();
        assert_eq!((live.group, live.bytes, live.label), ("memory", true, "  live"));
        assert_eq!(Word::Version as usize, 0);
        assert_eq!(Word::Build as usize, 1);
    }
}
