//! One file per verb: arguments and `run`; the doc comment of the arguments is the help.

mod build;
mod build_summary;
mod cache;
mod cat;
mod catalogue;
mod completions;
mod config;
mod copy;
mod diff;
mod dry_run;
mod explain;
mod extract;
mod hand_over;
mod import;
mod init;
mod inspect;
mod join;
mod keygen;
mod list;
mod lock;
mod man_pages;
mod merge;
mod packages;
mod provenance;
mod pull;
mod push;
mod sbom;
mod schema;
mod sign;
mod update;
mod verbs;
mod verify;
mod zone;

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;

use clap::{Args as _, CommandFactory, FromArgMatches, Parser};
use kubexm_builder::session::{self, Session, SystemClock};
use kubexm_terminal::{Display, Failure, Mode};

use crate::args;
use crate::context::Context;
use crate::environment::{credentials, environment};
use verbs::verbs;

/// Builds, verifies and shows the one file that carries a Kubernetes cluster into a network without internet.
#[derive(Debug, Parser)]
#[command(name = "kubexm-bundle", version, after_help = kubexm_terminal::exit_code_table())]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
    /// Of the verbs that have to do with addresses.
    #[arg(skip)]
    pub network: args::Network,
}

verbs! {
    Init(init) text,
    Config(config),
    Schema(schema) text,
    Build(build),
    Lock(lock),
    Update(update),
    Explain(explain),
    Zone(zone) verbs,
    Import(import),
    Packages(packages) verbs,
    Cache(cache) verbs,
    Catalogue(catalogue) verbs,
    Verify(verify),
    Keygen(keygen),
    Sign(sign),
    Inspect(inspect),
    List(list),
    Diff(diff),
    Extract(extract),
    Cat(cat) text,
    Copy(copy),
    HandOver(hand_over),
    Sbom(sbom) text,
    Provenance(provenance) text,
    Join(join),
    Merge(merge),
    Push(push),
    Pull(pull),
    Completions(completions) text,
    ManPages(man_pages) text,
}

/// Verbs that read or write a bundle, which may be at an address.
const OF_BUNDLES: [&str; 15] = [
    "build",
    "cat",
    "copy",
    "diff",
    "extract",
    "hand-over",
    "inspect",
    "join",
    "list",
    "merge",
    "provenance",
    "pull",
    "push",
    "sbom",
    "verify",
];

impl Cli {
    /// From the command line. Help is an error, as clap has it.
    pub fn read(arguments: &[OsString]) -> Result<Self, clap::Error> {
        let matches = command().try_get_matches_from(arguments)?;
        let of_verb = matches.subcommand().filter(|(verb, _)| OF_BUNDLES.contains(verb));
        let network = of_verb.map(|(_, own)| args::Network::from_arg_matches(own)).transpose()?;
        let cli = Self::from_arg_matches(&matches)?;
        Ok(Self { network: network.unwrap_or_default(), ..cli })
    }
}

/// The command line, with options of addresses for those verbs only that have to do with them.
fn command() -> clap::Command {
    let with = |command: clap::Command, verb| command.mut_subcommand(verb, args::Network::augment_args);
    kubexm_terminal::reflowed(OF_BUNDLES.into_iter().fold(Cli::command(), with))
}

/// Runs the verb. `whole` has the addresses of the arguments as they were written.
pub fn run(cli: Cli, whole: HashMap<String, String>, display: &Arc<Display>) -> Result<(), Failure> {
    let args::Network { plain_http, ca_file } = cli.network;
    let network = session::Network { plain_http, ca_file, whole, quiet: display.mode() == Mode::Json };
    let shown = Arc::clone(display);
    let events = Arc::new(move |event| shown.emit(event));
    let session = Session::new(environment(), network, Arc::new(credentials()), Arc::new(SystemClock), events);
    let result = cli.verb.run(&Context { session: &session, display });
    args::explained(result, &session)
}

/// Images of a chart, by its last rendering, a line each.
fn chart_images(images: Option<&[String]>) -> Vec<String> {
    match images {
        Some([]) => vec!["none, as it was rendered last".to_owned()],
        Some(images) => images.to_vec(),
        None => vec!["learnt by rendering it, when it is locked or built".to_owned()],
    }
}

/// The end of a verb that wrote a bundle.
fn written(context: &Context<'_>, bundle: &kubexm_builder::verbs::outputs::WrittenBundle) -> Result<(), Failure> {
    let file = bundle.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    let volumes = match bundle.files.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more volumes", count - 1),
    };
    let (size, manifest) = (kubexm_terminal::bytes(bundle.size), bundle.manifest);
    context.done(format!("{file}{volumes} ({size}, manifest {manifest})"), bundle)
}

#[cfg(test)]
mod tests {
    use kubexm_terminal::{help_faults, without_json};

    /// Verbs whose output is a document or bytes by itself, or of which no program reads anything.
    const DOCUMENTS: [&str; 9] =
        ["cat", "catalogue show", "completions", "init", "man-pages", "packages query", "provenance", "sbom", "schema"];

    #[test]
    fn no_help_is_wrapped_twice_or_wider_than_80_columns() {
        let faults = help_faults(&super::command(), 80);
        assert!(faults.is_empty(), "{faults:#?}");
    }

    #[test]
    fn every_verb_has_json_unless_it_writes_a_document() {
        let mut missing = without_json(&super::command());
        missing.sort();
        assert_eq!(missing, DOCUMENTS.map(|verb| format!("kubexm-bundle {verb}")));
    }
}
