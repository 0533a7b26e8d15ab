// SPDX-License-Identifier: MIT
//! `hakmem ps`, `stats` and `options`: figures of running processes; `trim`, `limit`: what they are asked to do.

mod ask;
mod options;
mod ps;
mod stats;

pub use ask::{LimitArgs, TrimArgs};
pub use options::OptionsArgs;
pub use ps::PsArgs;
pub use stats::StatsArgs;

/// "11.8 MiB".
pub fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    while unit < 4 && value >= 1024.0 {
        value /= 1024.0;
        unit += 1;
    }
    let unit_name = ["B", "KiB", "MiB", "GiB", "TiB"][unit];
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {unit_name}")
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn bytes_are_shown_with_a_unit() {
        assert_eq!(human(0), "0 B");
        assert_eq!(human(1023), "1023 B");
        assert_eq!(human(1536), "1.5 KiB");
        assert_eq!(human(3 << 40), "3.0 TiB");
    }
}
