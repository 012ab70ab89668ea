//! Meters of two rates and three colours (RFC 2698, colour-blind mode): token buckets that start full.

/// The colour of a packet that exceeds no rate. A packet that exceeds the committed rate is yellow (1), one that exceeds the peak rate is
/// red (2).
pub const GREEN: u8 = 0;

/// A rate and a burst size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Units (packets or bytes) in a microsecond.
    pub per_microsecond: f64,
    /// The number of units that may arrive at once: the size of the token bucket.
    pub burst: u64,
}

/// One cell of a meter. Without rates every packet is green.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meter {
    /// The token buckets, lowest rate first: committed, then peak.
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Bucket {
    rate: Rate,
    tokens: f64,
    filled: u64,
}

impl Meter {
    /// A meter with these rates, lowest first, and full buckets at time `now` in microseconds.
    pub fn new(rates: &[Rate], now: u64) -> Meter {
        let full = |rate: &Rate| Bucket { rate: *rate, tokens: rate.burst as f64, filled: now };
        Meter { buckets: rates.iter().map(full).collect() }
    }

    /// The rates, lowest first.
    pub fn rates(&self) -> Vec<Rate> {
        self.buckets.iter().map(|b| b.rate).collect()
    }

    /// Meters a packet of `units` units at time `now` in microseconds, and returns its colour.
    pub fn execute(&mut self, now: u64, units: u64) -> u8 {
        for bucket in &mut self.buckets {
            let waited = now.saturating_sub(bucket.filled) as f64;
            let most = bucket.rate.burst as f64;
            bucket.tokens = (bucket.tokens + waited * bucket.rate.per_microsecond).min(most);
            bucket.filled = bucket.filled.max(now);
        }
        for (exceeded, bucket) in self.buckets.iter_mut().enumerate().rev() {
            if bucket.tokens < units as f64 {
                return GREEN + exceeded as u8 + 1;
            }
            bucket.tokens -= units as f64;
        }
        GREEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2698 section 3: committed 1 packet/µs with a burst of 2, peak 2 packets/µs with a burst of 4.
    #[test]
    fn two_rates_three_colours() {
        let rate = |per_microsecond, burst| Rate { per_microsecond, burst };
        let mut meter = Meter::new(&[rate(1.0, 2), rate(2.0, 4)], 100);
        let colours: Vec<u8> = (0..6).map(|_| meter.execute(100, 1)).collect();
        assert_eq!(colours, [0, 0, 1, 1, 2, 2]);
        // A microsecond later the buckets hold one committed token and two peak tokens.
        let colours: Vec<u8> = (0..3).map(|_| meter.execute(101, 1)).collect();
        assert_eq!(colours, [0, 1, 2]);
        // A bucket does not hold more tokens than its burst size.
        let colours: Vec<u8> = (0..5).map(|_| meter.execute(1_000_000, 1)).collect();
        assert_eq!(colours, [0, 0, 1, 1, 2]);
    }

    #[test]
    fn without_rates_all_is_green_and_a_clock_that_goes_back_does_no_harm() {
        assert_eq!(Meter::default().execute(0, u64::MAX), GREEN);
        let mut meter = Meter::new(&[Rate { per_microsecond: 1.0, burst: 1 }], 100);
        assert_eq!((meter.execute(100, 1), meter.execute(50, 1), meter.execute(101, 1)), (0, 1, 0));
    }
}
