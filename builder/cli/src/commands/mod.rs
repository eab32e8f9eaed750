//! One file per verb: arguments and `run`; the doc comment of the arguments is the help.

mod build;
mod cache;
mod cat;
mod catalogue;
mod chart_images;
mod clock;
mod config;
mod copy;
mod diff;
mod dry_run;
mod explain;
mod extract;
mod fetching;
mod hand_over;
mod import;
mod init;
mod inspect;
mod join;
mod keygen;
mod kinds;
mod list;
mod lock;
mod lockfile;
mod merge;
mod network;
mod packages;
mod provenance;
mod pull;
mod push;
mod sbom;
mod schema;
mod sign;
mod signing_key;
mod size;
mod trust;
mod update;
mod verify;
mod what;
mod written;
mod zone;

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use kubexm_builder::session::{self, Session, SystemClock};
use kubexm_spec::ExitCode;
use kubexm_terminal::{Display, Failure, Mode};

use crate::environment::{credentials, environment};

/// Builds, verifies and shows the one file that carries a Kubernetes cluster into a network without internet.
#[derive(Debug, Parser)]
#[command(name = "kubexm-bundle", version, after_help = kubexm_terminal::exit_code_table())]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
    #[command(flatten)]
    pub network: network::Network,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    Init(init::Args),
    Config(config::Args),
    Schema(schema::Args),
    Build(Box<build::Args>),
    Lock(lock::Args),
    Update(update::Args),
    Explain(explain::Args),
    Zone(zone::Args),
    Import(import::Args),
    Packages(packages::Args),
    Cache(cache::Args),
    Catalogue(catalogue::Args),
    Verify(verify::Args),
    Keygen(keygen::Args),
    Sign(sign::Args),
    Inspect(inspect::Args),
    List(list::Args),
    Diff(diff::Args),
    Extract(extract::Args),
    Cat(cat::Args),
    Copy(copy::Args),
    HandOver(hand_over::Args),
    Sbom(sbom::Args),
    Provenance(provenance::Args),
    Join(join::Args),
    Merge(merge::Args),
    Push(push::Args),
    Pull(pull::Args),
}

pub use network::without_secrets;

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
    /// From the command line; help and errors of it end the program, as clap does.
    pub fn read(arguments: Vec<OsString>) -> Self {
        let matches = command().get_matches_from(arguments);
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// The command line, with options of addresses in the help of those verbs only that have to do with them.
fn command() -> clap::Command {
    let command = kubexm_terminal::reflowed(Cli::command());
    let is_network = |argument: &&clap::Arg| ["plain_http", "ca_file"].contains(&argument.get_id().as_str());
    // A verb that has its own gets none of the program's, which are hidden.
    let shown: Vec<clap::Arg> =
        command.get_arguments().filter(is_network).map(|argument| argument.clone().hide(false)).collect();
    OF_BUNDLES.into_iter().fold(command, |command, verb| command.mut_subcommand(verb, |verb| verb.args(shown.clone())))
}

impl Verb {
    /// Whether a machine reads.
    pub fn json(&self) -> bool {
        match self {
            Self::Init(_) | Self::Schema(_) | Self::Cat(_) | Self::Sbom(_) | Self::Provenance(_) => false,
            Self::Config(args) => args.json,
            Self::Build(args) => args.json,
            Self::Lock(args) => args.json,
            Self::Update(args) => args.json,
            Self::Explain(args) => args.json,
            Self::Zone(args) => args.json(),
            Self::Import(args) => args.json,
            Self::Packages(args) => args.json(),
            Self::Cache(args) => args.json(),
            Self::Catalogue(args) => args.json(),
            Self::Verify(args) => args.json,
            Self::Keygen(args) => args.json,
            Self::Sign(args) => args.json,
            Self::Inspect(args) => args.json,
            Self::List(args) => args.json,
            Self::Diff(args) => args.json,
            Self::Extract(args) => args.json,
            Self::Copy(args) => args.json,
            Self::HandOver(args) => args.json,
            Self::Join(args) => args.json,
            Self::Merge(args) => args.json,
            Self::Push(args) => args.json,
            Self::Pull(args) => args.json,
        }
    }
}

/// Runs the verb. `whole` has the addresses of the arguments as they were written.
pub fn run(cli: Cli, whole: HashMap<String, String>, display: &Arc<Display>) -> Result<(), Failure> {
    if cli.network.is_said() && matches!(cli.verb, Verb::Init(_) | Verb::Config(_) | Verb::Schema(_)) {
        return Err(Failure::new(ExitCode::Usage, "--plain-http and --ca-file are about a bundle at an address"));
    }
    let network::Network { plain_http, ca_file } = cli.network;
    let network = session::Network { plain_http, ca_file, whole, quiet: display.mode() == Mode::Json };
    let shown = Arc::clone(display);
    let events = Arc::new(move |event| shown.emit(event));
    let session = Session::new(environment(), network, Arc::new(credentials()), Arc::new(SystemClock), events);
    let result = dispatch(cli.verb, &session, display);
    network::explained(result, &session)
}

fn dispatch(verb: Verb, session: &Session, display: &Display) -> Result<(), Failure> {
    match verb {
        Verb::Init(args) => init::run(&args, display),
        Verb::Config(args) => config::run(&args, session, display),
        Verb::Schema(args) => schema::run(&args, display),
        Verb::Build(args) => build::run(*args, session, display),
        Verb::Lock(args) => lock::run(&args, session, display),
        Verb::Update(args) => update::run(&args, session, display),
        Verb::Explain(args) => explain::run(&args, session, display),
        Verb::Zone(args) => zone::run(&args, session, display),
        Verb::Import(args) => import::run(&args, display),
        Verb::Packages(args) => packages::run(&args, session, display),
        Verb::Cache(args) => cache::run(&args, session, display),
        Verb::Catalogue(args) => catalogue::run(&args, session, display),
        Verb::Verify(args) => verify::run(&args, session, display),
        Verb::Keygen(args) => keygen::run(&args, display),
        Verb::Sign(args) => sign::run(&args, session, display),
        Verb::Inspect(args) => inspect::run(&args, session, display),
        Verb::List(args) => list::run(&args, session, display),
        Verb::Diff(args) => diff::run(&args, session, display),
        Verb::Extract(args) => extract::run(&args, session, display),
        Verb::Cat(args) => cat::run(&args, session, display),
        Verb::Copy(args) => copy::run(&args, session, display),
        Verb::HandOver(args) => hand_over::run(&args, session, display),
        Verb::Sbom(args) => sbom::run(&args, session, display),
        Verb::Provenance(args) => provenance::run(&args, session, display),
        Verb::Join(args) => join::run(&args, session, display),
        Verb::Merge(args) => merge::run(&args, session, display),
        Verb::Push(args) => push::run(&args, session, display),
        Verb::Pull(args) => pull::run(&args, session, display),
    }
}
