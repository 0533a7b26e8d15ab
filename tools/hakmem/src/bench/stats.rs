// SPDX-License-Identifier: MIT
//! Statistics of small samples: median, spread, and whether two sets of runs differ by more than their own noise.

/// Differences below this share are never called real: the layout of memory alone moves results by as much.
pub const SMALLEST_REAL_DIFFERENCE: f64 = 0.01;
const SIGNIFICANCE: f64 = 0.05;

pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut copy: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    copy.sort_by(f64::total_cmp);
    copy
}

/// Linear interpolation between the closest ranks.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(values);
    let last = sorted.len().checked_sub(1)?;
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64))
}

pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub count: usize,
}

impl Summary {
    pub fn of(values: &[f64]) -> Option<Summary> {
        let sorted = sorted(values);
        Some(Summary { median: median(&sorted)?, low: *sorted.first()?, high: *sorted.last()?, count: sorted.len() })
    }

    /// Half the range, as a share of the median.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 {
            0.0
        } else {
            (self.high - self.low) / 2.0 / self.median.abs()
        }
    }
}

pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values.iter().filter(|v| **v > 0.0 && v.is_finite()).map(|v| v.ln()).collect();
    if logs.is_empty() {
        return None;
    }
    Some((logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Twice the Mann-Whitney U statistic: pairs (x, y) with x > y count two, ties one.
fn doubled_u(a: &[f64], b: &[f64]) -> usize {
    let score = |x: &f64, y: &f64| match x.total_cmp(y) {
        std::cmp::Ordering::Greater => 2,
        std::cmp::Ordering::Equal => 1,
        std::cmp::Ordering::Less => 0,
    };
    a.iter().map(|x| b.iter().map(|y| score(x, y)).sum::<usize>()).sum()
}

/// How many of the C(n + m, n) orders of two samples give each U, without ties.
fn u_distribution(n: usize, m: usize) -> Vec<f64> {
    // counts[i][j][u]: the largest value comes either from the first sample, beating j others, or from the second.
    let mut counts = vec![vec![vec![0.0; n * m + 1]; m + 1]; n + 1];
    for i in 0..=n {
        for j in 0..=m {
            for u in 0..=i * j {
                counts[i][j][u] = if i == 0 || j == 0 {
                    f64::from(u8::from(u == 0))
                } else {
                    let from_first = if u >= j { counts[i - 1][j][u - j] } else { 0.0 };
                    from_first + counts[i][j - 1][u]
                };
            }
        }
    }
    counts[n][m].clone()
}

/// Two-sided p of the Mann-Whitney test: exact up to 20 values a side, normal approximation above.
pub fn mann_whitney_p(a: &[f64], b: &[f64]) -> f64 {
    let (n, m) = (a.len(), b.len());
    if n == 0 || m == 0 {
        return 1.0;
    }
    let u = doubled_u(a, b) as f64 / 2.0;
    let extreme = u.min((n * m) as f64 - u);
    if n > 20 || m > 20 {
        return normal_p(extreme, n as f64, m as f64);
    }
    let counts = u_distribution(n, m);
    let total: f64 = counts.iter().sum();
    let tail: f64 = counts.iter().take(extreme.floor() as usize + 1).sum();
    (2.0 * tail / total).min(1.0)
}

fn normal_p(u: f64, n: f64, m: f64) -> f64 {
    let sigma = (n * m * (n + m + 1.0) / 12.0).sqrt();
    let z = (n * m / 2.0 - u - 0.5).max(0.0) / sigma;
    // Complementary error function by Abramowitz and Stegun 7.1.26; good to 1e-7.
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = 0.254_829_592 + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429)));
    (t * series * (-x * x).exp()).min(1.0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The difference is within the noise of the runs.
    Noise,
    Less,
    More,
    /// Too few runs for any verdict.
    Unknown,
}

/// Is `a` really less or more than `b`?
pub fn compare(a: &[f64], b: &[f64]) -> Verdict {
    let (Some(x), Some(y)) = (median(a), median(b)) else { return Verdict::Unknown };
    if a.len() < 4 || b.len() < 4 {
        return Verdict::Unknown;
    }
    let scale = x.abs().max(y.abs());
    if (x - y).abs() <= SMALLEST_REAL_DIFFERENCE * scale || mann_whitney_p(a, b) > SIGNIFICANCE {
        return Verdict::Noise;
    }
    if x < y {
        Verdict::Less
    } else {
        Verdict::More
    }
}

/// A 95 % interval of the ratio of medians by resampling, with a fixed seed so that a report can be made again.
pub fn ratio_interval(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = |values: &[f64]| -> Vec<f64> {
        (0..values.len()).map(|_| values[(next_random(&mut state) % values.len() as u64) as usize]).collect()
    };
    let mut ratios = Vec::with_capacity(1000);
    for _ in 0..1000 {
        let (x, y) = (draw(a), draw(b));
        ratios.push(median(&x)? / median(&y)?);
    }
    Some((quantile(&ratios, 0.025)?, quantile(&ratios, 0.975)?))
}

/// A ratio, its 95 % interval, and whether it is real.
pub type Ratio = (f64, (f64, f64), Verdict);

/// Ratios that have to agree so that an interval of their median is of 95 %: 5 are all above it once in 16 times.
const FEWEST_RATIOS: usize = 6;

/// Which values in their order, from below and from above, bound the median with 95 %: so many of `count` lie on one
/// side of it by chance, as coins do. Exact, whatever the values come from. Of fewer than 6 all of them do not suffice.
fn median_bound(count: usize) -> usize {
    let n = count as f64;
    let (mut log, mut below, mut bound) = (-n * std::f64::consts::LN_2, 0.0, 0);
    for k in 0..count {
        below += log.exp();
        if 2.0 * below > SIGNIFICANCE {
            break;
        }
        bound = k;
        log += ((n - k as f64) / (k as f64 + 1.0)).ln();
    }
    bound
}

