//! Any bytes as a bundle: an error or a bundle, never a panic, a hang or an allocation that the file does not pay for.
#![no_main]

use std::io::Write;

use kubexm_archive::{Bundle, check_references, verify};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    file.write_all(bytes).unwrap();
    if let Ok(bundle) = Bundle::open(file.path()) {
        let _ = verify(&bundle, 2, &|_, _| {});
        let _ = check_references(&bundle);
    }
});
