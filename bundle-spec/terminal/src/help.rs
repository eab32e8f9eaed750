//! Help text that both programs share.

use clap::Command;
use kubexm_spec::ExitCode;

/// The table of exit codes, for `--help`.
pub fn exit_code_table() -> String {
    let mut text = String::from("Exit codes:\n");
    for code in ExitCode::ALL {
        text.push_str(&format!("  {:>2}  {}\n", code.code(), code.meaning()));
    }
    text
}

/// The command with the paragraphs of its help and of its verbs' as one line each, so that they are wrapped once, for the
/// terminal at hand, and not a second time.
pub fn reflowed(command: Command) -> Command {
    let verbs: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let command = match command.get_long_about().map(ToString::to_string) {
        Some(text) => command.long_about(paragraphs(&text)),
        None => command,
    };
    verbs.iter().fold(command, |command, verb| command.mut_subcommand(verb, reflowed))
}

/// Joins the lines of paragraphs. What is indented (examples, lists) stays as it is.
fn paragraphs(text: &str) -> String {
    let mut joined = String::new();
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut before = "";
    for line in text.lines() {
        match is_prose(before) && is_prose(line) {
            true => joined.push(' '),
            false if joined.is_empty() => {}
            false => joined.push('\n'),
        }
        joined.push_str(line);
        before = line;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_paragraph_are_one_and_examples_stay_as_they_are() {
        let text =
            "Does it\n\nOne line\nand another:\n  a  first\n  b  second\nmore\n\nExamples:\n  x -f\n      y\n  z";
        let wanted =
            "Does it\n\nOne line and another:\n  a  first\n  b  second\nmore\n\nExamples:\n  x -f\n      y\n  z";
        assert_eq!(paragraphs(text), wanted);
        let verb = Command::new("verb").long_about("a\nb");
        let command = reflowed(Command::new("program").subcommand(verb));
        let about = command.find_subcommand("verb").and_then(Command::get_long_about).map(ToString::to_string);
        assert_eq!(about.as_deref(), Some("a b"));
    }
}
