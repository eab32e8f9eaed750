//! `kubexm-bundle zone show`.

use std::path::PathBuf;

use kubexm_builder::verbs::zone_show::show;
use kubexm_manifests::zone::Rule;
use kubexm_terminal::Failure;

use crate::context::Context;

/// Show which zone is used, who named it, and its rules in the order in which they are tried
///
/// Examples:
///   kubexm-bundle zone show                       # what KMZONE says
///   kubexm-bundle zone show -f cluster.yaml
///   kubexm-bundle zone show --zone cn --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// cluster.yaml, whose spec.bundle.zone counts when nothing else names a zone
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Zone name (global, cn) or a zone file; comes before KMZONE and spec.bundle.zone
    #[arg(long, value_name = "NAME|FILE")]
    zone: Option<String>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    let shown = show(context.session, args.zone.as_deref(), args.file.as_deref())?;
    context.answer(&shown, |shown| {
        context.session.advise(&shown.warnings, &shown.notes);
        let none = "no rules: every origin is asked itself".to_owned();
        let mut lines = vec![format!("zone {}, named by {}", shown.zone, shown.named_by)];
        lines.extend(shown.rules.is_empty().then_some(none));
        lines.extend(shown.rules.iter().map(line));
        lines
    })
}

fn line(Rule { matches, to, only, plain_http, trust_unsigned, ca_file, cert_file, key_file: _ }: &Rule) -> String {
    let last = if *only { "and nobody else" } else { "then the origin" };
    let plain = if *plain_http { ", over plain http" } else { "" };
    let unsigned = if *trust_unsigned { ", unsigned metadata of packages trusted" } else { "" };
    let ca = ca_file.as_ref().map(|file| format!(", trusting {}", file.display())).unwrap_or_default();
    let shown = |file: &std::path::PathBuf| format!(", showing it {}", file.display());
    let certificate = cert_file.as_ref().map(shown).unwrap_or_default();
    format!("{matches:32} {}, {last}{plain}{unsigned}{ca}{certificate}", to.join(", "))
}
