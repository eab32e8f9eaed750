//! Any bytes as manifest.json and layout.json (split at the first zero byte) of a bundle whose checksums all hold, so that
//! the fuzzer gets behind them.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

use std::io::Write;

use kubexm_archive::{Bundle, check_references, verify};
use support::forge::Forged;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut forged = Forged::honest(&support::small());
    let mut documents = bytes.splitn(2, |byte| *byte == 0);
    forged.manifest_json = documents.next().unwrap_or_default().to_vec();
    if let Some(layout) = documents.next() {
        forged.layout_json = layout.to_vec();
    }
    let mut file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    file.write_all(&forged.bytes()).unwrap();
    if let Ok(bundle) = Bundle::open(file.path()) {
        let _ = verify(&bundle, 2, &|_, _| {});
        let _ = check_references(&bundle);
    }
});
