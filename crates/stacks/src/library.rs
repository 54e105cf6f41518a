//! Code that belongs to a language, not to the program: its C library, or the standard library of Rust or Go.

use std::path::{Path, PathBuf};

use cachewise_model::Frame;

/// The beginnings of file names of C and C++ libraries and of their loaders.
const LIBRARIES: [&str; 10] = [
    "libc.so",
    "libc-2",
    "libc.musl",
    "ld-linux",
    "ld-musl",
    "ld-2",
    "libpthread",
    "librt",
    "libstdc++",
    "libgcc_s",
];

/// Directories of source files of compilers' own libraries.
const SOURCES: [&str; 4] = [
    "/rustc/",
    "/lib/rustlib/src/",
    "/usr/include/c++/",
    "/usr/include/x86_64-linux-gnu/c++/",
];

/// Marks the calls of a stack that belong to a language's library.
pub(crate) fn mark(frames: &mut [Frame]) {
    let go = go_sources(frames);
    for frame in frames {
        frame.is_library = is_library(frame, go.as_deref());
    }
}

fn is_library(frame: &Frame, go: Option<&Path>) -> bool {
    let module = frame.module.as_deref().and_then(Path::file_name);
    if let Some(name) = module.and_then(|name| name.to_str())
        && LIBRARIES.iter().any(|library| name.starts_with(library))
    {
        return true;
    }
    let Some(file) = &frame.file else {
        return false;
    };
    let text = file.to_string_lossy();
    SOURCES.iter().any(|source| text.contains(source))
        || go.is_some_and(|go| match go.as_os_str().is_empty() {
            false => file.starts_with(go),
            // Built with -trimpath: files of the standard library have neither a root nor a domain.
            true => file.is_relative() && !has_domain(file),
        })
}

fn has_domain(file: &Path) -> bool {
    let first = file.components().next();
    first.is_some_and(|first| first.as_os_str().to_string_lossy().contains('.'))
}

/// The directory of Go's own sources, which packages that no program has show; empty: they have none.
fn go_sources(frames: &[Frame]) -> Option<PathBuf> {
    frames.iter().find_map(|frame| {
        let (package, _) = frame.function.as_deref()?.split_once('.')?;
        let directory = frame.file.as_deref()?.parent()?;
        let is_known = matches!(package, "runtime" | "syscall") && directory.ends_with(package);
        is_known.then(|| directory.parent())?.map(Path::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str, module: &str) -> Frame {
        Frame {
            function: Some(function.to_owned()),
            file: (!file.is_empty()).then(|| file.into()),
            module: Some(module.into()),
            ..Frame::default()
        }
    }

    fn marked(mut frames: Vec<Frame>) -> Vec<bool> {
        mark(&mut frames);
        frames.iter().map(|frame| frame.is_library).collect()
    }

    #[test]
    fn mark_finds_the_libraries_of_c_rust_and_go() {
        let c = vec![
            frame("pread", "", "/lib/x86_64-linux-gnu/libc.so.6"),
            frame("load", "/home/me/load.c", "/usr/bin/program"),
        ];
        assert_eq!(marked(c), [true, false], "C");
        let rust = vec![
            frame(
                "std::fs::File::read_at",
                "/rustc/abc/library/std/src/os/unix/fs.rs",
                "/bin/p",
            ),
            frame("load", "src/main.rs", "/bin/p"),
        ];
        assert_eq!(marked(rust), [true, false], "Rust");
        let go = vec![
            frame(
                "os.(*File).ReadAt",
                "/usr/local/go/src/os/file.go",
                "/bin/p",
            ),
            frame("tool/index.Load", "/home/me/tool/index/load.go", "/bin/p"),
            frame(
                "runtime.goexit",
                "/usr/local/go/src/runtime/asm_amd64.s",
                "/bin/p",
            ),
        ];
        assert_eq!(marked(go), [true, false, true], "Go");
        let cut = vec![
            frame("syscall.pread", "/usr/local/go/src/syscall/z.go", "/bin/p"),
            frame(
                "os.(*File).ReadAt",
                "/usr/local/go/src/os/file.go",
                "/bin/p",
            ),
            frame("main.load", "/home/me/load.go", "/bin/p"),
        ];
        assert_eq!(
            marked(cut),
            [true, true, false],
            "Go, without its outer calls"
        );
        let trimmed = vec![
            frame("os.(*File).ReadAt", "os/file.go", "/bin/p"),
            frame(
                "example.com/tool.Load",
                "example.com/tool/load.go",
                "/bin/p",
            ),
            frame("runtime.goexit", "runtime/asm_amd64.s", "/bin/p"),
        ];
        assert_eq!(
            marked(trimmed),
            [true, false, true],
            "Go, built with -trimpath"
        );
    }
}
