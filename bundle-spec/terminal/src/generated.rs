//! What is generated from the command line's definition: completions of shells, and man pages.

use std::io;

use clap::Command;
use clap_mangen::Man;
use roff::{Inline, Roff, line_break, roman};

/// A shell that completes commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// The script that completes a program in a shell: what its help lists.
pub fn completions(mut command: Command, shell: Shell) -> Vec<u8> {
    let hidden = hidden(&command);
    let name = command.get_name().to_owned();
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, &name, &mut script);
    if shell != clap_complete::Shell::Bash {
        return script;
    }
    // clap_complete 4.6.11 writes a dash in the program's name in two ways, and the script would complete nothing below verbs.
    let (labels, assigned) = (name.replace('-', "__subcmd__"), name.replace('-', "__"));
    let script = String::from_utf8_lossy(&script).replace(&labels, &assigned);
    let lines: Vec<String> = script.lines().map(|line| without(&hidden, line)).collect();
    format!("{}\n", lines.join("\n")).into_bytes()
}

/// Names of verbs that the help does not list, of all levels.
fn hidden(command: &Command) -> Vec<String> {
    let own = command.get_subcommands().filter(|verb| verb.is_hide_set()).map(|verb| verb.get_name().to_owned());
    own.chain(command.get_subcommands().flat_map(hidden)).collect()
}

/// A line of the script for bash, without hidden verbs in its list of words: clap_complete lists them.
fn without(hidden: &[String], line: &str) -> String {
    let Some((start, words)) = line.split_once("opts=\"") else { return line.to_owned() };
    let words = words.trim_end_matches('"').split(' ').filter(|word| !hidden.iter().any(|name| name == word));
    format!("{start}opts=\"{}\"", words.collect::<Vec<_>>().join(" "))
}

/// The man pages of a program and of each of its verbs that its help lists, by file name (`kubexm-bundle-build.1`).
///
/// # Errors
/// None that the machine causes: the pages are written to memory.
pub fn man_pages(command: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    // `PROGRAM help VERB` would be a page for each verb again.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(&command, &mut pages)?;
    Ok(pages)
}

fn add(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let man = Man::new(command.clone());
    pages.push((man.get_filename(), page(&man, command)?));
    command.get_subcommands().filter(|verb| !verb.is_hide_set()).try_for_each(|verb| add(verb, pages))
}

/// As clap_mangen has it, but for texts with examples and tables: it would fill their lines like prose.
fn page(man: &Man, command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    section("DESCRIPTION", &about).to_writer(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|verb| !verb.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(codes) = command.get_after_help() {
        section("EXIT STATUS", &codes.to_string()).to_writer(&mut page)?;
    }
    Ok(page)
}

/// Paragraphs, and indented lines as they are.
fn section(title: &str, text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        if !line.starts_with(' ') {
            roff.control("PP", []).text([roman(line)]);
            continue;
        }
        let mut block: Vec<Inline> = vec![roman(line.trim_start())];
        let indent = line.len() - line.trim_start().len();
        while let Some(next) = lines.next_if(|next| next.starts_with(' ')) {
            block.extend([line_break(), roman(next.get(indent..).unwrap_or_else(|| next.trim_start()))]);
        }
        roff.control("RS", ["4"]).control("nf", []).text(block).control("fi", []).control("RE", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn program() -> Command {
        let hidden = Command::new("agent").hide(true);
        let verb = Command::new("pack").about("Pack it").long_about("Pack it\n\nExamples:\n  program pack a\n    .b\n");
        Command::new("program").about("A program").arg(Arg::new("out").long("out")).subcommand(verb).subcommand(hidden)
    }

    #[test]
    fn every_verb_that_the_help_lists_has_a_page_whose_examples_keep_their_lines() {
        let pages = man_pages(program()).unwrap_or_default();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["program.1", "program-pack.1"]);
        let text = String::from_utf8_lossy(&pages[1].1).into_owned();
        assert!(text.contains(".nf\nprogram pack a\n"), "{text}");
        assert!(text.contains(".fi\n"), "{text}");
    }

    #[test]
    fn each_shell_gets_a_script_that_knows_the_verbs() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8_lossy(&completions(program(), shell)).into_owned();
            assert!(script.contains("pack") && script.contains("out"), "{shell:?}: {script}");
        }
    }
}
