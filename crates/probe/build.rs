//! Compiles `src/bpf/*.bpf.c` with clang and makes their Rust skeletons.

use std::path::PathBuf;
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;

const OBJECTS: [&str; 2] = ["ledger", "empty"];

fn main() {
    let source = PathBuf::from("src/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        other => panic!(
            "cachewise-probe reads system-call registers, and so far only those of x86_64, not of {other:?}: \
             src/bpf/arch.h is the place to add an architecture"
        ),
    };
    println!("cargo::rerun-if-changed={}", source.display());
    for entry in fs::read_dir(&source)
        .expect("src/bpf is part of the crate")
        .flatten()
    {
        println!("cargo::rerun-if-changed={}", entry.path().display());
    }
    for name in OBJECTS {
        let built = SkeletonBuilder::new()
            .source(source.join(format!("{name}.bpf.c")))
            .clang_args([
                &format!("-D__TARGET_ARCH_{arch}"),
                "-Wall",
                "-Werror",
                "-Wno-unused-function",
                "-Wno-missing-declarations",
                "-mcpu=v3",
            ])
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        if let Err(error) = built {
            panic!(
                "compiling src/bpf/{name}.bpf.c (clang is needed: apt-get install clang): {error:#}"
            );
        }
    }
}
