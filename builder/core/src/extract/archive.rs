//! A layout as one tar file: what skopeo calls `oci-archive`.

use std::io;
use std::path::Path;

use kubexm_archive::Bundle;
use kubexm_files::Writer;

use super::write::{EXTRACTED, apart, open};
use super::{Content, ExtractError, Plan, io_error};

/// Writes the files of a plan into one tar file, verified while they are written. Returns its size in bytes.
pub fn oci_archive(bundle: &Bundle, plan: &Plan, target: &Path, force: bool) -> Result<u64, ExtractError> {
    apart(bundle, std::iter::once(target.to_owned()))?;
    kubexm_files::check(target, &EXTRACTED, force)?;
    let mut writer = Writer::create(target, &EXTRACTED, force)?;
    let mut tar = tar::Builder::new(io::BufWriter::new(writer.file_mut()));
    for (path, output) in plan {
        let size = match &output.content {
            Content::Made(bytes) => bytes.len() as u64,
            Content::Member(name) => bundle.find(name).map_or(0, |member| member.size),
        };
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        let content = open(bundle, &output.content)?;
        tar.append_data(&mut header, path, content).map_err(io_error("write", target))?;
    }
    let buffered = tar.into_inner().map_err(io_error("write", target))?;
    buffered.into_inner().map_err(|e| io_error("write", target)(e.into_error()))?;
    let size = writer.file_mut().metadata().map_err(io_error("examine", target))?.len();
    writer.commit()?;
    Ok(size)
}
