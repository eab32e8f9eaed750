//! The artifacts of a bundle, or its members and where they lie.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use kubexm_archive::{Bundle, Encoding, members};
use kubexm_spec::artifact::Kind;
use kubexm_spec::manifest::Artifact;
use kubexm_spec::{ArtifactKey, Digest, Platform};
use serde::Serialize;

/// What is listed; the default is everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Names of kinds of artifacts; any when empty.
    pub kinds: Vec<String>,
    /// Artifacts for this platform, and those that are for all.
    pub platform: Option<Platform>,
}

/// A list.
#[derive(Debug, Serialize)]
pub struct Listing {
    schema: &'static str,
    /// As it was named.
    pub file: PathBuf,
    /// Digest of manifest.json.
    pub manifest: Digest,
    #[serde(flatten)]
    pub rows: Rows,
}

/// What is in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Rows {
    Artifacts(Vec<ArtifactRow>),
    Members(Vec<MemberRow>),
}

/// An artifact.
#[derive(Debug, Serialize)]
pub struct ArtifactRow {
    pub key: ArtifactKey,
    pub kind: Kind,
    pub version: String,
    /// None for what is for all.
    pub platform: Option<Platform>,
    pub name: String,
    pub digest: Digest,
    pub manifest: Option<Digest>,
    /// Of all its blobs, in bytes.
    pub size: u64,
}

/// A member of the file, or (of a delta) one that it leaves out.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberRow {
    pub name: String,
    /// Of the content, in bytes.
    pub size: u64,
    pub digest: Option<Digest>,
    /// What it takes in the file, in bytes; none of what is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<u64>,
    /// `raw` or `zstd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<&'static str>,
    /// Of its first byte in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
}

impl Filter {
    fn wants(&self, artifact: &Artifact) -> bool {
        (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == artifact.key.kind().as_str()))
            && self.platform.is_none_or(|wanted| artifact.platform.is_none_or(|is| is == wanted))
    }

    fn is_all(&self) -> bool {
        self.kinds.is_empty() && self.platform.is_none()
    }
}

impl Listing {
    /// Artifacts, or with `of_members` the members that they need.
    pub fn of(file: &Path, bundle: &Bundle, filter: &Filter, of_members: bool) -> Self {
        let wanted: Vec<&Artifact> = bundle.manifest().artifacts.iter().filter(|one| filter.wants(one)).collect();
        let rows = match of_members {
            true => Rows::Members(member_rows(bundle, (!filter.is_all()).then_some(&wanted))),
            false => Rows::Artifacts(wanted.into_iter().map(artifact_row).collect()),
        };
        Self { schema: "kubexm.io/list/v1", file: file.to_owned(), manifest: bundle.manifest_digest(), rows }
    }
}

fn artifact_row(artifact: &Artifact) -> ArtifactRow {
    let Artifact { key, version, platform, name, digest, manifest, .. } = artifact.clone();
    ArtifactRow { kind: key.kind(), key, version, platform, name, digest, manifest, size: artifact.size() }
}

fn member_rows(bundle: &Bundle, of: Option<&Vec<&Artifact>>) -> Vec<MemberRow> {
    let wanted: Option<HashSet<String>> = of.map(|artifacts| {
        let manifests = artifacts.iter().flat_map(|a| [Some(a.digest), a.manifest]).flatten();
        let blobs = artifacts.iter().flat_map(|a| a.blobs.iter().map(|blob| blob.digest));
        manifests.chain(blobs).map(|digest| members::blob_name(&digest)).collect()
    });
    let here = bundle.members().map(|member| MemberRow {
        name: member.name.clone(),
        size: member.size,
        digest: member.sha256,
        stored: Some(bundle.stored_size(member)),
        encoding: Some(word(member.encoding)),
        offset: Some(bundle.stored_offset(member)),
        left_out: false,
    });
    let elsewhere = bundle.left_out().map(|member| MemberRow {
        name: member.name.clone(),
        size: member.size,
        digest: Some(member.sha256),
        left_out: true,
        ..MemberRow::default()
    });
    here.chain(elsewhere).filter(|row| wanted.as_ref().is_none_or(|wanted| wanted.contains(&row.name))).collect()
}

const fn word(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Raw => "raw",
        Encoding::Zstd => "zstd",
    }
}
