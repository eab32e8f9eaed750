//! What becomes of a command line that is not understood.

use std::ffi::{OsStr, OsString};

use kubexm_spec::ExitCode;

use crate::{Display, Failure, Mode, finish};

/// Shows what clap found wrong with a command line, or the help or version that it asks for, and gives the code for the shell. Where
/// `--json` is among the arguments, an error is an event like every other end of a verb.
pub fn end_of_arguments(error: &clap::Error, arguments: &[OsString]) -> std::process::ExitCode {
    if !error.use_stderr() || !asks_for_json(arguments) {
        // A closed pipe has no reader for another error.
        let _ = error.print();
        return match error.use_stderr() {
            true => std::process::ExitCode::from(ExitCode::Usage.code()),
            false => std::process::ExitCode::SUCCESS,
        };
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    finish(&Display::new(Mode::Json), Err(Failure::new(ExitCode::Usage, text)))
}

fn asks_for_json(arguments: &[OsString]) -> bool {
    let words = arguments.iter().skip(1).map(OsString::as_os_str);
    words.take_while(|word| *word != OsStr::new("--")).any(|word| word == OsStr::new("--json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_by_the_option_and_not_by_what_follows_two_dashes() {
        let asked = |words: &[&str]| asks_for_json(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(asked(&["program", "verb", "--json", "--typo"]) && asked(&["program", "--typo", "--json"]));
        assert!(!asked(&["--json", "verb"]) && !asked(&["program", "verb", "--", "--json"]));
    }
}
