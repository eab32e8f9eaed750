//! Programs run as the real system runs them: clean environment, no input, no survivors.

#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::time::{Duration, Instant};

use kubexm_ops::real::RealSystem;
use kubexm_ops::system::{Program, System};

fn shell(text: &str) -> Program {
    Program::new("sh").args(["-c", text])
}

#[test]
fn a_program_sees_our_environment_and_not_the_operators() {
    let output = RealSystem.run(&shell("env; test -t 0 || echo no terminal; cat")).expect("it runs");
    let text = output.stdout();
    assert!(text.contains("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"), "{text}");
    assert!(text.contains("DEBIAN_FRONTEND=noninteractive") && text.contains("NEEDRESTART_SUSPEND=1"), "{text}");
    // Cargo sets these for every test; a proxy would come through the same hole.
    assert!(!text.contains("CARGO"), "{text}");
    assert!(text.ends_with("no terminal\n"), "{text}");
}

#[test]
fn an_exit_code_and_a_signal_are_distinguished_from_success() {
    assert_eq!(RealSystem.run(&shell("exit 3")).expect("it runs").code, 3);
    assert_eq!(RealSystem.run(&shell("kill -9 $$")).expect("it runs").code, 137);
}

#[test]
fn input_and_much_output_do_not_block_each_other() {
    let input = vec![b'x'; 4 << 20];
    let output = RealSystem.run(&Program::new("cat").stdin(input.clone())).expect("it runs");
    assert!(output.stdout == input);
}

#[test]
fn an_output_that_is_too_long_is_an_error_that_names_the_program_but_of_a_log() {
    let long = Program::new("head").args(["-c", "67108865", "/dev/zero"]);
    let text = RealSystem.run(&long).expect_err("an error").full();
    assert!(text.contains("`head -c 67108865 /dev/zero` printed more than 64 MiB"), "{text}");
    let cut = RealSystem.run(&long.may_be_cut_off()).expect("it runs");
    assert_eq!((cut.code, cut.stdout.len()), (0, 64 << 20));
}

#[test]
fn a_program_that_hangs_is_killed_with_what_it_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid = folder.path().join("pid");
    let hanging = format!("sleep 300 & echo $! > {}; sleep 300", pid.display());
    // More time where a busy machine had not come to start it.
    for seconds in [1, 8, 64] {
        let text = RealSystem.run(&shell(&hanging).within(seconds)).expect_err("an error").full();
        assert!(text.contains(&format!("did not end within {seconds} s")), "{text}");
        if std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')) {
            break;
        }
    }
    let pid = std::fs::read_to_string(pid).expect("a pid");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        // Gone, or not collected yet by whoever inherits it.
        if state.is_empty() || state.contains(") Z ") {
            break;
        }
        assert!(Instant::now() < deadline, "it lives on: {state}");
        std::thread::yield_now();
    }
}

#[test]
fn a_program_that_is_not_there_is_named_with_the_places_looked_at() {
    let text = RealSystem.run(&Program::new("no-such-program")).expect_err("an error").full();
    assert!(text.contains("`no-such-program` is not on this host") && text.contains("/usr/local/bin"), "{text}");
}
