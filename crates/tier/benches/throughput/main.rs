//! Bytes a second: from the servers beside a raw client, and through the mount beside a FUSE file system of the same
//! crate that passes reads on.
//!
//! Both sides of each comparison take turns, so that whoever else uses the machine disturbs both alike; what is printed
//! is the median of the rounds, and of their ratios.
//!
//! `cargo bench -p cachewise-tier --bench throughput [-- saturated|mount]`

mod pass_through;
mod saturated;
mod through_mount;

fn main() {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let wants = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
    if wants("saturated") {
        saturated::run();
    }
    if wants("mount") {
        through_mount::run();
    }
}

/// Prints two sides and their ratio.
fn print(what: &str, one: &str, other: &str, rounds: &mut [(f64, f64)]) {
    let median = |mut numbers: Vec<f64>| {
        numbers.sort_by(f64::total_cmp);
        numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let ours = median(rounds.iter().map(|(ours, _)| *ours).collect());
    let theirs = median(rounds.iter().map(|(_, theirs)| *theirs).collect());
    let ratio = median(rounds.iter().map(|(ours, theirs)| ours / theirs).collect());
    println!(
        "{what:<44} {one} {:.0} MB/s, {other} {:.0} MB/s: {ratio:.2} of it",
        ours / 1e6,
        theirs / 1e6
    );
}
