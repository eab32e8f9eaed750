//! `kubexm-bundle zone show`.

use std::path::PathBuf;

use kubexm_builder::session::Session;
use kubexm_manifests::Zone;
use kubexm_manifests::zone::Rule;
use kubexm_terminal::{Display, Failure, Mode};
use serde_json::json;

/// Show which zone holds, who named it, and its rules in the order in which they are tried
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

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let cluster = args.file.as_deref().map(|file| session.cluster(Some(file), None)).transpose()?;
    let choice = session.zone(args.zone.as_deref(), cluster.as_ref().map(|(_, cluster)| cluster))?;
    if display.mode() == Mode::Json {
        let document = json!({
            "schema": "kubexm.io/zone-show/v1", "zone": choice.zone.name, "namedBy": choice.by,
            "rules": choice.zone.rules, "known": Zone::builtin_names(), "warnings": choice.warnings, "notes": choice.notes,
        });
        display.answer(&document.to_string());
        return Ok(());
    }
    session.advise(&choice.warnings, &choice.notes);
    display.answer(&format!("zone {}, named by {}", choice.zone.name, choice.by));
    if choice.zone.rules.is_empty() {
        display.answer("no rules: every origin is asked itself");
    }
    for rule in &choice.zone.rules {
        display.answer(&line(rule));
    }
    Ok(())
}

fn line(Rule { matches, to, only, plain_http, ca_file, cert_file, key_file: _ }: &Rule) -> String {
    let last = if *only { "and nobody else" } else { "then the origin" };
    let plain = if *plain_http { ", over plain http" } else { "" };
    let ca = ca_file.as_ref().map(|file| format!(", trusting {}", file.display())).unwrap_or_default();
    let shown = |file: &std::path::PathBuf| format!(", showing it {}", file.display());
    let certificate = cert_file.as_ref().map(shown).unwrap_or_default();
    format!("{matches:32} {}, {last}{plain}{ca}{certificate}", to.join(", "))
}
