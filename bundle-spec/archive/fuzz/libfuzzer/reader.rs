//! Feeds the target that the environment variable `READER` names.
#![no_main]

use std::sync::LazyLock;

static READER: LazyLock<String> = LazyLock::new(|| std::env::var("READER").expect("READER names a target"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kubexm_fuzz::run(&READER, bytes));
