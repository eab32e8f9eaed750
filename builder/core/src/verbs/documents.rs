//! Documents about a bundle: bills of materials, and what it was built from.

use std::collections::BTreeMap;
use std::path::Path;

use kubexm_archive::{Bundle, members};
use kubexm_files::Kind;
use kubexm_manifests::Catalogue;
use kubexm_spec::{ArtifactKey, Digest, ExitCode, Sources, names};

use super::kinds;
use super::outputs::apart;
use crate::provenance::{Built, provenance as statement};
use crate::sbom::{Subject, cyclonedx, declared, spdx};
use crate::session::{Session, SessionError, is_address};
use crate::{complete, disk, sources};

/// Name, version and licence (SPDX) of the program that writes a document.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    pub name: &'static str,
    pub version: &'static str,
    pub licence: &'static str,
}

/// Formats of bills of materials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// CycloneDX 1.6.
    Cyclonedx,
    /// SPDX 2.3.
    Spdx,
}

impl Format {
    /// For files of this format.
    pub const fn kind(self) -> &'static Kind {
        match self {
            Self::Cyclonedx => &kinds::CYCLONEDX,
            Self::Spdx => &kinds::SPDX,
        }
    }
}

/// Opens a bundle, when a document of this kind may be written to `output` beside it; without `output` it always may.
pub fn open(
    session: &Session,
    bundle: &Path,
    output: Option<&Path>,
    kind: &Kind,
    force: bool,
) -> Result<Bundle, SessionError> {
    let bundle = session.bundle(bundle)?;
    if let Some(path) = output {
        apart(path, &bundle.files())?;
        kubexm_files::check(path, kind, force)?;
    }
    Ok(bundle)
}

/// A bill of materials, as text.
pub fn sbom(bundle: &Bundle, format: Format, tool: Tool) -> Result<String, SessionError> {
    let (catalogue, sources) = (complete::catalogue(bundle)?, sources::of(bundle)?);
    let known = Known::of(bundle)?;
    let subject = subject(bundle, &catalogue, sources.as_ref(), &known, tool);
    let document = match format {
        Format::Cyclonedx => cyclonedx(&subject),
        Format::Spdx => spdx(&subject),
    };
    Ok(format!("{document:#}\n"))
}

/// What a bundle was built from, as text. `path` is how it was named; with `files`, its files are named by their digests too.
pub fn provenance(
    session: &Session,
    path: &Path,
    bundle: &Bundle,
    files: bool,
    tool: Tool,
) -> Result<String, SessionError> {
    let (catalogue, sources) = (complete::catalogue(bundle)?, sources::of(bundle)?);
    let known = Known::of(bundle)?;
    let files = if files { digests(session, path, bundle)? } else { Vec::new() };
    let built = Built {
        subject: subject(bundle, &catalogue, sources.as_ref(), &known, tool),
        bundle_id: bundle.bundle_id(),
        encoder: (&bundle.layout().encoder, bundle.layout().level),
        files,
    };
    Ok(format!("{:#}\n", statement(&built)))
}

/// The most bytes of a program that is searched for its version; no larger one is.
const PROGRAM_LIMIT: u64 = 256 << 20;

/// What shows only when artifacts themselves are read.
pub(super) struct Known {
    installers: BTreeMap<Digest, String>,
    licences: BTreeMap<Digest, String>,
}

impl Known {
    pub(super) fn of(bundle: &Bundle) -> Result<Self, SessionError> {
        Ok(Self { installers: installers(bundle)?, licences: declared::licences(bundle) })
    }
}

/// The versions of `kubexm-install` in a bundle, which programs carry: of what a delta leaves out none is known.
fn installers(bundle: &Bundle) -> Result<BTreeMap<Digest, String>, SessionError> {
    let mut found = BTreeMap::new();
    for artifact in bundle.manifest().artifacts.iter().filter(|artifact| artifact.key == ArtifactKey::Installer) {
        let name = members::blob_name(&artifact.digest);
        if bundle.find(&name).is_none_or(|member| member.size > PROGRAM_LIMIT) {
            continue;
        }
        let program = bundle.read(&name, PROGRAM_LIMIT)?;
        if let Some(version) = names::program_version(&program) {
            found.insert(artifact.digest, version.to_owned());
        }
    }
    Ok(found)
}

pub(super) fn subject<'a>(
    bundle: &'a Bundle,
    catalogue: &'a Catalogue,
    sources: Option<&'a Sources>,
    known: &'a Known,
    tool: Tool,
) -> Subject<'a> {
    Subject {
        installers: &known.installers,
        licences: &known.licences,
        sources,
        manifest: bundle.manifest(),
        digest: bundle.manifest_digest(),
        catalogue,
        tool: (tool.name, tool.version),
        tool_licence: tool.licence,
    }
}

/// Names without folders of the bundle's files, or of the one on a server, and their digests.
fn digests(session: &Session, path: &Path, bundle: &Bundle) -> Result<Vec<(String, Digest)>, SessionError> {
    match is_address(path) {
        Some(address) => Ok(session.digest_at(address)?.into_iter().collect()),
        None => bundle.files().iter().map(|path| named(path)).collect(),
    }
}

fn named(path: &Path) -> Result<(String, Digest), SessionError> {
    let unreadable = |e| SessionError::refused(ExitCode::Disk, format!("cannot read {}: {e}", path.display()));
    let digest = disk::digest(path).map_err(unreadable)?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    Ok((name.to_string_lossy().into_owned(), digest))
}
