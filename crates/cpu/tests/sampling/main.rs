//! Where in real programs events happen. Page faults stand for misses: every machine has them, the program decides how
//! many there are, and each one can be sampled.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cachewise_cpu::program::CostLocation;
use cachewise_cpu::program::sampling::{Event, Samples, Sampling, Skid, Tally};

const SOURCE: &str = include_str!("faults.rs");
const LIBRARY: &str = include_str!("touching.rs");

/// The programs, compiled once a run, over those of the last one: nothing is dropped at the end of all tests.
struct Programs {
    place: PathBuf,
}

impl Programs {
    fn get() -> &'static Programs {
        static PROGRAMS: OnceLock<Programs> = OnceLock::new();
        PROGRAMS.get_or_init(|| {
            let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sampling");
            std::fs::create_dir_all(&place).expect("cargo's own place for it");
            let programs = Programs { place };
            let (source, library) = (programs.path("faults.rs"), programs.path("touching.rs"));
            std::fs::write(&source, SOURCE).expect("it is ours");
            std::fs::write(&library, LIBRARY).expect("it is ours");
            let place = programs.place.to_str();
            let place = place.expect("the target directory is text");
            let own_library = format!("-Clink-arg=-Wl,-rpath,{place}");
            let linked = ["-L", place, &own_library, "--cfg", "in_library"];
            let dynamic = ["--crate-type", "cdylib"];
            compile(
                &library,
                &programs.path("libtouching.so"),
                &["-g"],
                &dynamic,
            );
            compile(&source, &programs.path("faults"), &["-g"], &linked);
            compile(&source, &programs.path("bare"), &[], &linked);
            compile(
                &source,
                &programs.path("stripped"),
                &["-Cstrip=symbols"],
                &[],
            );
            let fixed = ["-Crelocation-model=static"];
            compile(&source, &programs.path("fixed"), &["-g"], &fixed);
            programs
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }
}

fn compile(source: &Path, into: &Path, some: &[&str], more: &[&str]) {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command.args(["-O", "--edition=2024", "-Ccodegen-units=1"]);
    let compiled = command.args(some).args(more).arg("-o").args([into, source]);
    let compiled = compiled.status();
    assert!(compiled.is_ok_and(|status| status.success()), "{source:?}");
}

/// The line of a source that ends so.
fn line(source: &str, ends: &str) -> u32 {
    let found = source.lines().position(|line| line.ends_with(ends));
    found.expect("it is there") as u32 + 1
}

fn event(name: &str) -> &'static Event {
    Event::named(name).expect("there is such an event")
}

/// Whether the kernel lets this process count what it does itself: it is asked without what is tested. A line if not.
fn may_count() -> bool {
    let refusals = [
        rustix::io::Errno::ACCESS,
        rustix::io::Errno::PERM,
        rustix::io::Errno::NOSYS,
    ];
    let counter = perf_event::Builder::new(perf_event::events::Software::PAGE_FAULTS).build();
    let refused = counter.err().filter(|error| {
        let number = error.raw_os_error().unwrap_or_default();
        refusals
            .map(|refusal| refusal.raw_os_error())
            .contains(&number)
    });
    if let Some(error) = &refused {
        println!("skipped: sampling: perf_event_open: {error}");
    }
    refused.is_none()
}

/// Samples of a program that succeeds; `None` if the kernel permits no counters.
fn sampled(program: &str, arguments: &[&str]) -> Option<Samples> {
    let program = Programs::get().path(program);
    let sampling = of_children("page-faults", None)?;
    let done = Command::new(program).args(arguments).status();
    let done = done.expect("it can be run");
    assert!(done.success(), "{arguments:?}: {done}");
    Some(whole(sampling.finish()))
}

/// Asserts the invariants of all samples: every omission is reported.
fn whole(samples: Samples) -> Samples {
    let counted = samples.happened().expect("the counter can be read");
    assert_eq!(samples.garbled(), 0, "all records are understood");
    assert!(
        samples.taken.samples + samples.lost() >= counted,
        "each is sampled or lost: {:?} of {counted}, {} lost",
        samples.taken,
        samples.lost()
    );
    assert!(samples.taken.events <= counted, "and none twice");
    let of_places = samples.hottest(usize::MAX);
    let of_places: u64 = of_places.iter().map(|place| place.costs.samples).sum();
    assert_eq!(
        of_places + samples.beyond().samples,
        samples.taken.samples,
        "places have all of them"
    );
    samples
}

