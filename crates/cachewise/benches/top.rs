//! Cost of `top` itself: its CPU time over a while, at an interval of a second, on this machine as it is.
//!
//! The goal is 1 % of a core on an idle machine. `make bench-view`, as root for exact numbers.

use std::io::Read;
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

/// After the programs are loaded, which costs once.
const BEGIN: Duration = Duration::from_secs(3);
const WHILE: Duration = Duration::from_secs(30);

fn main() {
    for view in ["process", "file"] {
        let pair = native_pty_system()
            .openpty(PtySize {
                rows: 50,
                cols: 160,
                ..PtySize::default()
            })
            .expect("there are pseudo-terminals");
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_cachewise"));
        command.args(["top", "1", "--readonly", "--view", view]);
        command.env("TERM", "xterm");
        let mut child = pair.slave.spawn_command(command).expect("it starts");
        let mut reader = pair.master.try_clone_reader().expect("it can be read");
        std::thread::spawn(move || {
            let mut bytes = [0; 1 << 16];
            while let Ok(1..) = reader.read(&mut bytes) {}
        });
        let pid = child.process_id().expect("it runs");
        std::thread::sleep(BEGIN);
        let (begin, before) = (Instant::now(), cpu_ticks(pid));
        std::thread::sleep(WHILE);
        let (ticks, time) = (cpu_ticks(pid) - before, begin.elapsed());
        // A tick is 10 ms on every architecture that has BPF.
        let part = ticks as f64 * 0.01 / time.as_secs_f64() * 100.0;
        println!(
            "top 1 --view {view}: {part:.2} % of a core over {time:.0?} (the goal is 1 % on an idle machine)"
        );
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// User and system time so far.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, rest) = stat.rsplit_once(')').expect("a name in brackets");
    let field = |place| -> u64 {
        rest.split_ascii_whitespace()
            .nth(place)
            .and_then(|number| number.parse().ok())
            .expect("a number")
    };
    field(11) + field(12)
}
