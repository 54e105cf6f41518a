//! Compiles `src/bpf/*.bpf.c` with clang and makes their Rust skeletons, and the list of the types in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::btf::{Btf, BtfType};

const OBJECTS: [&str; 4] = ["ledger", "census", "empty", "trial"];

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
        let object = out.join(format!("{name}.bpf.o"));
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
            .obj(&object)
            .reference_obj(true)
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        if let Err(error) = built {
            panic!(
                "compiling src/bpf/{name}.bpf.c (clang is needed: apt-get install clang): {error:#}"
            );
        }
    }
    fs::write(out.join("wanted_types.rs"), format!("{:?}", types_in(&out)))
        .expect("cargo's OUT_DIR can be written");
}

/// The names of the types that the programs may look for in the kernel. `___suffix` tells one kernel's
/// version of a type from another's.
fn types_in(out: &Path) -> Vec<String> {
    let mut names = BTreeSet::new();
    for name in OBJECTS {
        let object = out.join(format!("{name}.bpf.o"));
        let btf = Btf::from_path(&object).expect("clang wrote an object with types (-g)");
        let types = btf.type_by_kind::<BtfType<'_>>();
        for found in types.filter(|found| found.is_composite() || found.is_any_enum()) {
            let Some(name) = found.name().and_then(|name| name.to_str()) else {
                continue;
            };
            let name = name.split_once("___").map_or(name, |(name, _)| name);
            if !name.is_empty() {
                names.insert(name.to_owned());
            }
        }
    }
    names.into_iter().collect()
}
