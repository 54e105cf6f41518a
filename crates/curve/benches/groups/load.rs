//! Loads: seeded sequences of pages of one file.

/// A load.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub name: &'static str,
    /// The exponent of the Zipf distribution of random pages.
    pub zipf: f64,
    /// The share of accesses that read the file's pages in turn, again and again.
    pub in_turn: f64,
    /// Random accesses fall on this share of the file.
    pub hot: f64,
}

pub const LOADS: [Load; 8] = [
    load("zipf-0.6", 0.6, 0.0, 1.0),
    load("zipf-0.9", 0.9, 0.0, 1.0),
    load("zipf-1.1", 1.1, 0.0, 1.0),
    load("loop", 0.0, 1.0, 1.0),
    load("scan-hot-10", 0.0, 0.5, 0.1),
    load("scan-hot-40", 0.0, 0.5, 0.4),
    load("zipf-0.6-loop", 0.6, 0.3, 1.0),
    load("zipf-1.1-loop", 1.1, 0.5, 1.0),
];

const fn load(name: &'static str, zipf: f64, in_turn: f64, hot: f64) -> Load {
    Load {
        name,
        zipf,
        in_turn,
        hot,
    }
}

/// The pages that a load accesses, in order and without end.
pub struct Pages {
    load: Load,
    random: fastrand::Rng,
    sums: Vec<f64>,
    order: Vec<u64>,
    turn: u64,
}

impl Load {
    pub fn named(name: &str) -> Option<Load> {
        LOADS.into_iter().find(|load| load.name == name)
    }

    pub fn pages(self, file_pages: u64, seed: u64) -> Pages {
        let mut random = fastrand::Rng::with_seed(seed);
        let hot = (file_pages as f64 * self.hot) as u64;
        let mut sum = 0.0;
        let sums = (1..=hot).map(|rank| {
            sum += (rank as f64).powf(-self.zipf);
            sum
        });
        let sums = sums.collect();
        let mut order: Vec<u64> = (0..file_pages).collect();
        random.shuffle(&mut order);
        Pages {
            load: self,
            random,
            sums,
            order,
            turn: 0,
        }
    }
}

impl Iterator for Pages {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.random.f64() < self.load.in_turn {
            self.turn += 1;
            return Some(self.turn % self.order.len() as u64);
        }
        let last = self.sums.last()?;
        let at = self.random.f64() * last;
        let rank = self.sums.partition_point(|sum| *sum < at);
        self.order.get(rank).copied()
    }
}
