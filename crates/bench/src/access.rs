//! [`Access`]: distribution of offsets in a file, and [`Places`]: their sequence.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::random::Random;

/// Distribution of offsets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Access {
    /// All offsets are equally likely.
    Uniform,
    /// Zipf: the n-th most popular offset has a probability proportional to 1/n to this power.
    /// Popular offsets are spread over the file.
    Zipf(f64),
    /// Normal around the middle of the file; the standard deviation is this share of its length, in
    /// per cent.
    Normal(f64),
    /// A share of the accesses goes to the beginning of the file, the others to the rest.
    Hot {
        /// Share of the accesses, in per cent.
        accesses: f64,
        /// Share of the file, in per cent.
        of_file: f64,
    },
    /// Sequential, wrapping around at the end. Threads start at different offsets.
    Sequential,
    /// This share of the accesses, in per cent, follows the previous one; the others are random.
    Mix(f64),
}

impl Access {
    /// The forms on the command line.
    pub const FORMS: &'static str = "uniform, zipf:THETA, normal:PCT, hot:PCT_OF_ACCESSES:PCT_OF_FILE, sequential, mix:PCT_SEQUENTIAL";

    pub(crate) fn check(self) -> Result<(), Error> {
        let share = |number: f64| number > 0.0 && number <= 100.0;
        let why = match self {
            Access::Zipf(theta) if !(theta > 0.0 && theta <= 10.0) => {
                format!(
                    "zipf's theta is more than 0 and at most 10 (0.99 is usual), and not {theta}"
                )
            }
            Access::Normal(part) if !share(part) => {
                format!("normal's deviation is more than 0 and at most 100 %, and not {part}")
            }
            Access::Hot { accesses, of_file } if !(share(accesses) && share(of_file)) => {
                format!(
                    "hot's parts are more than 0 and at most 100 %, and not {accesses} and {of_file}"
                )
            }
            Access::Mix(part) if !(0.0..=100.0).contains(&part) => {
                format!("mix takes 0 to 100 %, and not {part}")
            }
            _ => return Ok(()),
        };
        Err(Error::Invalid {
            what: "access",
            why,
        })
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::Uniform => f.write_str("uniform"),
            Access::Zipf(theta) => write!(f, "zipf:{theta}"),
            Access::Normal(part) => write!(f, "normal:{part}"),
            Access::Hot { accesses, of_file } => write!(f, "hot:{accesses}:{of_file}"),
            Access::Sequential => f.write_str("sequential"),
            Access::Mix(part) => write!(f, "mix:{part}"),
        }
    }
}

impl FromStr for Access {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("no access {text:?}; there are {}", Access::FORMS);
        let number = |word: &str| word.parse::<f64>().map_err(|_| unknown());
        let words: Vec<&str> = text.split(':').collect();
        let access = match words[..] {
            ["uniform"] => Access::Uniform,
            ["sequential"] => Access::Sequential,
            ["zipf", theta] => Access::Zipf(number(theta)?),
            ["normal", part] => Access::Normal(number(part)?),
            ["mix", part] => Access::Mix(number(part)?),
            ["hot", accesses, of_file] => Access::Hot {
                accesses: number(accesses)?,
                of_file: number(of_file)?,
            },
            _ => return Err(unknown()),
        };
        access.check().map_err(|error| error.to_string())?;
        Ok(access)
    }
}

impl TryFrom<String> for Access {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Access> for String {
    fn from(access: Access) -> String {
        access.to_string()
    }
}

/// The sequence of offsets of one thread, in bytes.
#[derive(Debug, Clone)]
pub struct Places {
    random: Random,
    law: Law,
    /// The number of offsets, and their distance.
    count: u64,
    step: u64,
    /// The previous offset.
    last: u64,
}

#[derive(Debug, Clone)]
enum Law {
    Uniform,
    Zipf(Zipf, Spread),
    Normal { deviation: f64 },
    Hot { accesses: f64, hot: u64 },
    Mix { sequential: f64 },
}

impl Places {
    /// The offsets of thread `thread` of `threads`, each the start of a request of `chunk` bytes.
    ///
    /// Aligned, there is an offset per whole chunk, or one if the file is smaller than a chunk;
    /// otherwise every byte is an offset.
    #[must_use]
    pub fn new(
        access: Access,
        file: u64,
        chunk: u64,
        aligned: bool,
        seed: u64,
        thread: (usize, usize),
    ) -> Places {
        let chunk = chunk.max(1);
        let (count, step) = match aligned || matches!(access, Access::Sequential) {
            true => ((file / chunk).max(1), chunk),
            false => (file.max(1), 1),
        };
        let (thread, threads) = thread;
        let law = match access {
            Access::Uniform => Law::Uniform,
            Access::Zipf(theta) => Law::Zipf(Zipf::new(count, theta), Spread::new(count)),
            Access::Normal(part) => Law::Normal {
                deviation: part / 100.0 * count as f64,
            },
            Access::Hot { accesses, of_file } => {
                let hot = (count as f64 * of_file / 100.0).round() as u64;
                Law::Hot {
                    accesses: accesses / 100.0,
                    hot: hot.clamp(1, count),
                }
            }
            Access::Sequential => Law::Mix { sequential: 1.0 },
            Access::Mix(part) => Law::Mix {
                sequential: part / 100.0,
            },
        };
        // The first request follows `last`: each thread starts with its own part.
        let first = (u128::from(count) * thread as u128 / threads.max(1) as u128) as u64;
        Places {
            random: Random::new(seed, thread as u64),
            law,
            count,
            step,
            last: first.checked_sub(1).unwrap_or(count - 1),
        }
    }

