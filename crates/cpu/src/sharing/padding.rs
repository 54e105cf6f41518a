//! The allocator that pads: a library of ours in front of the C library's, for a program that is about to be run.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ReadCache, elf};

use crate::Error;

/// Built by build.rs from `preload/padded.rs`.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/padded.so"));

/// The loader's own variable, and the one by which the library knows where to tell that it was loaded.
const PRELOAD: &str = "LD_PRELOAD";
const PROOF: &str = "CACHEWISE_PADDED";

/// The library in a file of its own, as long as this lives.
#[derive(Debug)]
pub struct Padding {
    place: tempfile::TempDir,
}

/// In which programs the library was, since that was asked last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Padded {
    /// In how many.
    pub programs: usize,
    /// CPU time of the processes that exited normally.
    pub cpu: Duration,
    /// Part of it in processes whose heap comes from the padding allocator. A process with an
    /// allocator of its own never calls it.
    pub used: Duration,
    /// Part of it in processes that called it often: more often than the C library itself does in a
    /// program with a heap of its own.
    pub often: Duration,
}

impl Padding {
    /// Objects begin and end at multiples of this number of bytes.
    pub const LINE: u64 = 128;

    /// Writes it into a directory that only this user can enter.
    ///
    /// # Errors
    /// If there is no place for it.
    pub fn new() -> Result<Padding, Error> {
        let place = tempfile::Builder::new()
            .prefix("cachewise-")
            .tempdir()
            .map_err(Error::io("make a directory in", std::env::temp_dir()))?;
        let padding = Padding { place };
        let library = padding.library();
        fs::write(&library, LIBRARY).map_err(Error::io("write", library))?;
        padding.padded()?;
        Ok(padding)
    }

    /// The variables with which a program is to be run; what is preloaded already stays so, behind it.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, OsString); 2] {
        let mut preload = self.library().into_os_string();
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        [(PRELOAD, preload), (PROOF, self.proof().into_os_string())]
    }

    /// Where it was since this was last asked.
    ///
    /// # Errors
    /// If the file that tells it cannot be read or emptied.
    pub fn padded(&self) -> Result<Padded, Error> {
        let path = self.proof();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(Error::io("read", &path))?,
        };
        fs::write(&path, "").map_err(Error::io("write", path))?;
        Ok(parse(&text))
    }

    /// The directory that it is in.
    #[must_use]
    pub fn place(&self) -> &Path {
        self.place.path()
    }

    fn library(&self) -> PathBuf {
        self.place.path().join("padded.so")
    }

    fn proof(&self) -> PathBuf {
        self.place.path().join("padded")
    }
}

fn parse(text: &str) -> Padded {
    let mut padded = Padded {
        programs: text.bytes().filter(|byte| *byte == b'+').count(),
        cpu: Duration::ZERO,
        used: Duration::ZERO,
        often: Duration::ZERO,
    };
    for line in text.lines() {
        let line = line.trim_start_matches('+');
        let digits = line.trim_start_matches('*');
        let Ok(micros) = digits.parse() else {
            continue;
        };
        let cpu = Duration::from_micros(micros);
        padded.cpu = padded.cpu.saturating_add(cpu);
        let stars = line.len() - digits.len();
        if stars > 0 {
            padded.used = padded.used.saturating_add(cpu);
        }
        if stars > 1 {
            padded.often = padded.often.saturating_add(cpu);
        }
    }
    padded
}

/// Why a program takes no preloaded library, or takes none of its memory from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CannotPreload {
    /// It has all libraries in itself.
    Static,
    /// Its addresses have 32 bits.
    OtherWidth,
    /// It is for another kind of CPU, or another system.
    OtherMachine,
    /// It runs as another user or with capabilities, to whom the loader's variables do not apply.
    OtherUser,
    /// Its C library is musl, whose aligned allocation calls `malloc`: the padded `malloc` would recurse without end.
    Musl,
    /// It has an allocator of its own, which does not ask the C library's.
    OwnHeap(&'static str),
    /// None of these.
    NotKnown,
}