/// The median of ratios that were measured side by side, with a 95 % interval between two of them: with resampling, up
/// to 12 % of equal pairs would differ. It is real when the interval leaves out 1.
pub fn paired(ratios: &[f64]) -> Option<Ratio> {
    let middle = median(ratios)?;
    let ratios = sorted(ratios);
    let bound = median_bound(ratios.len());
    let (low, high) = (ratios[bound], ratios[ratios.len() - 1 - bound]);
    let verdict = match () {
        () if ratios.len() < FEWEST_RATIOS => Verdict::Unknown,
        () if (middle - 1.0).abs() <= SMALLEST_REAL_DIFFERENCE || (low <= 1.0 && high >= 1.0) => Verdict::Noise,
        () if middle < 1.0 => Verdict::Less,
        () => Verdict::More,
    };
    Some((middle, (low, high), verdict))
}

fn next_random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.25), Some(2.5));
        assert_eq!(median(&[f64::NAN, 1.0]), Some(1.0));
    }

    #[test]
    fn a_summary_spans_the_runs() {
        let s = Summary::of(&[9.0, 10.0, 11.0]).unwrap();
        assert_eq!((s.median, s.low, s.high, s.count), (10.0, 9.0, 11.0, 3));
        assert!((s.spread() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn geometric_mean_of_ratios() {
        assert!((geometric_mean(&[2.0, 0.5]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn exact_p_of_separated_samples() {
        // 2 of the C(10, 5) = 252 orders are as extreme.
        let p = mann_whitney_p(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((p - 2.0 / 252.0).abs() < 1e-12);
        assert_eq!(mann_whitney_p(&[1.0], &[]), 1.0);
    }

    #[test]
    fn approximate_p_agrees_with_the_exact_one() {
        let a: Vec<f64> = (0..20).map(f64::from).collect();
        let b: Vec<f64> = (0..20).map(|i| f64::from(i) + 6.5).collect();
        let exact = mann_whitney_p(&a, &b);
        let u = (doubled_u(&a, &b) as f64 / 2.0).min(400.0 - doubled_u(&a, &b) as f64 / 2.0);
        assert!((exact - normal_p(u, 20.0, 20.0)).abs() < 0.003);
    }

    #[test]
    fn noise_is_called_noise() {
        let a = [100.0, 104.0, 98.0, 101.0, 103.0];
        let b = [102.0, 99.0, 105.0, 100.0, 101.5];
        assert_eq!(compare(&a, &b), Verdict::Noise);
    }

    #[test]
    fn a_clear_difference_is_seen() {
        let a = [100.0, 101.0, 99.0, 100.5, 100.2];
        let b = [110.0, 111.0, 109.0, 110.5, 110.2];
        assert_eq!(compare(&a, &b), Verdict::Less);
        assert_eq!(compare(&b, &a), Verdict::More);
    }

    #[test]
    fn a_difference_below_one_percent_is_not_claimed() {
        let a = [100.0, 100.01, 100.02, 100.03, 100.04];
        let b = [100.5, 100.51, 100.52, 100.53, 100.54];
        assert_eq!(compare(&a, &b), Verdict::Noise);
    }

    #[test]
    fn too_few_runs_give_no_verdict() {
        assert_eq!(compare(&[1.0, 1.0, 1.0], &[2.0, 2.0, 2.0]), Verdict::Unknown);
    }

    #[test]
    fn ratios_side_by_side_are_judged_by_their_own_spread() {
        let real = paired(&[1.04, 1.05, 1.06, 1.05, 1.04, 1.06]).unwrap();
        assert_eq!((real.0, real.2), (1.05, Verdict::More));
        assert_eq!(paired(&[0.9, 1.1, 0.95, 1.12, 1.0, 1.05]).unwrap().2, Verdict::Noise);
        assert_eq!(paired(&[1.005; 9]).unwrap().2, Verdict::Noise, "too small a difference");
        assert_eq!(paired(&[1.5; 5]).unwrap().2, Verdict::Unknown);
        assert!(paired(&[]).is_none());
    }

    /// As the tables of the sign test have it.
    #[test]
    fn the_interval_of_a_median_is_between_two_of_the_values() {
        let bounds = [1, 5, 6, 8, 9, 11, 12, 20, 100, 5000].map(median_bound);
        assert_eq!(bounds, [0, 0, 0, 0, 1, 1, 2, 5, 39, 2430]);
        let ratios: Vec<f64> = (1..=9).map(f64::from).collect();
        assert_eq!(paired(&ratios).unwrap().1, (2.0, 8.0));
    }

    /// Equal rows: one run is as often above the other as below it.
    #[test]
    fn equal_pairs_seldom_differ() {
        let mut state = 1;
        for rounds in 6..=9 {
            let mut draw = || 1.0 + ((next_random(&mut state) % 2001) as f64 - 1000.0) / 2000.0;
            let noise = (0..4000).filter(|_| {
                let ratios: Vec<f64> = (0..rounds).map(|_| draw()).collect();
                paired(&ratios).unwrap().2 == Verdict::Noise
            });
            let share = noise.count() as f64 / 4000.0;
            assert!(share > 0.94, "{rounds} rounds: {share}");
        }
    }

    #[test]
    fn the_ratio_interval_holds_the_ratio() {
        let a = [100.0, 101.0, 99.0, 100.5, 100.2];
        let b = [200.0, 202.0, 198.0, 201.0, 200.4];
        let (low, high) = ratio_interval(&a, &b).unwrap();
        assert!(low <= 0.5 && 0.5 <= high && high - low < 0.02);
    }
}
