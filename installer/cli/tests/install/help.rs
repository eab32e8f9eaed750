//! Help that teaches.

use kubexm_spec::ExitCode;
use predicates::prelude::*;
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

#[test]
fn the_usage_of_a_verb_names_what_it_cannot_do_without() {
    let site = Site::new();
    let cluster = "<--file <FILE>|--bundle <FILE>>";
    let needed: [(&[&str], &[&str]); 14] = [
        (&["reset"], &[cluster]),
        (&["delete-node"], &["-f <FILE> <HOST>...", "--bundle <FILE> <HOST>..."]),
        (&["adopt"], &[cluster]),
        (&["certs", "check"], &[cluster]),
        (&["certs", "renew"], &[cluster]),
        (&["registry", "list"], &[cluster]),
        (&["registry", "prune"], &[cluster]),
        (&["addons", "list"], &[cluster]),
        (&["backup"], &["--to <PLACE> -f <FILE>", "--to <PLACE> --bundle <FILE>"]),
        (&["restore"], &[cluster, "<BACKUP>"]),
        (&["create"], &["--bundle <FILE>"]),
        (&["add-node"], &["--bundle <FILE>"]),
        (&["run"], &["--bundle <FILE>", "<PLAN>"]),
        (&["seed"], &["--bundle <FILE>", "--to <"]),
    ];
    for (verb, words) in needed {
        let help = site.install(&[verb, &["--help"]].concat()).assert().success().get_output().stdout.clone();
        let help = String::from_utf8(help).unwrap();
        let usage: String =
            help.lines().skip_while(|line| !line.starts_with("Usage:")).take_while(|line| !line.is_empty()).collect();
        for word in words {
            assert!(usage.contains(word), "{verb:?} lacks {word}: {usage}");
        }
        let refused = site.install(verb).assert().code(2);
        refused.stderr(contains("required arguments were not provided").and(contains("--bundle <FILE>")));
    }
    site.install(&["backup", "verify", "/nowhere"]).assert().code(57);
    site.install(&["resume", "--help"]).assert().success().stdout(contains("[default: the one"));
}