/// Allocators that are linked into programs, and words that all of them bring along, without symbols too.
const ALLOCATORS: [(&str, &[u8]); 3] = [
    ("jemalloc", b"<jemalloc>: "),
    ("mimalloc", b"mimalloc: "),
    ("tcmalloc", b"tcmalloc: "),
];

/// Maximum bytes of a section to search.
const MOST_TEXT: usize = 64 << 20;

impl fmt::Display for CannotPreload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CannotPreload::Musl => {
                "its C library is musl, whose aligned allocation calls the functions that padding replaces"
            }
            CannotPreload::OwnHeap(whose) => {
                return write!(
                    f,
                    "it has its own heap ({whose}) instead of that of the C library, which cannot be padded"
                );
            }
            CannotPreload::Static => "it is linked statically, so nothing can be preloaded",
            CannotPreload::OtherWidth => "it is a 32-bit program, and the library is a 64-bit one",
            CannotPreload::OtherMachine => "it is for another kind of CPU",
            CannotPreload::OtherUser => {
                "it is setuid or setgid, for which the loader preloads nothing"
            }
            CannotPreload::NotKnown => {
                "the loader did not load the library: the program may clear its environment or use another C library, \
                 or the directory for temporary files is mounted noexec"
            }
        })
    }
}

impl CannotPreload {
    /// The reason that the program's file shows before it runs; `None` if preloading may work. Checks the program
    /// itself, not its child processes.
    #[must_use]
    pub fn foreseen(program: &Path) -> Option<CannotPreload> {
        let cache = ReadCache::new(fs::File::open(program).ok()?);
        let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let endian = file.endian();
        let headers = file.elf_program_headers().iter();
        let loader = headers
            .filter_map(|header| header.interpreter(endian, &cache).ok()?)
            .next();
        if loader.is_some_and(|loader| has(loader, b"musl")) {
            return Some(CannotPreload::Musl);
        }
        if file.section_by_name(".gopclntab").is_some() {
            return Some(CannotPreload::OwnHeap("Go's"));
        }
        let text = file.section_by_name(".rodata")?.data().ok()?;
        let text = text.get(..MOST_TEXT).unwrap_or(text);
        let mut allocators = ALLOCATORS.iter();
        let (name, _) = allocators.find(|(_, words)| has(text, words))?;
        Some(CannotPreload::OwnHeap(name))
    }

    /// Why this one did not; what is found out is only the reason, that it did not is seen when it runs.
    #[must_use]
    pub fn for_program(program: &Path) -> CannotPreload {
        let Ok(file) = fs::File::open(program) else {
            return CannotPreload::NotKnown;
        };
        const SET_ID: u32 = 0o6000;
        if file
            .metadata()
            .is_ok_and(|found| found.mode() & SET_ID != 0)
        {
            return CannotPreload::OtherUser;
        }
        let cache = ReadCache::new(file);
        let Ok(header) = object::ReadRef::read_bytes_at(&cache, 0, 20) else {
            return CannotPreload::NotKnown;
        };
        match header {
            [0x7f, b'E', b'L', b'F', class, ..] => match elf::FileClass(*class) {
                elf::ELFCLASS32 => CannotPreload::OtherWidth,
                _ => of_elf(&cache),
            },
            _ => CannotPreload::NotKnown,
        }
    }
}

fn has(text: &[u8], part: &[u8]) -> bool {
    let first = part.first();
    text.windows(part.len())
        .any(|window| window.first() == first && window == part)
}