fn of_children(name: &str, period: Option<u64>) -> Option<Sampling> {
    let sampling = || Sampling::of_children(event(name), period).expect("the kernel counts it");
    may_count().then(sampling)
}

/// Asserts that a location has all events that happened there, less those reported as lost.
fn is_all(found: u64, happened: u64, samples: &Samples) {
    assert!(
        found <= happened && happened <= found + samples.lost(),
        "{happened} happened, {found} are there, {} lost: {:?}",
        samples.lost(),
        samples.hottest(10)
    );
}

fn at(places: &[CostLocation<Tally>], file: &str, line: u32) -> u64 {
    let there = places.iter().filter(|place| {
        let (found, at) = place
            .line
            .as_ref()
            .map_or(("", 0), |(f, l)| (f.as_str(), *l));
        found.ends_with(file) && at == line
    });
    there.map(|place| place.costs.events).sum()
}

#[test]
fn each_fault_stands_at_its_line_through_inlined_code() {
    for program in ["faults", "fixed"] {
        let Some(samples) = sampled(program, &["both", "1000"]) else {
            return;
        };
        let places = samples.hottest(10);
        let own = at(&places, "faults.rs", line(SOURCE, "// the line"));
        is_all(own, 1000, &samples);
        let other = at(&places, "faults.rs", line(SOURCE, "// the other line"));
        is_all(other, 3000, &samples);
        let worst = places.first().expect("there are places");
        let function = worst.function.as_deref().unwrap_or_default();
        assert!(function.contains("touch_elsewhere"), "{worst:?}");
        assert!(worst.object.ends_with(program), "{worst:?}");
        assert_eq!(samples.skid, Skid::None, "the kernel was there");
    }
}

#[test]
fn threads_and_children_are_part_of_it() {
    for (mode, faults) in [("thread", 500), ("children", 1500)] {
        let Some(samples) = sampled("faults", &[mode, "500"]) else {
            return;
        };
        let places = samples.hottest(10);
        let own = at(&places, "faults.rs", line(SOURCE, "// the line"));
        is_all(own, faults, &samples);
    }
}

#[test]
fn a_library_has_lines_of_its_own() {
    let Some(samples) = sampled("faults", &["library", "700"]) else {
        return;
    };
    let places = samples.hottest(5);
    let worst = places.first().expect("there are places");
    assert!(worst.object.ends_with("libtouching.so"), "{worst:?}");
    let line = line(LIBRARY, "// the library's line");
    is_all(at(&places, "touching.rs", line), 700, &samples);
}

#[test]
fn without_debug_information_there_are_functions_and_stripped_there_are_none() {
    let Some(samples) = sampled("bare", &["touch", "600"]) else {
        return;
    };
    let places = samples.hottest(3);
    let worst = places.first().expect("there are places");
    let function = worst.function.as_deref().unwrap_or_default();
    assert!(function.contains("touch"), "from symbols: {places:?}");
    assert_eq!(worst.line, None, "no line: {worst:?}");

    let samples = sampled("stripped", &["touch", "600"]).expect("as before");
    let places = samples.hottest(3);
    let worst = places.first().expect("there are places");
    assert_eq!((&worst.function, &worst.line), (&None, &None), "{worst:?}");
    assert!(worst.object.ends_with("stripped"), "the file is known");
}

#[test]
fn code_in_no_file_has_no_place() {
    if cfg!(not(target_arch = "x86_64")) {
        println!("skipped: code in no file: it is written for x86-64");
        return;
    }
    let Some(samples) = sampled("faults", &["code", "800"]) else {
        return;
    };
    let places = samples.hottest(3);
    let worst = places.first().expect("there are places");
    assert_eq!((&worst.function, &worst.line), (&None, &None), "{places:?}");
    assert_eq!(worst.object, "anonymous memory", "{places:?}");
    is_all(worst.costs.samples, 800, &samples);
}

