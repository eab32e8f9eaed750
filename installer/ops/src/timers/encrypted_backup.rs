//! A backup of etcd that is encrypted for the recipients of `spec.etcd.backup`. In clear the snapshot is only in kubexm's own folder of the
//! host, where `backup` makes its own too, and never where the backups are: that may be a disk or an export of others.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use age::Encryptor;
use kubexm_plan::op::SNAPSHOTS;
use kubexm_plan::timers::BackupConfig;

use super::backup_folder;
use crate::dirfd::DirFd;
use crate::ops::etcd_snapshot;
use crate::{Machine, OpError, age_file, fsio};

/// What the name of an encrypted one ends with.
pub(super) const END: &str = ".age";
/// Bytes that are written at once.
const BUFFER: usize = 1 << 17;

/// Takes a verified snapshot, and writes it encrypted as `file` into the folder of the backups. The snapshot is removed however that ends.
pub(super) fn save(machine: &Machine, config: &BackupConfig, name: &str, file: &str) -> Result<(), OpError> {
    // A wrong key is found before etcd is read.
    let encryptor = age_file::encryptor(&config.recipients)?;
    fsio::private_folder(&machine.path(SNAPSHOTS))?;
    let plain = etcd_snapshot::take(machine, SNAPSHOTS, name, backup_folder::spare(machine, SNAPSHOTS)?);
    let saved = plain.and_then(|plain| {
        let saved = encrypt(machine, encryptor, &plain, &config.dir, [name, file]);
        etcd_snapshot::discard(machine, &plain).and(saved)
    });
    // It is empty unless somebody keeps a snapshot in it.
    fsio::remove_folder(&machine.path(SNAPSHOTS)).map(drop).and(saved)
}

/// A snapshot into a folder: under a hidden name that the next run of this host removes, then renamed.
fn encrypt(
    machine: &Machine,
    encryptor: Encryptor,
    plain: &str,
    folder: &str,
    [name, file]: [&str; 2],
) -> Result<(), OpError> {
    // The snapshot may have taken half an hour.
    backup_folder::refuse_open(machine, folder)?;
    let plain = machine.path(plain);
    let size = plain.metadata().map_err(OpError::path("look at", &plain))?.len();
    etcd_snapshot::refuse_full(machine, folder, size, backup_folder::spare(machine, folder)?)?;
    let partial = machine.path(format!("{folder}/.{name}.partial"));
    let written = write(encryptor, &plain, &partial)
        .and_then(|()| fsio::rename(&partial, &machine.path(format!("{folder}/{file}"))));
    if written.is_err() {
        fsio::remove(&partial)?;
    }
    written
}

/// In pieces: a snapshot may have several GiB.
fn write(encryptor: Encryptor, plain: &Path, partial: &Path) -> Result<(), OpError> {
    let mut input = File::open(plain).map_err(OpError::path("read", plain))?;
    let (folder, name) = DirFd::of(partial)?;
    let copy = || -> io::Result<()> {
        let output = BufWriter::with_capacity(BUFFER, folder.create(name)?);
        let mut writer = encryptor.wrap_output(output)?;
        io::copy(&mut input, &mut writer)?;
        let output = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        output.sync_all()
    };
    copy().map_err(OpError::path("write", partial))
}
