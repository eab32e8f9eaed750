//! `kubexm-bundle inspect`.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_archive::{Bundle, Signature};
use kubexm_builder::session::Session;
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{ExitCode, Sources};
use kubexm_terminal::{Display, Failure, Mode, bytes, shown_date};
use serde_json::{Value, json};

use super::{sbom, trust};

/// Show what is inside a bundle: artifacts, versions, sizes, digests, where they came from and why they are trusted
///
/// Reads only the bundle's head and tail. `verify` is what checks the bytes.
///
/// Examples:
///   kubexm-bundle inspect site.tar.zst
///   kubexm-bundle inspect --json site.tar.zst | jq '.artifacts[].key'
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

pub fn run(args: &Args, session: &Session, display: &Display) -> Result<(), Failure> {
    let bundle = session.bundle(&args.bundle)?;
    if args.manifest {
        display.give(bundle.manifest_json());
        return Ok(());
    }
    if let Some(wanted) = &args.statement {
        let signature = found(args, &bundle, wanted)?;
        display.give(signature.statement.as_ref().map_or(bundle.manifest_json(), String::as_bytes));
        return Ok(());
    }
    if let Some(wanted) = &args.signature {
        display.give(&one_signature(args, &bundle, wanted)?);
        return Ok(());
    }
    if display.mode() == Mode::Json {
        display.answer(&document(args, &bundle)?.to_string());
        return Ok(());
    }
    let manifest = bundle.manifest();
    let sources = sbom::places(&bundle)?;
    let platforms: Vec<String> = manifest.platforms.iter().map(ToString::to_string).collect();
    display.answer(&format!("bundle    {} ({})", manifest.name, bytes(bundle.size())));
    if let Some(cluster) = &manifest.cluster {
        display
            .answer(&format!("cluster   Kubernetes {}, {}, {}", cluster.kubernetes, cluster.runtime, cluster.network));
    }
    display.answer(&format!("platforms {}", platforms.join(", ")));
    match &sources {
        Some(sources) => display.answer(&format!("zone      {}", sources.zone)),
        None => display.answer("zone      not in the bundle (built with --no-sources)"),
    }
    display.answer(&format!("manifest  {}", bundle.manifest_digest()));
    if bundle.signatures().is_empty() {
        display.answer("signed    unsigned");
    }
    for (number, signature) in (1..).zip(bundle.signatures()) {
        let Signature { key_id, alg, .. } = signature;
        let stated = signature.stated();
        let date = stated.as_ref().map(|statement| format!(", {}", shown_date(statement.date))).unwrap_or_default();
        let sequence = stated.and_then(|statement| statement.sequence);
        let sequence = sequence.map(|sequence| format!(", sequence {sequence}")).unwrap_or_default();
        display.answer(&format!("signed    {number}: by key {key_id} ({alg}){date}{sequence}, not checked"));
    }
    display.answer("");
    for artifact in &manifest.artifacts {
        display.answer(&line(artifact, sources.as_ref()));
    }
    Ok(())
}

fn document(args: &Args, bundle: &Bundle) -> Result<Value, Failure> {
    let manifest = bundle.manifest();
    let sources = sbom::places(bundle)?;
    let artifacts: Vec<Value> = manifest.artifacts.iter().map(|artifact| one(artifact, sources.as_ref())).collect();
    Ok(json!({
        "schema": "kubexm.io/inspect/v1",
        "file": args.bundle,
        "size": bundle.size(),
        "manifest": bundle.manifest_digest(),
        "bundleId": bundle.bundle_id(),
        "signatures": trust::listed(bundle.signatures()),
        "name": manifest.name,
        "cluster": manifest.cluster,
        "platforms": manifest.platforms,
        "format": manifest.format,
        "zone": sources.map(|sources| sources.zone),
        "tool": manifest.tool,
        "lock": manifest.lock,
        "artifacts": artifacts,
        "members": manifest.members,
    }))
}

/// An artifact with where it is from.
fn one(artifact: &Artifact, sources: Option<&Sources>) -> Value {
    let mut document = json!(artifact);
    if let Some(places) = sources.and_then(|sources| sources.find(&artifact.key, artifact.platform)) {
        document["asked"] = json!(places.asked);
        document["sources"] = json!(places.candidates);
        document["from"] = json!(places.from);
    }
    document
}

fn line(artifact: &Artifact, sources: Option<&Sources>) -> String {
    let platform = artifact.platform.map(|p| p.to_string()).unwrap_or_default();
    let places = sources.and_then(|sources| sources.find(&artifact.key, artifact.platform));
    // Who answered; of bundles that do not say it, who was asked first.
    let source = match places {
        Some(places) if !places.from.is_empty() => places.from.join(" "),
        Some(places) => places.candidates.first().map_or("the builder's machine", String::as_str).to_owned(),
        None => String::new(),
    };
    format!(
        "{:32} {:14} {:12} {:>10}  {:17} {}  {source}",
        artifact.key.to_string(),
        artifact.version,
        platform,
        bytes(artifact.size()),
        artifact.trust.to_string(),
        artifact.digest.short(),
    )
}

/// One signature, by its number or the id of its key.
fn found<'b>(args: &Args, bundle: &'b Bundle, wanted: &str) -> Result<&'b Signature, Failure> {
    let all = bundle.signatures();
    let number = wanted.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let found = all.iter().find(|signature| signature.key_id == wanted).or_else(|| all.get(number?));
    let file = args.bundle.display();
    found.ok_or_else(|| {
        let text = match all.len() {
            0 => format!("{file} is unsigned"),
            count => format!("{file} has {count} signatures and none that is {wanted:?}; `inspect` lists them"),
        };
        Failure::new(ExitCode::BundleUntrusted, text)
    })
}

/// The bytes of one signature, in the form that was asked for.
fn one_signature(args: &Args, bundle: &Bundle, wanted: &str) -> Result<Vec<u8>, Failure> {
    let (signature, file) = (found(args, bundle, wanted)?, args.bundle.display());
    match args.form {
        Form::Base64 => Ok(format!("{}\n", signature.sig).into_bytes()),
        Form::Der => STANDARD.decode(&signature.sig).map_err(|_| {
            let text = format!("the signature of key {} in {file} is no base64", signature.key_id);
            Failure::new(ExitCode::BundleUntrusted, text)
        }),
    }
}
