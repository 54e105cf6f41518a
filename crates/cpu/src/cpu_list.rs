//! Sets of CPUs as the kernel writes them: `0-3,8`.

use std::fmt;
use std::str::FromStr;

/// No kernel has more CPUs; a list that claims more is not one.
const MOST: u32 = 1 << 16;

/// A set of CPUs, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// Of these, in any order.
    #[must_use]
    pub fn new(cpus: impl IntoIterator<Item = u32>) -> CpuList {
        let mut cpus: Vec<u32> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        CpuList(cpus)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this one is among them.
    #[must_use]
    pub fn has(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// Whether all of these are among them.
    #[must_use]
    pub fn has_all(&self, others: &CpuList) -> bool {
        others.iter().all(|cpu| self.has(cpu))
    }

    /// Those that both have.
    #[must_use]
    pub fn and(&self, others: &CpuList) -> CpuList {
        CpuList(self.iter().filter(|cpu| others.has(*cpu)).collect())
    }

    /// The lowest.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// From the lowest to the highest.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }
}

/// A text that is no list of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no list of CPUs such as 0-3,8")]
pub struct ParseCpuListError(String);

impl FromStr for CpuList {
    type Err = ParseCpuListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseCpuListError(text.to_owned());
        let number = |part: &str| {
            let number = part.trim().parse::<u32>().ok();
            number.filter(|number| *number < MOST).ok_or_else(wrong)
        };
        let mut cpus = Vec::new();
        // An offline node, or a machine without isolated CPUs, has an empty line.
        for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            match part.split_once('-') {
                None => cpus.push(number(part)?),
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if first > last {
                        return Err(wrong());
                    }
                    cpus.extend(first..=last);
                }
            }
        }
        Ok(CpuList::new(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|one, next| one + 1 == *next);
        for (place, run) in runs.enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            match run {
                [first, .., last] => write!(f, "{first}-{last}")?,
                [only] => write!(f, "{only}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for text in ["0", "0-1", "0-3,8,10-11", ""] {
            let list: CpuList = format!("{text}\n").parse().unwrap();
            assert_eq!(list.to_string(), text, "there and back");
        }
        let list: CpuList = "8,0-2".parse().unwrap();
        assert_eq!(list.len(), 4, "every CPU of a range counts");
        assert!(list.has(1) && !list.has(3), "ends are part of a range");
        assert_eq!(list.first(), Some(0), "in order");
    }

    #[test]
    fn text_that_is_not_a_list_is_refused() {
        for text in ["x", "3-1", "1-", "-", "0,,1", "0-99999999", "0x1"] {
            assert!(text.parse::<CpuList>().is_err(), "{text:?} is no list");
        }
    }

    #[test]
    fn sets_are_compared() {
        let (all, some) = (CpuList::new(0..4), CpuList::new([2, 3, 7]));
        assert_eq!(all.and(&some), CpuList::new([2, 3]), "what both have");
        assert!(!all.has_all(&some), "7 is not among them");
        assert!(all.has_all(&CpuList::new([1, 1, 0])), "twice is once");
    }
}
