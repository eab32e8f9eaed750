//! Every target's program: it feeds the reader of its own name.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kubexm_fuzz::run(env!("CARGO_BIN_NAME"), bytes));
