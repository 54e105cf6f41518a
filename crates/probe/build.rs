//! Compiles `src/bpf/*.bpf.c` with clang and makes their Rust skeletons, and the list of the types in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::btf::types::DataSec;
use libbpf_rs::btf::{Btf, BtfType};

const OBJECTS: [&str; 5] = ["ledger", "census", "empty", "trial", "shield"];
/// The programs of "ledger" that read kernel memory by a helper.
const BY_HELPER: &str = "ledger_by_helper";
/// Its programs without stacks and accesses.
const COUNTS_ONLY: &str = "ledger_counts_only";

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
        let define = format!("-D__TARGET_ARCH_{arch}");
        compile(name, name, &out, &[&define]);
    }
    let define = format!("-D__TARGET_ARCH_{arch}");
    for (name, form) in [
        (BY_HELPER, "-DREADS_BY_HELPER"),
        (COUNTS_ONLY, "-DCOUNTS_ONLY"),
    ] {
        compile("ledger", name, &out, &[&define, form]);
        assert_eq!(
            data_of(&out, "ledger"),
            data_of(&out, name),
            "one skeleton is for all forms of the object"
        );
    }
    let skeleton = out.join("ledger.skel.rs");
    let text = fs::read_to_string(&skeleton).expect("the skeleton was written");
    fs::write(&skeleton, with_data(text)).expect("cargo's OUT_DIR can be written");
    fs::write(out.join("wanted_types.rs"), format!("{:?}", types_in(&out)))
        .expect("cargo's OUT_DIR can be written");
}

/// Compiles src/bpf/SOURCE.bpf.c, and makes the skeleton of the object NAME, which refers to its file.
fn compile(source: &str, name: &str, out: &Path, defines: &[&str]) {
    let always = [
        "-Wall",
        "-Werror",
        "-Wno-unused-function",
        "-Wno-missing-declarations",
        "-mcpu=v3",
    ];
    let built = SkeletonBuilder::new()
        .source(format!("src/bpf/{source}.bpf.c"))
        .clang_args(defines.iter().copied().chain(always))
        .obj(out.join(format!("{name}.bpf.o")))
        .reference_obj(true)
        .build_and_generate(out.join(format!("{name}.skel.rs")));
    if let Err(error) = built {
        panic!(
            "compiling src/bpf/{source}.bpf.c (clang is needed: apt-get install clang): {error:#}"
        );
    }
}

/// The skeleton with the object in a field of its builder, instead of in a constant.
fn with_data(mut text: String) -> String {
    for (from, to) in [
        (
            "fn build_skel_config()",
            "fn build_skel_config(data: &'static [u8])",
        ),
        (
            "ObjectSkeletonConfigBuilder::new(&DATA)",
            "ObjectSkeletonConfigBuilder::new(data)",
        ),
        ("= build_skel_config()?", "= build_skel_config(self.data)?"),
        (
            "pub obj_builder: libbpf_rs::ObjectBuilder,",
            "pub obj_builder: libbpf_rs::ObjectBuilder, pub data: &'static [u8],",
        ),
        ("#[unsafe(link_section = \".bpf.objs\")]", "#[cfg(any())]"),
    ] {
        assert_eq!(
            text.matches(from).count(),
            1,
            "libbpf-cargo writes `{from}` once"
        );
        text = text.replace(from, to);
    }
    text
}

/// Variables in the data sections of an object: name, offset and size.
fn data_of(out: &Path, name: &str) -> Vec<(String, u32, usize)> {
    let object = out.join(format!("{name}.bpf.o"));
    let btf = Btf::from_path(&object).expect("clang wrote an object with types (-g)");
    let mut variables = Vec::new();
    for section in btf.type_by_kind::<DataSec<'_>>() {
        let of = section.name().unwrap_or_default().to_string_lossy();
        if ![".bss", ".data", ".rodata"].contains(&&*of) {
            continue;
        }
        for variable in section.iter() {
            let name = btf.type_by_id::<BtfType<'_>>(variable.ty);
            let name =
                name.and_then(|found| found.name().map(|name| name.to_string_lossy().into_owned()));
            variables.push((
                format!("{of} {}", name.unwrap_or_default()),
                variable.offset,
                variable.size,
            ));
        }
    }
    variables
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
