//! What is wrong with help texts, for the tests of both programs.

use clap::Command;

/// Lines of the help of a program and of all its verbs that are wider than `width` columns when it is shown in as many, and
/// paragraphs that are wrapped in the source and again when they are shown.
pub fn help_faults(command: &Command, width: usize) -> Vec<String> {
    let mut faults = Vec::new();
    each(command, &mut |verb, name| {
        // Lines that stay as they are, examples and tables, have to fit by themselves.
        let about = verb.get_long_about().or_else(|| verb.get_about()).map(ToString::to_string).unwrap_or_default();
        let texts = [about, verb.get_after_help().map(ToString::to_string).unwrap_or_default()];
        for text in &texts {
            let wide = text.lines().filter(|line| line.starts_with(' ') && line.chars().count() > width);
            faults.extend(wide.map(|line| format!("{name}: wider than {width} columns: {line}")));
            let twice = text.lines().zip(text.lines().skip(1)).filter(|(line, next)| is_prose(line) && is_prose(next));
            faults.extend(twice.map(|(line, _)| format!("{name}: wrapped in the source: {line}")));
        }
        for argument in verb.get_arguments() {
            let help = argument.get_long_help().or_else(|| argument.get_help()).map(ToString::to_string);
            let help = help.unwrap_or_default();
            let twice = help.lines().zip(help.lines().skip(1)).filter(|(line, next)| is_prose(line) && is_prose(next));
            faults.extend(
                twice.map(|(line, _)| format!("{name} --{}: wrapped in the source: {line}", argument.get_id())),
            );
        }
        let mut shown = verb.clone().term_width(width);
        for help in [shown.render_help(), shown.render_long_help()] {
            let help = help.to_string();
            let wide = help.lines().filter(|line| line.chars().count() > width);
            faults.extend(wide.map(|line| format!("{name}: shown wider than {width} columns: {line}")));
        }
    });
    faults.sort();
    faults.dedup();
    faults
}

/// Verbs that have no verbs below them and no `--json`, by their whole names (`program zone show`).
pub fn without_json(command: &Command) -> Vec<String> {
    let mut names = Vec::new();
    each(command, &mut |verb, name| {
        let has_json = verb.get_arguments().any(|argument| argument.get_long() == Some("json"));
        if !verb.has_subcommands() && !has_json {
            names.push(name.to_owned());
        }
    });
    names
}

fn each(command: &Command, visit: &mut dyn FnMut(&Command, &str)) {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    below(&command, visit);
}

fn below(command: &Command, visit: &mut dyn FnMut(&Command, &str)) {
    visit(command, command.get_bin_name().unwrap_or_else(|| command.get_name()));
    command.get_subcommands().for_each(|verb| below(verb, visit));
}

fn is_prose(line: &str) -> bool {
    !line.is_empty() && !line.starts_with(' ')
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn wide_examples_and_paragraphs_that_are_wrapped_in_the_source_are_found() {
        let wide = format!("Short\n\nExamples:\n  {}", "x".repeat(90));
        let verbs = [
            Command::new("wide").long_about(wide),
            Command::new("twice").long_about("One line\nand another"),
            Command::new("good").long_about("One paragraph\n\nExamples:\n  x").arg(Arg::new("json").long("json")),
        ];
        let program = Command::new("program").subcommands(verbs);
        let faults = help_faults(&program, 80);
        assert!(faults.iter().any(|fault| fault.starts_with("program wide: wider than 80")), "{faults:#?}");
        assert!(faults.iter().any(|fault| fault == "program twice: wrapped in the source: One line"), "{faults:#?}");
        assert!(!faults.iter().any(|fault| fault.contains("good")), "{faults:#?}");
        assert_eq!(without_json(&program), ["program wide", "program twice"]);
    }
}