fn of_elf(cache: &ReadCache<fs::File>) -> CannotPreload {
    let Ok(file) = ElfFile64::<Endianness, _>::parse(cache) else {
        return CannotPreload::NotKnown;
    };
    let endian = file.endian();
    let ours = match std::env::consts::ARCH {
        "x86_64" => Some(elf::EM_X86_64),
        "aarch64" => Some(elf::EM_AARCH64),
        _ => None,
    };
    if ours.is_some_and(|ours| file.elf_header().e_machine(endian) != ours) {
        return CannotPreload::OtherMachine;
    }
    let headers = file.elf_program_headers();
    match headers
        .iter()
        .any(|header| header.p_type(endian) == elf::PT_INTERP)
    {
        true => CannotPreload::NotKnown,
        false => CannotPreload::Static,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_runs_padded_and_tells_so() {
        let padding = Padding::new().unwrap();
        assert_eq!(padding.padded().unwrap().programs, 0, "nothing has run");
        // Sorting allocates, and what it gives must be right.
        let output = Command::new("sort")
            .arg("-r")
            .arg("/proc/self/maps")
            .envs(padding.environment())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("padded.so"),
            "it is mapped: {text}"
        );
        let seen = padding.padded().unwrap();
        assert_eq!(seen.programs, 1, "and has told: {seen:?}");
        assert!(
            seen.cpu > Duration::ZERO && seen.used == seen.cpu,
            "with the time that it took, and its heap is padded: {seen:?}"
        );
        assert_eq!(padding.padded().unwrap().programs, 0, "each is told once");
    }

    #[test]
    fn reports_of_programs_are_summed_up() {
        assert_eq!(
            parse("+\n*1500\n++\n20\n\n+\n**3\n+"),
            Padded {
                programs: 5,
                cpu: Duration::from_micros(1523),
                used: Duration::from_micros(1503),
                often: Duration::from_micros(3),
            },
            "three of five have ended in the usual way, two of which have asked for memory, one of them often"
        );
    }

    /// A program that is compiled here.
    fn compiled(place: &Path, source: &str) -> PathBuf {
        let (file, program) = (place.join("program.rs"), place.join("program"));
        fs::write(&file, source).unwrap();
        let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(compiler);
        command.args(["--edition=2024", "-O", "-o"]);
        let done = command.args([&program, &file]).output().unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        program
    }

    #[test]
    fn a_heap_of_its_own_is_seen() {
        // Its `malloc` precedes a preloaded one; joining words allocates memory.
        let source = r#"
            use std::sync::atomic::{AtomicUsize, Ordering};
            static mut PLACE: [u128; 1 << 16] = [0; 1 << 16];
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            #[unsafe(no_mangle)]
            pub extern "C" fn malloc(size: usize) -> *mut u8 {
                let at = NEXT.fetch_add(size.div_ceil(16) * 16, Ordering::Relaxed);
                unsafe { (&raw mut PLACE).cast::<u8>().add(at) }
            }
            #[unsafe(no_mangle)]
            pub extern "C" fn calloc(count: usize, size: usize) -> *mut u8 { malloc(count * size) }
            #[unsafe(no_mangle)]
            pub extern "C" fn realloc(old: *mut u8, size: usize) -> *mut u8 {
                let new = malloc(size);
                if !old.is_null() { unsafe { std::ptr::copy(old, new, size) } }
                new
            }
            #[unsafe(no_mangle)]
            pub extern "C" fn free(_: *mut u8) {}
            fn main() {
                println!("{}", std::env::args().collect::<Vec<_>>().join(" "));
            }
        "#;
        let place = tempfile::tempdir().unwrap();
        let program = compiled(place.path(), source);
        let padding = Padding::new().unwrap();
        let mut command = Command::new(&program);
        let output = command.envs(padding.environment()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let seen = padding.padded().unwrap();
        assert_eq!(seen.programs, 1, "it was loaded: {seen:?}");
        assert_eq!(seen.used, Duration::ZERO, "and is not asked: {seen:?}");
    }

    #[test]
    fn a_heap_of_the_language_is_seen_by_how_little_is_asked() {
        // The C library asks for itself, at the start and for each thread; the program's own objects are elsewhere.
        let source = r#"
            use std::alloc::{GlobalAlloc, Layout};
            use std::sync::atomic::{AtomicUsize, Ordering};
            struct Own;
            static mut PLACE: [u128; 1 << 20] = [0; 1 << 20];
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            unsafe impl GlobalAlloc for Own {
                unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
                    let size = layout.size().div_ceil(16) * 16;
                    unsafe { (&raw mut PLACE).cast::<u8>().add(NEXT.fetch_add(size, Ordering::Relaxed)) }
                }
                unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
            }
            #[cfg(own)]
            #[global_allocator]
            static HEAP: Own = Own;
            fn main() {
                let threads: Vec<_> = (0..4).map(|of| std::thread::spawn(move || {
                    (0..1000).map(|n| vec![of; n % 7 + 1]).collect::<Vec<_>>().len()
                })).collect();
                println!("{}", threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>());
            }
        "#;
        let place = tempfile::tempdir().unwrap();
        for (is_own, source) in [
            (true, source.replace("#[cfg(own)]", "")),
            (false, source.to_owned()),
        ] {
            let program = compiled(place.path(), &source);
            let padding = Padding::new().unwrap();
            let mut command = Command::new(&program);
            let output = command.envs(padding.environment()).output().unwrap();
            assert_eq!(output.stdout, b"4000\n", "{output:?}");
            let seen = padding.padded().unwrap();
            assert_eq!(seen.often.is_zero(), is_own, "{seen:?}");
        }
    }

    #[test]
    fn a_heap_that_shrinks_gives_back() {
        // 256 MiB that become 1 MiB, and are not there any more: of a limit of 400 MiB there is room for as many again.
        let source = r#"
            fn main() {
                for _ in 0..3 {
                    let mut all: Vec<u8> = Vec::with_capacity(256 << 20);
                    std::hint::black_box(&mut all).resize(1 << 20, 7);
                    all.shrink_to_fit();
                    assert!(std::hint::black_box(&all).iter().all(|one| *one == 7));
                    std::mem::forget(all);
                }
            }
        "#;
        let place = tempfile::tempdir().unwrap();
        let program = compiled(place.path(), source);
        let padding = Padding::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 460800 && exec \"$0\""]);
        let output = command
            .arg(&program)
            .envs(padding.environment())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    #[test]
    fn foreseen_names_the_reason_before_the_run() {
        let place = tempfile::tempdir().unwrap();
        for (words, expected) in [
            ("<jemalloc>: %s", Some(CannotPreload::OwnHeap("jemalloc"))),
            ("its own words", None),
        ] {
            let source = format!("fn main() {{ std::hint::black_box({words:?}); }}");
            let program = compiled(place.path(), &source);
            assert_eq!(CannotPreload::foreseen(&program), expected, "{words}");
        }
        for program in ["/bin/sh", "/nowhere", "/etc/passwd"] {
            assert_eq!(
                CannotPreload::foreseen(Path::new(program)),
                None,
                "{program}"
            );
        }
        // The same program, as one of musl would be: its loader's name, and nothing else, is another one.
        let shell = fs::read("/bin/sh").unwrap();
        let name = b"/ld-linux";
        let Some(at) = shell.windows(name.len()).position(|window| window == name) else {
            println!("skipped: musl: /bin/sh here has another loader");
            return;
        };
        let mut musl = shell;
        musl[at..at + name.len()].copy_from_slice(b"/ld-musl-");
        let program = place.path().join("musl");
        fs::write(&program, musl).unwrap();
        assert_eq!(
            CannotPreload::foreseen(&program),
            Some(CannotPreload::Musl),
            "it would never end"
        );
    }

    #[test]
    fn why_it_was_not_taken_is_known() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(
            CannotPreload::for_program(&own),
            CannotPreload::NotKnown,
            "this one would take it"
        );
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("program");
        let of = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            CannotPreload::for_program(&file)
        };
        assert_eq!(
            of(b"\x7fELF\x01\x01\x01 and so on until twenty"),
            CannotPreload::OtherWidth
        );
        assert_eq!(
            of(b"\x7fELF\x02\x01\x01"),
            CannotPreload::NotKnown,
            "cut off"
        );
        assert_eq!(of(b"#!/bin/sh\n# a script\n"), CannotPreload::NotKnown);
        assert_eq!(
            CannotPreload::for_program(Path::new("/nowhere")),
            CannotPreload::NotKnown
        );
    }
}
