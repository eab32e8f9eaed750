//! Selected members of a gzip-compressed tar archive, as files.
//!
//! The content of an archive is recorded once (`/var/lib/kubexm/placed/<blob>.json`: member → digest), so that
//! observing reads the installed files and not the archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;

use flate2::read::GzDecoder;
use kubexm_plan::op::{Placed, Unpacked};
use kubexm_spec::Digest;
use kubexm_spec::digest::Hasher;
use kubexm_spec::tar_headers::LimitedHeaders;

use crate::archived::Contents;
use crate::fsio::{self, Access};
use crate::path_state::{self, Look, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave, paths};

/// The maximum size of a member in bytes; no program of kubexm is larger.
const MEMBER_LIMIT: u64 = 1 << 30;
/// The maximum size of all members together, and of the unpacked archive, in bytes.
const ARCHIVE_LIMIT: u64 = 8 << 30;
/// Permission bits of every placed file.
const MODE: u32 = 0o755;

impl Converge for Unpacked {
    fn observe(&self, machine: &Machine) -> Result<Placed, OpError> {
        let contents = match recorded(machine, &self.blob)? {
            Some(contents) => Arc::new(contents),
            None if machine.blob(&self.blob).is_file() => listed(machine, &self.blob)?,
            // Nothing is recorded yet: only files that the plan itself names can be observed.
            None => {
                let files =
                    self.members.values().map(|path| PathState::look(machine, path)).collect::<Result<_, _>>()?;
                return Ok(Placed { files, settled: None });
            }
        };
        let mut files = Vec::new();
        let mut settled = true;
        for (member, path) in targets(self, &contents)? {
            let place = PathState::look(machine, &path)?;
            settled &= contents.get(&member).is_some_and(|digest| place.entry.is(*digest, MODE));
            files.push(place);
        }
        Ok(Placed { files, settled: Some(settled) })
    }

    fn satisfied(&self, found: &Placed, _: &Machine) -> bool {
        found.settled == Some(true)
    }

    fn overwrites(&self, machine: &Machine) -> Vec<String> {
        self.observe(machine).map(|found| found.files.into_iter().map(|place| place.path).collect()).unwrap_or_default()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let contents = match recorded(machine, &self.blob)? {
            Some(contents) => Arc::new(contents),
            None => listed(machine, &self.blob)?,
        };
        let targets = targets(self, &contents)?;
        targets.values().try_for_each(|path| path_state::replaceable(machine, path))?;
        let mut failed = None;
        let found = read_archive(machine, &self.blob, |member, reader| {
            let Some(path) = targets.get(member) else {
                return sunk(member, reader);
            };
            let result = machine.place_file(path, Access::mode(MODE), |file| {
                std::io::copy(reader, file)?;
                if contents.get(member) == Some(&reader.hasher.clone().finish()) {
                    Ok(())
                } else {
                    Err(std::io::Error::other("the archive has changed since it was checked"))
                }
            });
            result.map_err(|error| {
                failed = Some(error);
                std::io::Error::other("a file could not be placed")
            })
        });
        if let Some(error) = failed {
            // If the blob has changed since it was observed, that is reported, and the blob is removed.
            read_archive(machine, &self.blob, sunk)?;
            return Err(error);
        }
        record(machine, &self.blob, &found?)
    }

    fn restore(&self, machine: &Machine, before: &Placed, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Data {
            return Ok(());
        }
        before.files.iter().try_for_each(|place| place.restore(machine))?;
        fsio::remove(&record_path(machine, &self.blob))?;
        // Only if it is empty.
        let _ = std::fs::remove_dir(machine.path(paths::PLACED));
        Ok(())
    }
}

/// Member path → absolute path on the host.
fn targets(op: &Unpacked, contents: &Contents) -> Result<BTreeMap<String, String>, OpError> {
    let mut targets = BTreeMap::new();
    for (member, path) in &op.members {
        if !contents.contains_key(member) {
            let some: Vec<&str> = contents.keys().take(8).map(String::as_str).collect();
            return Err(OpError::other(format!(
                "archive {} has no regular file {member}; it has {} files, among them {}",
                op.blob,
                contents.len(),
                some.join(", ")
            )));
        }
        targets.insert(member.clone(), path.clone());
    }
    if let Some(all) = &op.all_into {
        let folder = all.folder.trim_matches('/');
        for member in contents.keys() {
            let below = if folder.is_empty() {
                Some(member.as_str())
            } else {
                member.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'))
            };
            if let Some(below) = below {
                let name = below.rsplit('/').next().unwrap_or(below);
                targets.insert(member.clone(), format!("{}/{name}", all.directory.trim_end_matches('/')));
            }
        }
    }
    Ok(targets)
}

fn record_path(machine: &Machine, blob: &Digest) -> std::path::PathBuf {
    machine.path(format!("{}/{}.json", paths::PLACED, blob.hex()))
}

