//! `kubexm-bundle inspect`.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_archive::{Bundle, Signature};
use kubexm_builder::session::Session;
use kubexm_spec::ExitCode;
use kubexm_spec::manifest::Artifact;
use kubexm_terminal::{Display, Failure, Mode, bytes};
use serde_json::json;

use super::trust;

/// Show what is inside a bundle: artifacts, versions, sizes, digests, where they came from and why they are trusted
///
/// Reads only the bundle's head and tail. `verify` is what checks the bytes.
///
/// Examples:
///   kubexm-bundle inspect site.tar.zst
///   kubexm-bundle inspect --json site.tar.zst | jq '.artifacts[].key'
///
/// A signature is checked without this program as well, of an ECDSA key, of an Ed25519 key, by cosign:
///   kubexm-bundle inspect --manifest site.tar.zst > m.json
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
    /// Only the exact bytes of manifest.json: what signatures sign
    #[arg(long, conflicts_with = "json")]
    manifest: bool,
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
    if let Some(wanted) = &args.signature {
        display.give(&one_signature(args, &bundle, wanted)?);
        return Ok(());
    }
    if display.mode() == Mode::Json {
        display.answer(&document(args, &bundle).to_string());
        return Ok(());
    }
    let manifest = bundle.manifest();
    let platforms: Vec<String> = manifest.platforms.iter().map(ToString::to_string).collect();
    display.answer(&format!("bundle    {} ({})", manifest.name, bytes(bundle.size())));
    if let Some(cluster) = &manifest.cluster {
        display
            .answer(&format!("cluster   Kubernetes {}, {}, {}", cluster.kubernetes, cluster.runtime, cluster.network));
    }
    display.answer(&format!("platforms {}", platforms.join(", ")));
    display.answer(&format!("zone      {}", manifest.zone));
    display.answer(&format!("manifest  {}", bundle.manifest_digest()));
    if bundle.signatures().is_empty() {
        display.answer("signed    unsigned");
    }
    for (number, Signature { key_id, alg, .. }) in (1..).zip(bundle.signatures()) {
        display.answer(&format!("signed    {number}: by key {key_id} ({alg}), not checked"));
    }
    display.answer("");
    for artifact in &manifest.artifacts {
        display.answer(&line(artifact));
    }
    Ok(())
}

fn document(args: &Args, bundle: &Bundle) -> serde_json::Value {
    let manifest = bundle.manifest();
    json!({
        "schema": "kubexm.io/inspect/v1",
        "file": args.bundle,
        "size": bundle.size(),
        "manifest": bundle.manifest_digest(),
        "bundleId": bundle.bundle_id(),
        "signatures": trust::listed(bundle.signatures()),
        "name": manifest.name,
        "cluster": manifest.cluster,
        "platforms": manifest.platforms,
        "zone": manifest.zone,
        "tool": manifest.tool,
        "lock": manifest.lock,
        "artifacts": manifest.artifacts,
        "members": manifest.members,
    })
}

fn line(artifact: &Artifact) -> String {
    let platform = artifact.platform.map(|p| p.to_string()).unwrap_or_default();
    let source = artifact.sources.first().map_or("this machine", String::as_str);
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

/// The bytes of one signature, in the form that was asked for.
fn one_signature(args: &Args, bundle: &Bundle, wanted: &str) -> Result<Vec<u8>, Failure> {
    let all = bundle.signatures();
    let number = wanted.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let found = all.iter().find(|signature| signature.key_id == wanted).or_else(|| all.get(number?));
    let file = args.bundle.display();
    let Some(signature) = found else {
        let text = match all.len() {
            0 => format!("{file} is unsigned"),
            count => format!("{file} has {count} signatures and none that is {wanted:?}; `inspect` lists them"),
        };
        return Err(Failure::new(ExitCode::BundleUntrusted, text));
    };
    match args.form {
        Form::Base64 => Ok(format!("{}\n", signature.sig).into_bytes()),
        Form::Der => STANDARD.decode(&signature.sig).map_err(|_| {
            let text = format!("the signature of key {} in {file} is no base64", signature.key_id);
            Failure::new(ExitCode::BundleUntrusted, text)
        }),
    }
}