    /// The number of different offsets.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The next offset.
    #[inline]
    pub fn next_offset(&mut self) -> u64 {
        let place = match &self.law {
            Law::Uniform => self.random.below(self.count),
            Law::Zipf(zipf, spread) => spread.place(zipf.rank(&mut self.random)),
            Law::Normal { deviation } => normal(&mut self.random, self.count, *deviation),
            Law::Hot { accesses, hot } => {
                if *hot == self.count || self.random.part() < *accesses {
                    self.random.below(*hot)
                } else {
                    hot + self.random.below(self.count - hot)
                }
            }
            Law::Mix { sequential } => {
                if *sequential >= 1.0 || self.random.part() < *sequential {
                    // Without a remainder operation, which takes as long as the noise of a small
                    // read.
                    let next = self.last + 1;
                    if next >= self.count { 0 } else { next }
                } else {
                    self.random.below(self.count)
                }
            }
        };
        self.last = place;
        place * self.step
    }
}

/// An offset around the middle; those outside of the file are drawn again.
fn normal(random: &mut Random, count: u64, deviation: f64) -> u64 {
    let middle = count as f64 / 2.0;
    loop {
        // Box-Muller transform: two uniform numbers make a normal one.
        let (one, other) = (1.0 - random.part(), random.part());
        let away = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
        let place = middle + away * deviation;
        if place >= 0.0 && place < count as f64 {
            return place as u64;
        }
    }
}

/// Maps ranks to distinct offsets all over the file, so that the most popular ones are not
/// adjacent.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    count: u64,
    step: u64,
}

impl Spread {
    pub fn new(count: u64) -> Spread {
        // With the golden section, consecutive ranks are as far apart as possible, whatever their
        // number. No two ranks collide if step and count have no common divisor.
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        let count = count.max(1);
        let mut step = ((count as f64 * GOLDEN) as u64).clamp(1, count);
        while divisor(step, count) != 1 {
            step -= 1;
        }
        Spread { count, step }
    }

    pub fn place(&self, rank: u64) -> u64 {
        match rank.checked_mul(self.step) {
            Some(far) => far % self.count,
            None => (u128::from(rank) * u128::from(self.step) % u128::from(self.count)) as u64,
        }
    }
}

/// The greatest common divisor (Euclid).
fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Ranks with a Zipf distribution, by rejection-inversion (Hörmann and Derflinger, 1996): no table,
/// whatever the size.
#[derive(Debug, Clone)]
struct Zipf {
    theta: f64,
    count: f64,
    from: f64,
    to: f64,
    shift: f64,
}

impl Zipf {
    fn new(count: u64, theta: f64) -> Zipf {
        let mut zipf = Zipf {
            theta,
            count: count as f64,
            from: 0.0,
            to: 0.0,
            shift: 0.0,
        };
        zipf.from = zipf.area(1.5) - 1.0;
        zipf.to = zipf.area(zipf.count + 0.5);
        zipf.shift = 2.0 - zipf.place(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// Value of the curve 1/x^theta.
    fn height(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// Area below that curve, from 1 to x.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        by_exponent((1.0 - self.theta) * log) * log
    }

    /// Inverse of `area`.
    fn place(&self, area: f64) -> f64 {
        let t = (area * (1.0 - self.theta)).max(-1.0);
        (by_logarithm(t) * area).exp()
    }

    fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.to + random.part() * (self.from - self.to);
            let x = self.place(area);
            let rank = x.round().clamp(1.0, self.count);
            if rank - x <= self.shift || area >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u64 - 1;
            }
        }
    }
}

/// (e^x - 1) / x, also for x near 0.
fn by_exponent(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.exp_m1() / x
    } else {
        1.0 + x / 2.0
    }
}

