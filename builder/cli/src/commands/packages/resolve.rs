//! `kubexm-bundle packages resolve`.

use kubexm_builder::verbs::packages::resolve::{Outcome, Resolved, resolve};
use kubexm_packages::solve::Root;
use kubexm_terminal::{Failure, bytes};

use super::pool::{self, From};
use crate::context::Context;

/// List the packages that another operating system needs for some roots, where they come from, and why each is needed
///
/// The repositories of that system are read and their signatures checked by the vendor's keys;
/// nothing of this machine's own packages counts, and no tool of that system is needed. The answer
/// is self-sufficient: it holds for a host that has nothing; with --installed it is what one host
/// lacks, and nothing of that host is removed or made older. Exit code 45 when there is no such set;
/// what is in its way is reported.
///
/// Examples:
///   kubexm-bundle packages resolve --os debian-12 --arch arm64 socat conntrack
///   kubexm-bundle packages resolve --os ubuntu-22.04 --mirror http://mirror.lan socat
///   kubexm-bundle packages resolve --os rocky-9 --json ipset | jq -r '.packages[].url'
///   kubexm-bundle packages resolve --os rocky-9 --mirror /mnt/iso ipset    # the vendor's DVD
///   ssh node1 cat /var/lib/dpkg/status > node1.status
///   kubexm-bundle packages resolve --os debian-12 --installed node1.status socat
///   ssh node2 "$(kubexm-bundle packages query --os rocky-9)" > node2.txt
///   kubexm-bundle packages resolve --os rocky-9 --installed node2.txt socat
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Packages, or what packages provide; name=version for one version
    #[arg(value_name = "PACKAGE", required = true, value_parser = pool::root)]
    roots: Vec<Root>,
    #[command(flatten)]
    from: From,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let resolved = resolve(context.session, &args.from.query(), &args.roots, context.runtime()?.handle())?;
    context.answer(&resolved, |resolved| {
        resolved.notes.iter().for_each(|text| context.note(text.clone()));
        lines(resolved)
    })?;
    context.end(resolved.code(), || match &resolved.outcome {
        Outcome::Unsolvable { reasons } => refused(reasons),
        Outcome::Solved { .. } => String::new(),
    })
}

fn lines(resolved: &Resolved) -> Vec<String> {
    let Outcome::Solved { size, packages } = &resolved.outcome else { return Vec::new() };
    let all = packages.iter().map(|package| {
        let place = package.replaces.as_ref().map(|old| format!("; takes the place of {old}")).unwrap_or_default();
        format!("{} {} {}  ({}{place})", package.name, package.version, package.arch, package.why)
    });
    all.chain([format!("{} packages, {}", packages.len(), bytes(*size))]).collect()
}

/// Why there is no answer, a reason a line.
pub fn refused(reasons: &[String]) -> String {
    let lines: String = reasons.iter().map(|reason| format!("\n  {reason}")).collect();
    format!("no set of packages satisfies all dependencies:{lines}")
}