#[test]
fn programs_that_end_at_once_are_counted_and_forgotten() {
    let Some(samples) = sampled("faults", &["many", "300"]) else {
        return;
    };
    assert!(
        samples.taken.samples > 300,
        "each has some: {:?}",
        samples.taken
    );
    let places = samples.hottest(usize::MAX);
    // Equal locations of several processes are merged.
    assert!(places.len() < 3000, "{} places", places.len());
}

#[test]
fn a_program_that_is_gone_while_it_is_looked_at_has_its_lines() {
    let copy = Programs::get().path("copy");
    std::fs::copy(Programs::get().path("faults"), &copy).unwrap();
    let Some(sampling) = of_children("page-faults", None) else {
        return;
    };
    let mut child = Command::new(&copy)
        .args(["wait", "400"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    ready(&mut child);
    // It has faulted before, so its file is looked at.
    let is_open = || {
        let open = std::fs::read_dir("/proc/self/fd").expect("it is ours");
        let mut open = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        open.any(|file| file == copy)
    };
    let until = Instant::now() + Duration::from_secs(60);
    while !is_open() {
        assert!(Instant::now() < until, "its file is opened");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::remove_file(&copy).unwrap();
    std::fs::write(&copy, "another one").unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success(), "it ends");
    let samples = whole(sampling.finish());
    let places = samples.hottest(3);
    let own = at(&places, "faults.rs", line(SOURCE, "// the line"));
    is_all(own, 400, &samples);
}

fn ready(child: &mut std::process::Child) {
    let mut said = String::new();
    let out = child.stdout.take().expect("it is ours");
    let read = BufReader::new(out).read_line(&mut said);
    assert!(read.is_ok(), "it is open");
    assert_eq!(said, "ready\n", "it says so");
}

#[test]
fn a_process_that_runs_can_be_followed() {
    let mut child = Command::new(Programs::get().path("faults"))
        .args(["wait", "900"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    ready(&mut child);
    let pid = child.id();
    let sampling = Sampling::of_process(event("page-faults"), None, pid, vec![pid]);
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success(), "it ends");
    if !may_count() {
        return;
    }
    let samples = whole(sampling.expect("the kernel counts it").finish());
    let places = samples.hottest(3);
    let own = at(&places, "faults.rs", line(SOURCE, "// the line"));
    is_all(own, 900, &samples);
}

#[test]
fn time_is_where_it_is_spent() {
    let mut child = Command::new(Programs::get().path("faults"))
        .args(["forever", "1"])
        .spawn()
        .unwrap();
    let pid = child.id();
    let sampling = Sampling::of_process(event("cpu-clock"), None, pid, vec![pid]);
    std::thread::sleep(Duration::from_secs(1));
    let samples = sampling.map(Sampling::finish);
    // It does not end by itself.
    child.kill().unwrap();
    child.wait().unwrap();
    if !may_count() {
        return;
    }
    let samples = samples.expect("the kernel counts it");
    let places = samples.hottest(10);
    assert!(samples.taken.samples > 0, "it ran: {samples:?}");
    assert!(
        samples.taken.events < 10_000_000_000,
        "no more than there was: {:?}",
        samples.taken
    );
    assert!(
        places.iter().any(|place| place.object.ends_with("faults")),
        "the program itself is among them: {places:?}"
    );
}

#[test]
fn a_period_thins_samples_and_keeps_the_sum() {
    let Some(sampling) = of_children("page-faults", Some(10)) else {
        return;
    };
    let program = Programs::get().path("faults");
    let done = Command::new(program).args(["touch", "5000"]).status();
    assert!(done.unwrap().success(), "it ends");
    let samples = sampling.finish();
    let counted = samples.happened().expect("the counter can be read");
    let (taken, lost) = (samples.taken, samples.lost());
    assert!(
        taken.samples <= counted / 10 && counted / 10 < taken.samples + lost + 20,
        "one of ten: {taken:?} of {counted}, {lost} lost"
    );
    assert!(
        taken.events <= counted && counted < taken.events + 10 * lost + 200,
        "each stands for ten: {taken:?} of {counted}, {lost} lost"
    );
}

#[test]
fn dropped_it_ends() {
    let begin = Instant::now();
    for _ in 0..3 {
        if of_children("cpu-clock", None).is_none() {
            return;
        }
    }
    assert!(begin.elapsed().as_secs() < 30, "nobody is waited for");
}
