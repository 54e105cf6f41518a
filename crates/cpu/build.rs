//! Compiles the library that `cpu sharing` preloads: one file, without Rust's standard library, as this very compiler
//! makes it. It is embedded in the crate, so that there is nothing to be installed beside the program.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "preload/padded.rs";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let variable = |name: &str| env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let library = PathBuf::from(variable("OUT_DIR")).join("padded.so");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args([
            "--edition=2024",
            "--crate-type=cdylib",
            "--crate-name=padded",
        ])
        .args([
            "-Copt-level=2",
            "-Cpanic=abort",
            "-Cstrip=symbols",
            "-Clink-arg=-nostartfiles",
        ])
        .arg("--target")
        .arg(variable("TARGET"))
        .arg("-o")
        .arg(&library)
        .arg(SOURCE);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = std::ffi::OsString::from("-Clinker=");
        option.push(linker);
        rustc.arg(option);
    }
    let status = rustc
        .status()
        .expect("the compiler that builds this can be run");
    assert!(status.success(), "{SOURCE} does not compile: {status}");
}
