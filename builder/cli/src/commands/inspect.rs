//! `kubexm-bundle inspect`.

use std::path::PathBuf;

use kubexm_builder::verbs::documents::open;
use kubexm_builder::verbs::inspect::{Inspected, Traced, signature, signature_bytes, signed_bytes};
use kubexm_builder::verbs::inspect_page::page;
use kubexm_builder::verbs::kinds::PAGE;
use kubexm_terminal::{Failure, bytes, shown_date};

use crate::context::{Context, TOOL};

/// Show what is inside a bundle: artifacts, versions, sizes, digests, where they came from and why they are trusted
///
/// Reads only the bundle's head and tail. `verify` is what checks the bytes.
///
/// Examples:
///   kubexm-bundle inspect site.tar.zst
///   kubexm-bundle inspect --json site.tar.zst | jq '.artifacts[].key'
///   kubexm-bundle inspect --html site.html site.tar.zst
///   kubexm-bundle inspect --html site.html --base january.tar.zst site.tar.zst
///
/// A signature is checked without this program as well, of an ECDSA key, of an Ed25519 key, by cosign:
///   kubexm-bundle inspect --statement 1 site.tar.zst > m.json
///   kubexm-bundle inspect --signature 1 site.tar.zst > m.sig
///   openssl dgst -sha256 -verify release.pub -signature m.sig m.json
///   openssl pkeyutl -verify -rawin -pubin -inkey release.pub -sigfile m.sig -in m.json
///   kubexm-bundle inspect --signature 1 --form base64 site.tar.zst > m.b64
///   cosign verify-blob --key release.pub --insecure-ignore-tlog --signature m.b64 m.json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The bundle
    bundle: PathBuf,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
    /// Write one HTML page for a browser, without scripts: contents by size, sources, trust, licences; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "manifest", "statement", "signature"])]
    html: Option<PathBuf>,
    /// With --html: show the differences to this bundle, its manifest.json, or a lock
    #[arg(long, value_name = "FILE", requires = "html")]
    base: Option<PathBuf>,
    /// With --html: replace an existing file that is not such a page
    #[arg(long, requires = "html")]
    force: bool,
    /// Only the exact bytes of manifest.json: statements have its digest, and of format 1 it is what signatures sign
    #[arg(long, conflicts_with = "json")]
    manifest: bool,
    /// Only the exact bytes that a signature signs, by its number, from 1 on, or the id of its key
    #[arg(long, value_name = "N|KEY-ID", conflicts_with_all = ["json", "manifest", "signature"])]
    statement: Option<String>,
    /// Only one signature: its number, from 1 on, or the id of its key
    #[arg(long, value_name = "N|KEY-ID", conflicts_with_all = ["json", "manifest"])]
    signature: Option<String>,
    /// How --signature writes it
    #[arg(long, value_enum, default_value_t, value_name = "FORM", requires = "signature")]
    form: Form,
}

/// How a signature is written alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// The bytes, as openssl takes them: DER for ECDSA, 64 bytes for Ed25519
    #[default]
    Der,
    /// Base64 and a line end, as cosign takes it
    Base64,
}

pub fn run(args: &Args, context: &Context<'_>) -> Result<(), Failure> {
    if let Some(html) = &args.html {
        // Other documents have -o.
        let of_html = |failure: Failure| Failure { text: failure.text.replace("with -o", "with --html"), ..failure };
        let bundle = open(context.session, &args.bundle, Some(html), &PAGE, args.force).map_err(Failure::from);
        let bundle = bundle.map_err(of_html)?;
        let page = page(context.session, &args.bundle, &bundle, args.base.as_deref(), TOOL)?;
        return context.give(&page, Some(html), &PAGE, args.force);
    }
    let (file, bundle) = (&args.bundle, context.session.bundle(&args.bundle)?);
    if args.manifest {
        context.stdout(bundle.manifest_json());
    } else if let Some(wanted) = &args.statement {
        context.stdout(signed_bytes(&bundle, signature(file, &bundle, wanted)?));
    } else if let Some(wanted) = &args.signature {
        let signature = signature(file, &bundle, wanted)?;
        context.stdout(&match args.form {
            Form::Base64 => format!("{}\n", signature.sig).into_bytes(),
            Form::Der => signature_bytes(file, signature)?,
        });
    } else {
        context.answer(&Inspected::of(file, &bundle)?, lines)?;
    }
    Ok(())
}

fn lines(inspected: &Inspected<'_>) -> Vec<String> {
    let mut lines = vec![format!("bundle    {} ({})", inspected.name, bytes(inspected.size))];
    lines.extend(inspected.cluster.map(|cluster| {
        format!("cluster   Kubernetes {}, {}, {}", cluster.kubernetes, cluster.runtime, cluster.network)
    }));
    let platforms: Vec<String> = inspected.platforms.iter().map(ToString::to_string).collect();
    lines.push(format!("platforms {}", platforms.join(", ")));
    let zone = inspected.zone.as_deref().unwrap_or("not in the bundle (built with --no-sources)");
    lines.push(format!("zone      {zone}"));
    lines.push(format!("manifest  {}", inspected.manifest));
    if inspected.signatures.is_empty() {
        lines.push("signed    unsigned".to_owned());
    }
    for (number, signature) in (1..).zip(&inspected.signatures) {
        let date = signature.date.map(|date| format!(", {}", shown_date(date))).unwrap_or_default();
        let sequence = signature.sequence.map(|sequence| format!(", sequence {sequence}")).unwrap_or_default();
        let (key, alg) = (&signature.key_id, &signature.alg);
        lines.push(format!("signed    {number}: by key {key} ({alg}){date}{sequence}, not checked"));
    }
    lines.extend(inspected.trust_unsigned.iter().map(|index| {
        let (repository, os, platform) = (&index.repository, &index.os, index.platform);
        format!("trusted   {repository} of {os} {platform}: its metadata came over plain http, and nobody signed it")
    }));
    lines.extend(inspected.artifacts.iter().filter_map(|traced| {
        let (name, claim) = (&traced.artifact.name, traced.claim()?);
        let platform = traced.artifact.platform.map(|platform| format!(" {platform}")).unwrap_or_default();
        Some(format!("image     {name}{platform}: the lock claims: {claim}"))
    }));
    if inspected.artifacts.iter().any(|traced| traced.signed.is_some()) {
        lines.push("          `kubexm-bundle verify` checks what the lock claims of images".to_owned());
    }
    lines.push(String::new());
    lines.extend(inspected.artifacts.iter().map(line));
    lines
}

fn line(Traced { artifact, places, .. }: &Traced<'_>) -> String {
    let platform = artifact.platform.map(|p| p.to_string()).unwrap_or_default();
    // Who answered; of bundles that do not say it, who was asked first.
    let source = match places {
        Some(places) if !places.from.is_empty() => places.from.join(" "),
        Some(places) => places.candidates.first().map_or("the builder's machine", String::as_str).to_owned(),
        None => String::new(),
    };
    format!(
        "{:32} {:14} {platform:12} {:>10}  {:17} {}  {source}",
        artifact.key.to_string(),
        artifact.version,
        bytes(artifact.size()),
        artifact.trust.to_string(),
        artifact.digest.short(),
    )
}
