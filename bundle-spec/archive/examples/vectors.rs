//! Writes the test vectors of the format: `cargo run -p kubexm-archive --example vectors -- bundle-spec/vectors`.
//! `signed.tar.zst` is written when there is one already, whose signatures it takes (`bundle-spec/vectors/make` signs anew).
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool of developers, which ends at the first fault")]

#[path = "../tests/support/vectors.rs"]
mod vectors;

use std::path::PathBuf;

fn main() {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "bundle-spec/vectors".into()));
    let signed = kubexm_archive::Bundle::open(&folder.join("signed.tar.zst"));
    let signatures = signed.map(|bundle| bundle.signatures().to_vec()).unwrap_or_default();
    for file in vectors::make(&folder, &signatures) {
        println!("{}", file.display());
    }
}
