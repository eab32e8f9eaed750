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

/// Columns that every terminal has.
const WIDTH: usize = 80;

/// The command with the paragraphs of its help and of its verbs' as one line each, so that they are wrapped once, for the
/// terminal at hand, and not a second time. Examples and tables, which are not wrapped, are made to fit into 80 columns.
pub fn reflowed(command: Command) -> Command {
    let verbs: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let command = match command.get_long_about().map(ToString::to_string) {
        Some(text) => command.long_about(fitted(&paragraphs(&text))),
        None => command,
    };
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(fitted(&text)),
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

/// Indented lines that are too wide, broken where they still mean the same.
fn fitted(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match line.starts_with(' ') && line.chars().count() > WIDTH {
            true => lines.extend(broken(line)),
            false => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

/// A comment goes above what it is about; a cell of a table continues below itself; a command has ` \` before its line ends.
fn broken(line: &str) -> Vec<String> {
    let indent = " ".repeat(line.len() - line.trim_start().len());
    if let Some((code, comment)) = line.rsplit_once(" # ").filter(|(code, _)| !code.trim().is_empty()) {
        let mut lines = wrapped(&format!("# {comment}"), &indent, &format!("{indent}# "), "");
        let code = code.trim_end();
        match code.chars().count() > WIDTH {
            true => lines.extend(broken(code)),
            false => lines.push(code.to_owned()),
        }
        return lines;
    }
    match line.trim_start().split_once("  ") {
        Some((name, cell)) => {
            let column = line.len() - cell.trim_start().len();
            let head = format!("{indent}{name:width$}", width = column - indent.len());
            wrapped(cell.trim_start(), &head, &" ".repeat(column), "")
        }
        None if line.trim_start().starts_with("# ") => wrapped(line.trim_start(), &indent, &format!("{indent}# "), ""),
        None => wrapped(line.trim_start(), &indent, &format!("{indent}    "), " \\"),
    }
}

/// Words in lines that begin with `first` or `next`, and end with `end` where another follows. Quoted words stay together;
/// an option or a pipe rather begins a line than ends one.
fn wrapped(text: &str, first: &str, next: &str, end: &str) -> Vec<String> {
    let words = words(text);
    let (mut lines, mut from) = (Vec::new(), 0);
    while from < words.len() {
        let head = if from == 0 { first } else { next };
        let width = |to: usize| head.chars().count() + words[from..to].join(" ").chars().count();
        let limit = |to: usize| if to == words.len() { WIDTH } else { WIDTH - end.len() };
        let fits: Vec<usize> = (from + 1..=words.len()).take_while(|to| width(*to) <= limit(*to)).collect();
        let begins = |to: &&usize| words.get(**to).is_none_or(|word| word.starts_with(['-', '|']));
        let is_command = !end.is_empty();
        let to = match fits.last() {
            Some(last) if *last == words.len() || !is_command => *last,
            Some(last) => fits.iter().rev().find(begins).copied().filter(|to| *to > from + 1).unwrap_or(*last),
            // A single word that is too wide.
            None => from + 1,
        };
        let end = if to < words.len() { end } else { "" };
        lines.push(format!("{head}{}{end}", words[from..to].join(" ")));
        from = to;
    }
    lines
}

fn words(text: &str) -> Vec<&str> {
    let (mut words, mut start, mut quote) = (Vec::new(), 0, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, ' ') => {
                words.push(&text[start..at]);
                start = at + 1;
            }
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), close) if open == close => quote = None,
            _ => {}
        }
    }
    words.push(&text[start..]);
    words
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

    #[test]
    fn lines_that_are_too_wide_are_broken_where_they_mean_the_same() {
        let wide = "w".repeat(50);
        let text = format!(
            "prose stays {wide}{wide}\n  run -f {wide}    # what it is about\n  run {wide} --one two --three four | jq '.a b'\n  \
             34  first word {wide} and the rest of it"
        );
        let wanted = format!(
            "prose stays {wide}{wide}\n  # what it is about\n  run -f {wide}\n  run {wide} --one two \\\n      --three four | jq '.a b'\n  \
             34  first word {wide} and the rest\n      of it"
        );
        assert_eq!(fitted(&text), wanted);
        assert_eq!(words("a 'b c' \"d e\" f"), ["a", "'b c'", "\"d e\"", "f"]);
    }
}
