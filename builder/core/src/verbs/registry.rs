//! Bundles in registries: push and pull.

use std::path::{Path, PathBuf};

use kubexm_archive::Options;
use kubexm_spec::{Digest, ExitCode};
use kubexm_transport::{HttpClient, HttpOptions, ImageCandidate, OciRegistry};
use serde::Serialize;
use tokio::runtime::Handle;

use super::documents;
use super::outputs::{check_bundle, note_replaced};
use crate::oci::{Address, Pull, Push, pull as fetch, push as send};
use crate::session::{Session, SessionError};

/// What was pushed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pushed {
    schema: &'static str,
    /// By digest.
    pub address: String,
    /// As it was asked.
    pub reference: String,
    /// Of the artifact's manifest.
    pub digest: Digest,
    /// Of the bundle's manifest.json.
    pub manifest: Digest,
    /// Of all members, in bytes.
    pub size: u64,
    pub sent: Sent,
    /// Blobs that were mounted from another repository.
    pub mounted: usize,
    /// Blobs that were there.
    pub present: usize,
    pub referrers: Vec<Referrer>,
    /// Tag or digest.
    #[serde(skip)]
    pub wanted: String,
}

#[derive(Debug, Serialize)]
pub struct Sent {
    pub blobs: usize,
    pub bytes: u64,
}

/// What refers to the bundle.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Referrer {
    pub artifact_type: &'static str,
    pub digest: Digest,
}

/// What was pulled.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pulled {
    schema: &'static str,
    pub file: PathBuf,
    /// In bytes.
    pub size: u64,
    /// Digest of manifest.json.
    pub manifest: Digest,
    pub bundle_id: Digest,
    /// By digest.
    pub address: String,
    /// Of the artifact's manifest.
    pub digest: Digest,
    /// By number, none of them checked.
    pub signatures: usize,
    pub delta: bool,
    /// Whether the file has other bytes than the one that was pushed.
    pub recoded: bool,
}

/// What is pushed besides the bundle.
pub struct PushRequest<'a> {
    /// `oci://HOST/REPO[:TAG]`.
    pub address: &'a str,
    /// Repositories of the same registry that blobs are taken from.
    pub mount_from: &'a [String],
    /// Whether a bill of materials goes along.
    pub sbom: bool,
    /// Blobs at once.
    pub jobs: usize,
    /// This program.
    pub tool: documents::Tool,
}

/// What is pulled, and where to.
pub struct PullRequest<'a> {
    /// `oci://HOST/REPO[:TAG|@DIGEST]`.
    pub address: &'a str,
    pub target: &'a Path,
    pub force: bool,
    /// Folder of the cache; the usual one when none.
    pub cache: Option<&'a Path>,
    /// Another encoder may be used than the one that wrote it.
    pub recode: bool,
    /// Blobs at once.
    pub jobs: usize,
}

/// Puts a bundle into a registry.
pub fn push(
    session: &Session,
    bundle: &Path,
    request: &PushRequest<'_>,
    runtime: &Handle,
) -> Result<Pushed, SessionError> {
    let address = address(request.address)?;
    let bundle = session.bundle(bundle)?;
    let carries_catalogue = bundle.find("catalogue.json").is_some();
    let sbom = match request.sbom && carries_catalogue {
        true => Some(documents::sbom(&bundle, documents::Format::Cyclonedx, request.tool)?.into_bytes()),
        false => None,
    };
    let registry = registry(session, request.jobs)?;
    let candidate = candidate(session, &address);
    let pushed = runtime.block_on(async {
        let to = registry.repository(&candidate, request.mount_from).await?;
        let push = Push { bundle: &bundle, to: &to, wanted: &address.wanted, sbom, jobs: request.jobs };
        Ok::<_, SessionError>(send(&push, &|kind| session.report(kind)).await?)
    })?;
    let referrers = pushed.referrers.into_iter();
    Ok(Pushed {
        schema: "kubexm.io/push/v1",
        address: by_digest(&address, pushed.digest),
        reference: address.to_string(),
        digest: pushed.digest,
        manifest: bundle.manifest_digest(),
        size: pushed.size,
        sent: Sent { blobs: pushed.sent.0, bytes: pushed.sent.1 },
        mounted: pushed.mounted,
        present: pushed.present,
        referrers: referrers.map(|(artifact_type, digest)| Referrer { artifact_type, digest }).collect(),
        wanted: address.wanted.to_string(),
    })
}

/// Fetches a bundle from a registry.
pub fn pull(session: &Session, request: &PullRequest<'_>, runtime: &Handle) -> Result<Pulled, SessionError> {
    let address = address(request.address)?;
    check_bundle(request.target, None, request.force)?;
    note_replaced(session, request.target, None)?;
    let store = session.store(request.cache)?;
    let registry = registry(session, request.jobs)?;
    let from = candidate(session, &address);
    let pull = Pull {
        registry: &registry,
        from: &from,
        wanted: &address.wanted,
        store: &store,
        target: request.target,
        threads: Options::default().threads,
        recode: request.recode,
    };
    let pulled = runtime.block_on(fetch(&pull, &|kind| session.report(kind)))?;
    Ok(Pulled {
        schema: "kubexm.io/pull/v1",
        file: request.target.to_owned(),
        size: pulled.written.size,
        manifest: pulled.written.manifest,
        bundle_id: pulled.written.bundle_id,
        address: by_digest(&address, pulled.digest),
        digest: pulled.digest,
        signatures: pulled.signatures,
        delta: pulled.delta,
        recoded: pulled.recoded,
    })
}

fn by_digest(address: &Address, digest: Digest) -> String {
    format!("oci://{}/{}@{digest}", address.host, address.repository)
}

fn address(text: &str) -> Result<Address, SessionError> {
    text.parse().map_err(|problem: String| {
        let text = format!("the address is not of the form oci://HOST/REPO[:TAG|@DIGEST]: {problem}");
        SessionError::refused(ExitCode::Usage, text)
    })
}

/// The repository of an address, with what was said about the network.
fn candidate(session: &Session, address: &Address) -> ImageCandidate {
    ImageCandidate {
        plain_http: session.network().plain_http,
        ca_file: session.network().ca_file.clone(),
        ..ImageCandidate::new(&address.host, &address.repository)
    }
}

/// Clients that send or fetch so many blobs at once.
fn registry(session: &Session, jobs: usize) -> Result<OciRegistry, SessionError> {
    let options = HttpOptions { parallel: jobs, parallel_per_host: jobs, ..session.http_options(true) };
    Ok(OciRegistry::new(HttpClient::new(options)?, session.credentials()))
}
