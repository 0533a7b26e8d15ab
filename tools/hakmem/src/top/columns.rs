// SPDX-License-Identifier: MIT
//! Which columns of a table a terminal has room for: one that does not fit is left out, so that no figure is cut.

const SPACING: u16 = 1;

/// Numbers of the columns that fit, in their order. `least_first` are those that may be left out.
pub fn fitting(widths: &[u16], least_first: &[usize], room: u16) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..widths.len()).collect();
    for column in least_first {
        if needed(widths, &kept) <= room {
            break;
        }
        kept.retain(|at| at != column);
    }
    kept
}

/// The width of these columns with what is between them.
pub fn needed(widths: &[u16], columns: &[usize]) -> u16 {
    columns.iter().map(|&at| widths[at] + SPACING).sum::<u16>().saturating_sub(SPACING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_left_out_until_the_rest_fits() {
        let widths = [5, 10, 7];
        assert_eq!(fitting(&widths, &[1, 2], 24), [0, 1, 2]);
        assert_eq!(fitting(&widths, &[1, 2], 23), [0, 2]);
        assert_eq!(fitting(&widths, &[1, 2], 12), [0]);
        assert_eq!(fitting(&widths, &[1, 2], 1), [0]);
    }
}
