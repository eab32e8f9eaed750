//! Bundles that are read: files, volumes, folders, addresses; deltas on their bases.

use std::io::Read;
use std::path::{Path, PathBuf};

use kubexm_archive::Bundle;
use kubexm_spec::inventory::LIMIT;

use super::{Session, SessionError, is_address};
use crate::base::Base;

impl Session {
    /// Opens a bundle: a file, a volume, a folder, or an address of a web server; errors name it.
    pub fn bundle(&self, path: &Path) -> Result<Bundle, SessionError> {
        match is_address(path) {
            Some(address) => self.bundle_at(address),
            None => Bundle::open(path)
                .map_err(|source| SessionError::Bundle { path: path.to_owned(), source: Box::new(source) }),
        }
    }

    /// Opens a bundle that may lie in several volumes, and puts a delta on its bases.
    pub fn bundle_on(&self, paths: &[PathBuf], bases: &[PathBuf]) -> Result<Bundle, SessionError> {
        let opened = match paths {
            [one] => self.bundle(one)?,
            [first, ..] => Bundle::open_all(paths)
                .map_err(|source| SessionError::Bundle { path: first.clone(), source: Box::new(source) })?,
            [] => return Err(SessionError::NoBundle),
        };
        if bases.is_empty() {
            return Ok(opened);
        }
        let bases = bases.iter().map(|path| self.bundle(path)).collect::<Result<_, _>>()?;
        Ok(opened.on_bases(bases)?)
    }

    /// What a delta may leave out: a bundle, the manifest of one, or an inventory.
    pub fn base(&self, path: &Path) -> Result<Base, SessionError> {
        // A folder, a pipe, the name of volumes without their numbers, nothing: opening it as a bundle gives the error.
        let other = || !path.is_file();
        if is_address(path).is_some() || other() || !is_json(path)? {
            return Ok(Base::of_bundle(&self.bundle(path)?));
        }
        let unreadable = |source| SessionError::Unreadable { path: path.to_owned(), source };
        let mut text = Vec::new();
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(LIMIT + 1).read_to_end(&mut text).map_err(unreadable)?;
        let wrong = |problem: String| SessionError::Base { path: path.to_owned(), problem };
        if text.len() as u64 > LIMIT {
            return Err(wrong(format!("it has more than the {LIMIT} bytes of a manifest or an inventory")));
        }
        Base::of_text(&text).map_err(|e| wrong(e.to_string()))
    }
}

fn is_json(path: &Path) -> Result<bool, SessionError> {
    let mut first = [0];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut first));
    let read = read.map_err(|source| SessionError::Unreadable { path: path.to_owned(), source })?;
    Ok(read == 1 && first == *b"{")
}
