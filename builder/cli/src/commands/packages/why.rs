//! `kubexm-bundle packages why`.

use kubexm_builder::verbs::packages::why::why;
use kubexm_packages::solve::Root;
use kubexm_terminal::Failure;

use super::pool::{self, From};
use super::resolve::refused;
use crate::context::Context;

/// Explain why a package is needed for some roots: the chain from what was asked for, and all packages that need it
///
/// The package is a name; what follows it are the roots, as `packages resolve` takes them.
///
/// Examples:
///   kubexm-bundle packages why libwrap0 socat conntrack --os debian-12
///   kubexm-bundle packages why libssl3 chrony --os debian-12 --arch arm64 --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The package in question
    #[arg(value_name = "NAME")]
    name: String,
    /// Packages that were asked for
    #[arg(value_name = "PACKAGE", required = true, value_parser = pool::root)]
    roots: Vec<Root>,
    #[command(flatten)]
    from: From,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let (query, runtime) = (args.from.query(), context.runtime()?);
    let why = why(context.session, &query, &args.name, &args.roots, runtime.handle())?;
    context.answer(&why, |why| {
        why.notes.iter().for_each(|text| context.note(text.clone()));
        let Some(found) = &why.found else { return Vec::new() };
        let chain = found.chain.iter().map(|link| format!("{}  ({})", link.package, link.why));
        chain.chain(found.needed_by.iter().map(|need| format!("  {} needs {}", need.name, need.wants))).collect()
    })?;
    context.end(why.code(), || match &why.reasons {
        Some(reasons) => refused(reasons),
        None => format!("{} is none of the {} packages that are needed", args.name, why.count),
    })
}
