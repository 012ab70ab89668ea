//! Statistics of samples: medians, spreads, and ratios that are robust against slow phases of the machine.

use serde::{Deserialize, Serialize};

/// The summary of several repetitions of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The median of the samples.
    pub median: f64,
    /// The lowest sample.
    pub lowest: f64,
    /// The highest sample.
    pub highest: f64,
}

impl Summary {
    /// Summarizes samples; `None` if there are none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let median = median(samples)?;
        let lowest = samples.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { median, lowest, highest })
    }

    /// The spread as a share of the median: 0.1 is ±10 % at most. 0 when the median is 0.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 {
            return 0.0;
        }
        (self.highest - self.median).max(self.median - self.lowest) / self.median
    }
}

/// The value at this share (0 to 1) of the ascending values: at least that share of them does not exceed it. `None` without values.
pub fn percentile(ascending: &[f64], share: f64) -> Option<f64> {
    let at = (ascending.len() as f64 * share).ceil() as usize;
    ascending.get(at.saturating_sub(1)).copied()
}

/// The median: the middle value, or the mean of the two middle values.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The median of the ratios of two paths, computed for each repetition.
///
/// Repetition n of both paths ran within seconds of each other. Each ratio therefore compares equal conditions, even if the machine was
/// slow at that time. A ratio of medians would not.
pub fn paired_ratio(samples: &[f64], base: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = samples
        .iter()
        .zip(base)
        .filter(|&(_, &base)| base > 0.0)
        .map(|(sample, base)| sample / base)
        .collect();
    median(&ratios)
}

/// The geometric mean; `None` if there are no ratios, or if one is not positive.
pub fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    if ratios.is_empty() || ratios.iter().any(|&ratio| ratio <= 0.0) {
        return None;
    }
    let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    Some((logs / ratios.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let cases: &[(&[f64], Option<f64>)] = &[
            (&[], None),
            (&[7.0], Some(7.0)),
            (&[9.0, 1.0, 5.0], Some(5.0)),
            (&[4.0, 1.0, 2.0, 100.0], Some(3.0)),
        ];
        for (samples, expected) in cases {
            assert_eq!(median(samples), *expected, "{samples:?}");
        }
    }

    #[test]
    fn summaries() {
        let summary = Summary::of(&[8.0, 10.0, 11.0]).unwrap();
        assert_eq!(summary, Summary { median: 10.0, lowest: 8.0, highest: 11.0 });
        assert!((summary.spread() - 0.2).abs() < 1e-9);
        assert_eq!(Summary::of(&[0.0, 0.0]).unwrap().spread(), 0.0);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn a_slow_repetition_does_not_spoil_the_ratio() {
        // In the second repetition the machine was at half speed for both paths.
        let ratio = paired_ratio(&[9.0, 4.5, 9.0], &[10.0, 5.0, 10.0]).unwrap();
        assert!((ratio - 0.9).abs() < 1e-9);
        assert_eq!(paired_ratio(&[1.0], &[0.0]), None);
    }

    #[test]
    fn geometric_means() {
        assert!((geometric_mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
    }
}