/// ln(1 + x) / x, also for x near 0.
fn by_logarithm(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.ln_1p() / x
    } else {
        1.0 - x / 2.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: u64 = 1 << 20;
    const CHUNK: u64 = 4096;

    fn places(access: Access, seed: u64) -> Places {
        Places::new(access, FILE, CHUNK, true, seed, (0, 1))
    }

    fn drawn(access: Access, seed: u64, count: usize) -> Vec<u64> {
        let mut places = places(access, seed);
        (0..count).map(|_| places.next_offset()).collect()
    }

    const ALL: [Access; 6] = [
        Access::Uniform,
        Access::Zipf(0.99),
        Access::Normal(10.0),
        Access::Hot {
            accesses: 90.0,
            of_file: 10.0,
        },
        Access::Sequential,
        Access::Mix(50.0),
    ];

    #[test]
    fn same_seed_gives_the_same_offsets() {
        for access in ALL {
            assert_eq!(
                drawn(access, 7, 1000),
                drawn(access, 7, 1000),
                "{access}: the same seed"
            );
            if access != Access::Sequential {
                assert_ne!(
                    drawn(access, 7, 1000),
                    drawn(access, 8, 1000),
                    "{access}: another seed"
                );
            }
        }
    }

    #[test]
    fn access_parses_its_printed_form() {
        for access in ALL {
            assert_eq!(access.to_string().parse(), Ok(access), "{access}");
        }
        for wrong in [
            "",
            "zipf",
            "zipf:",
            "zipf:0",
            "zipf:nan",
            "zipf:inf",
            "hot:90",
            "hot:0:10",
            "mix:101",
            "normal:-1",
            "uniform:1",
        ] {
            let error = wrong.parse::<Access>().unwrap_err();
            assert!(error.contains("access"), "{wrong:?} is refused: {error}");
        }
    }

    #[test]
    fn hot_part_gets_its_share_of_accesses() {
        let drawn = drawn(
            Access::Hot {
                accesses: 90.0,
                of_file: 10.0,
            },
            3,
            20_000,
        );
        let hot = drawn.iter().filter(|offset| **offset < 26 * CHUNK).count();
        assert!((17_700..18_300).contains(&hot), "9 of 10 of 20,000: {hot}");
    }

    #[test]
    fn zipf_matches_its_distribution_and_reaches_every_rank() {
        let count = 256;
        let zipf = Zipf::new(count, 1.0);
        let mut random = Random::new(1, 0);
        let mut seen = vec![0_u32; count as usize];
        for _ in 0..200_000 {
            seen[zipf.rank(&mut random) as usize] += 1;
        }
        // Of 200,000, the n-th gets 200,000 / (n * H), with H = 6.124 for 256.
        for (rank, expected) in [(0, 32_657), (1, 16_328), (9, 3_266)] {
            let found = seen[rank];
            assert!(
                found.abs_diff(expected) < expected / 10,
                "rank {rank}: {found} where {expected} are due"
            );
        }
        assert!(
            seen.iter().all(|seen| *seen > 0),
            "the last ranks occur, too"
        );
    }

    #[test]
    fn sequential_visits_every_offset_once() {
        let mut met = drawn(Access::Sequential, 1, (FILE / CHUNK) as usize);
        assert_eq!(met[..3], [0, CHUNK, 2 * CHUNK], "from the beginning");
        met.sort_unstable();
        met.dedup();
        assert_eq!(met.len() as u64, FILE / CHUNK, "each once");
        let mut second = Places::new(Access::Sequential, FILE, CHUNK, true, 1, (1, 2));
        assert_eq!(
            second.next_offset(),
            FILE / 2,
            "a second thread begins in the middle"
        );
    }

    #[test]
    fn spread_maps_ranks_to_distinct_distant_offsets() {
        for count in [1, 2, 3, 59, 1000, 65_536, 99_991, 1 << 18] {
            let spread = Spread::new(count);
            let mut met: Vec<u64> = (0..count).map(|rank| spread.place(rank)).collect();
            let popular = &mut met[..count.min(16) as usize];
            popular.sort_unstable();
            let gaps = popular.windows(2).map(|two| two[1] - two[0]);
            let widest = gaps.max().unwrap_or(0);
            assert!(
                count < 16 || widest <= count / 6,
                "the first sixteen of {count} lie {widest} apart"
            );
            met.sort_unstable();
            met.dedup();
            assert_eq!(met.len() as u64, count, "of {count}");
        }
        // Intermediate results exceed 64 bits.
        let spread = Spread::new(u64::MAX);
        assert!(spread.place(u64::MAX - 1) < u64::MAX, "a place");
    }

    proptest! {
        #[test]
        fn offsets_stay_inside_the_file(file in 1_u64..1 << 40, chunk in 1_u64..1 << 20, seed: u64, aligned: bool, which in 0..ALL.len()) {
            let mut places = Places::new(ALL[which], file, chunk, aligned, seed, (1, 3));
            for _ in 0..50 {
                let offset = places.next_offset();
                prop_assert!(offset < file, "{offset} of {file}");
                prop_assert!(!aligned || offset.is_multiple_of(chunk), "{offset} by {chunk}");
            }
        }
    }
}
