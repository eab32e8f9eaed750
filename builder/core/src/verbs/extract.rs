//! Artifacts or members that are taken out of a bundle.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use kubexm_archive::Bundle;
use kubexm_files::is_stdout;
use kubexm_spec::{Digest, Platform, error_chain};
use serde::Serialize;

use crate::extract::{self, Content, ExtractError, Item, Output, Plan};
use crate::room::{self, Need};
use crate::session::{Session, SessionError};

/// What is taken out, and where to.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub bundle: &'a Path,
    /// Of a delta: bundles that have what it leaves out.
    pub bases: &'a [PathBuf],
    /// Keys, references, digests or names of members; every member as it is when none.
    pub items: Option<&'a [String]>,
    /// To be made when it is not there.
    pub folder: &'a Path,
    /// One OCI layout of all items.
    pub layout: bool,
    /// The same as one tar file, in place of the folder.
    pub oci_archive: Option<&'a Path>,
    /// Where an item is for several platforms.
    pub platform: Option<Platform>,
    /// Overwrite files.
    pub force: bool,
}

/// What was taken out.
#[derive(Debug, Serialize)]
pub struct Extracted {
    schema: &'static str,
    /// The bundle, as it was named.
    pub file: PathBuf,
    pub files: Vec<ExtractedFile>,
}

/// A file that was written.
#[derive(Debug, Serialize)]
pub struct ExtractedFile {
    pub path: PathBuf,
    /// In bytes.
    pub size: u64,
    /// None of a tar file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// Takes it out. An error says where what is complete lies, where a second call continues.
pub fn extract(session: &Session, request: &Request<'_>) -> Result<Extracted, SessionError> {
    let bundle = session.bundle_on(&[request.bundle.to_owned()], request.bases)?;
    let of_bundle = |e: ExtractError| e.of_delta(&bundle);
    let plan = plan(request, &bundle).map_err(of_bundle)?;
    check_room(request, &bundle, &plan)?;
    let files = take_out(session, request, &bundle, &plan).map_err(|e| {
        let e = e.of_delta(&bundle);
        let started = kubexm_archive::partial_path(request.folder).filter(|folder| folder.is_dir());
        let is_ours = !matches!(e, ExtractError::InTheWay { .. } | ExtractError::Locked { .. });
        match started.filter(|_| is_ours && !request.folder.exists()) {
            None => e.into(),
            Some(folder) => {
                let text = format!(
                    "{}\nwhat is complete is in {}: run it again to continue, or remove that folder",
                    error_chain(&e),
                    folder.display()
                );
                SessionError::refused(e.exit_code(), text)
            }
        }
    })?;
    Ok(Extracted { schema: "kubexm.io/extract/v1", file: request.bundle.to_owned(), files })
}

/// What is to be written fits; files that are there count as written.
fn check_room(request: &Request<'_>, bundle: &Bundle, plan: &Plan) -> Result<(), SessionError> {
    if let Some(target) = request.oci_archive {
        let bytes = if is_stdout(target) { 0 } else { total(bundle, plan.iter()) };
        return Ok(room::check(&[Need { path: target, what: "the archive", bytes }])?);
    }
    let started = kubexm_archive::partial_path(request.folder);
    let is_there = |path: &Path| {
        started.iter().map(PathBuf::as_path).chain([request.folder]).any(|folder| folder.join(path).exists())
    };
    let bytes = total(bundle, plan.iter().filter(|(path, _)| !is_there(path)));
    Ok(room::check(&[Need { path: request.folder, what: "the files", bytes }])?)
}

fn take_out(
    session: &Session,
    request: &Request<'_>,
    bundle: &Bundle,
    plan: &Plan,
) -> Result<Vec<ExtractedFile>, ExtractError> {
    if let Some(target) = request.oci_archive {
        let size = extract::oci_archive(bundle, plan, target, request.force)?;
        return Ok(vec![ExtractedFile { path: target.to_owned(), size, digest: None }]);
    }
    let (done, total) = (Cell::new(0), total(bundle, plan.iter()));
    let progress = |more| {
        done.set(done.get() + more);
        session.progress("extract", (done.get(), Some(total)), "bytes");
    };
    let written = extract::write(bundle, plan, request.folder, request.force, &progress)?.into_iter();
    Ok(written.map(|file| ExtractedFile { path: file.path, size: file.size, digest: Some(file.sha256) }).collect())
}

fn plan(request: &Request<'_>, bundle: &Bundle) -> Result<Plan, ExtractError> {
    let Some(items) = request.items else { return Ok(extract::members(bundle)) };
    let in_layout = request.layout || request.oci_archive.is_some();
    let find = |item: &String| {
        let found = extract::find_all(bundle.manifest(), item, request.platform)?;
        if !in_layout {
            extract::check_asked(item, &found)?;
        }
        Ok::<_, ExtractError>(found)
    };
    let items: Vec<Item<'_>> = items.iter().map(find).collect::<Result<Vec<_>, _>>()?.concat();
    match in_layout {
        true => extract::single_layout(bundle, &items),
        false => extract::separate(bundle, &items),
    }
}

/// Content of all files in bytes.
fn total<'p>(bundle: &Bundle, files: impl Iterator<Item = (&'p PathBuf, &'p Output)>) -> u64 {
    let size = |content: &Content| match content {
        Content::Member(name) => bundle.find(name).map_or(0, |member| member.size),
        Content::Made(bytes) => bytes.len() as u64,
    };
    files.map(|(_, output)| size(&output.content)).sum()
}
