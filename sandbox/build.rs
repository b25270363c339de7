//! How does the init of a warm box come into the library?
//!
//! A box shows nothing of the host that the init could be linked against, so it is linked statically, and it is part of this
//! library, so that there is no second file to install. Cargo cannot build one target of a package with other flags than the
//! rest; so the compiler is called here. It needs no crate, only the static C library that comes with the compiler's headers
//! (Debian: libc6-dev).

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=init");
    let var = |name: &str| env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let out = PathBuf::from(var("OUT_DIR")).join("box-init");
    let mut rustc = Command::new(var("RUSTC"));
    rustc.args(["--edition", "2024", "--crate-name", "box_init", "--crate-type", "bin", "init/main.rs"]);
    rustc.arg("--target").arg(var("TARGET")).arg("-o").arg(&out);
    for option in ["target-feature=+crt-static", "opt-level=s", "panic=abort", "codegen-units=1", "strip=symbols"] {
        rustc.args(["-C", option]);
    }
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = std::ffi::OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
    let status = rustc.status().expect("the compiler starts");
    let remedy = "the box's init could not be linked statically: install the static C library (Debian: libc6-dev, Fedora: glibc-static)";
    assert!(status.success(), "{remedy}");
}
