//! `kubexm-bundle catalogue refresh`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubexm_builder::refresh::NotAsked;
use kubexm_builder::session::Selection;
use kubexm_builder::verbs::refresh::{GITHUB_TOKEN, Refreshed, Request, github_token, refresh};
use kubexm_files::is_stdout;
use kubexm_signing::files::variable;
use kubexm_terminal::Failure;

use crate::args::Fetching;
use crate::context::Context;
use crate::environment::source_date;

/// Ask origins what is newer than this program's catalogue, and write it as an overlay
///
/// Newer patches and newer lines of programs, with the digests that upstream publishes beside them. Of charts the newest patch of
/// each line and newer lines are named; no overlay has them, since tags of their images may differ. What has no list to ask is
/// named, too. A patch of Kubernetes of which one program is missing is left out. No lock changes: `lock`, `build` and `update`
/// use the overlay where --catalogue names it. Where cluster.yaml names only a minor of Kubernetes, the newest patch in the
/// overlay is used then, and so is the newest patch of CRI-O; of everything else the default stays.
///
/// What cannot be looked up is reported at the end, with the exit code; what was found is written before. GitHub allows 60 requests
/// per hour without a token: that in GITHUB_TOKEN, or in the file of --github-token-file, is sent to https://api.github.com only.
///
/// Examples:
///   kubexm-bundle catalogue refresh                                 # what is newer, and what is past its end
///   kubexm-bundle catalogue refresh -o newer.yaml -f cluster.yaml   # and what this cluster would get by it
///   kubexm-bundle catalogue refresh --component kubelet --component containerd --zone inside.yaml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Only these programs and charts
    #[arg(long = "component", value_name = "NAME")]
    components: Vec<String>,
    /// Where the overlay is written
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also show what this cluster would get
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Overlays that are known already
    #[arg(long, value_name = "FILE")]
    catalogue: Vec<PathBuf>,
    /// Zone name (global, cn) or a zone file
    #[arg(long, value_name = "NAME|FILE")]
    zone: Option<String>,
    /// Replace a file that is there, also an earlier overlay
    #[arg(long)]
    force: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
    /// File with a token for GitHub's lists of releases [default: the variable GITHUB_TOKEN]
    #[arg(long, value_name = "FILE")]
    github_token_file: Option<PathBuf>,
    #[command(flatten)]
    fetching: Fetching,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    if let Some(target) = &args.output {
        context.check_output(target)?;
    }
    let selection = Selection {
        file: args.file.clone(),
        catalogue: args.catalogue.clone(),
        zone: args.zone.clone(),
        source_date: source_date()?,
        ..Selection::default()
    };
    let token = github_token(args.github_token_file.as_deref(), variable(GITHUB_TOKEN))?;
    let request = Request {
        token: token.as_ref(),
        components: &args.components,
        output: args.output.as_deref(),
        force: args.force,
        selection: &selection,
        fetching: &args.fetching.options(),
    };
    let stdout = |content: &[u8]| context.stdout(content);
    let refreshed = refresh(context.session, &request, &stdout, context.runtime()?.handle())?;
    context.answer(&refreshed, |found| {
        let (mut news, conclusion) = (news(found), conclusion(args, found));
        news.extend(not_asked(found));
        // On standard error where the overlay is the only thing on standard output.
        if args.output.as_deref().is_some_and(is_stdout) {
            let warnings: Vec<String> = found.notices.iter().map(ToString::to_string).collect();
            context.session.advise(&warnings, &[&*news, &found.notes, &conclusion].concat());
            return Vec::new();
        }
        let notes = found.notes.iter().map(|note| format!("note: {note}"));
        let notices = found.notices.iter().map(|notice| format!("warning: {notice}"));
        news.into_iter().chain(notes).chain(notices).chain(conclusion).collect()
    })?;
    let problem = |text: &String| format!("\n- {text}");
    context.end(refreshed.code, || {
        let failures: String = refreshed.failures.iter().map(problem).collect();
        format!("not everything was looked up:{failures}")
    })
}

/// What is newer.
fn news(found: &Refreshed) -> Vec<String> {
    let components = found.components.iter().map(|(name, versions)| {
        let versions: Vec<&str> = versions.keys().map(String::as_str).collect();
        format!("newer: {name} {}", versions.join(", "))
    });
    let charts = found.charts.iter().map(|(name, versions)| {
        format!(
            "newer chart: {name} {} (not in the overlay: it cannot have charts, since tags of their images may differ)",
            versions.join(", ")
        )
    });
    components.chain(charts).collect()
}

/// What nothing is known of, grouped by the reason.
fn not_asked(found: &Refreshed) -> Option<String> {
    let mut by_reason: BTreeMap<NotAsked, Vec<&str>> = BTreeMap::new();
    for (name, why) in &found.not_asked {
        by_reason.entry(*why).or_default().push(name);
    }
    let groups = by_reason.iter().map(|(why, names)| format!("{} ({})", names.join(", "), why.reason()));
    let groups: Vec<String> = groups.collect();
    (!groups.is_empty()).then(|| format!("nothing was asked about {}", groups.join("; ")))
}

/// What follows from it.
fn conclusion(args: &Args, found: &Refreshed) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(file) = &args.file {
        let file = file.display();
        lines.extend(found.changes.iter().map(|one| format!("{file}: {} {} becomes {}", one.key, one.now, one.then)));
        if found.changes.is_empty() && !found.incomparable && found.has_asked {
            lines.push(format!("{file}: nothing changes: it names its versions, or they are the newest"));
        }
    }
    lines.extend(match (&args.output, found.components.is_empty()) {
        (_, true) if !found.failures.is_empty() || !found.has_asked => None,
        (_, true) if !found.charts.is_empty() => Some("an overlay would be empty: only charts are newer".to_owned()),
        (_, true) => Some("nothing newer is published with a digest".to_owned()),
        (Some(target), false) if is_stdout(target) => None,
        (Some(target), false) => Some(format!("{}: written; use it with --catalogue", target.display())),
        (None, false) => Some("-o FILE writes an overlay with these".to_owned()),
    });
    lines
}