fn recorded(machine: &Machine, blob: &Digest) -> Result<Option<Contents>, OpError> {
    Ok(fsio::read(&record_path(machine, blob))?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

fn record(machine: &Machine, blob: &Digest, contents: &Contents) -> Result<(), OpError> {
    let text = serde_json::to_vec(contents)
        .map_err(|error| OpError::other(format!("the list of {blob} cannot be written as JSON: {error}")))?;
    machine.write_file(&format!("{}/{}.json", paths::PLACED, blob.hex()), &text, Access::mode(0o600))
}

/// The content of an archive, read at most once in this process.
fn listed(machine: &Machine, blob: &Digest) -> Result<Arc<Contents>, OpError> {
    machine.archived().contents(*blob, || read_archive(machine, blob, sunk))
}

/// Reads a member only for its digest.
fn sunk(_: &str, reader: &mut Hashed<&mut dyn Read>) -> std::io::Result<()> {
    std::io::copy(reader, &mut std::io::sink()).map(drop)
}

/// Reads the whole archive once, checks the blob's digest, and passes every regular file to `take`. Anything except
/// folders, links (which no component needs) and regular files of limited size below the archive's top is refused.
fn read_archive(
    machine: &Machine,
    blob: &Digest,
    mut take: impl FnMut(&str, &mut Hashed<&mut dyn Read>) -> std::io::Result<()>,
) -> Result<Contents, OpError> {
    let path = machine.blob(blob);
    let broken = |what: String| OpError::other(format!("archive {blob}: {what}"));
    let file = File::open(&path).map_err(OpError::path("open the blob", &path))?;
    let (unpacked, members) = LimitedHeaders::of(GzDecoder::new(Hashed::new(file)).take(ARCHIVE_LIMIT));
    let mut archive = tar::Archive::new(unpacked);
    let mut contents = Contents::new();
    let mut total = 0;
    let mut entries = archive.entries().map_err(OpError::path("read the blob", &path))?;
    while let Some(entry) = members.next_of(&mut entries) {
        let mut entry = entry.map_err(OpError::path("unpack the blob", &path))?;
        let kind = entry.header().entry_type();
        if kind.is_dir() || kind.is_symlink() || kind.is_hard_link() || kind.is_pax_global_extensions() {
            std::io::copy(&mut entry, &mut std::io::sink()).map_err(OpError::path("unpack the blob", &path))?;
            continue;
        }
        let name = member_name(&entry.path_bytes()).map_err(broken)?;
        if !kind.is_file() {
            return Err(broken(format!("{name} is not a regular file")));
        }
        total += entry.size();
        if entry.size() > MEMBER_LIMIT || total > ARCHIVE_LIMIT {
            return Err(broken(format!(
                "{name} claims {} bytes, more than any program that kubexm installs",
                entry.size()
            )));
        }
        let mut reader = Hashed::new(&mut entry as &mut dyn Read);
        take(&name, &mut reader).map_err(OpError::path("unpack the blob", &path))?;
        if contents.insert(name.clone(), reader.hasher.finish()).is_some() {
            return Err(broken(format!("{name} is in it twice")));
        }
    }
    let unpacked = archive.into_inner().into_inner();
    if unpacked.limit() == 0 {
        return Err(broken(format!(
            "it has more than {ARCHIVE_LIMIT} bytes, more than any program that kubexm installs"
        )));
    }
    let mut rest = unpacked.into_inner().into_inner();
    std::io::copy(&mut rest, &mut std::io::sink()).map_err(OpError::path("read the blob", &path))?;
    let found = rest.hasher.finish();
    if found != *blob {
        // It is removed, so that the next run sends it again.
        fsio::remove(&path)?;
        return Err(broken(format!("the blob's bytes have the digest {found}; run again, and it is sent once more")));
    }
    Ok(contents)
}

fn member_name(bytes: &[u8]) -> Result<String, String> {
    let name = std::str::from_utf8(bytes).map_err(|_| "a member's name is not UTF-8".to_owned())?;
    let name = name.trim_start_matches("./");
    if name.is_empty() || name.starts_with('/') || name.split('/').any(|part| part == "..") {
        return Err(format!("the member name {name:?} points outside of the archive"));
    }
    Ok(name.to_owned())
}

struct Hashed<R> {
    inner: R,
    hasher: Hasher,
}

impl<R> Hashed<R> {
    fn new(inner: R) -> Self {
        Self { inner, hasher: Hasher::default() }
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.write_all(&buffer[..count])?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use crate::fake::host::archive;
    use kubexm_plan::op::AllInto;
    use std::collections::BTreeMap;

    impl Cases for Unpacked {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[
            ("members of an archive", |h| {
                h.put("/usr/local/bin/ctr", "old");
                let blob = h.blob(archive(&[("bin/ctr", "new ctr"), ("bin/containerd", "new containerd")]));
                let members = BTreeMap::from([("bin/ctr".to_owned(), "/usr/local/bin/ctr".to_owned())]);
                Unpacked { blob, members, all_into: None }
            }),
            ("a whole archive folder", |h| {
                let blob = h.blob(archive(&[("./bridge", "b"), ("./host-local", "h")]));
                let all = AllInto { folder: String::new(), directory: "/opt/cni/bin".into() };
                Unpacked { blob, members: BTreeMap::new(), all_into: Some(all) }
            }),
        ]);
    }
}
