#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kubexm_fuzz::run("known_hosts", bytes));
