//! Help that teaches.

use kubexm_spec::ExitCode;
use predicates::str::contains;

use crate::site::Site;

#[test]
fn every_verb_shows_how_it_is_called() {
    let site = Site::new();
    for verb in ["create", "preflight", "plan", "drift", "run", "resume", "status", "report", "seed", "agent", "depot"]
    {
        let help = site.install(&[verb, "--help"]).assert().success();
        help.stdout(contains("Examples:")).stdout(contains(format!("kubexm-install {verb}")));
    }
}

#[test]
fn the_help_lists_every_exit_code_and_hides_what_only_the_program_calls() {
    let site = Site::new();
    let output = site.install(&["--help"]).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    for code in ExitCode::ALL {
        // A line that is too wide continues in the next one.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("{} {}", code.code(), code.meaning())), "{code:?} is not in\n{text}");
    }
    assert!(text.contains("--bundle"), "create without a verb is not in the help:\n{text}");
    assert!(!text.lines().any(|line| line.trim_start().starts_with("agent ")), "{text}");
}

#[test]
fn without_a_bundle_a_verb_is_a_wrong_command_line() {
    let site = Site::new();
    for args in [&["-y"][..], &["create", "-y"], &["preflight"], &["resume"]] {
        site.install(args).assert().code(2).stderr(contains("--bundle"));
    }
}
