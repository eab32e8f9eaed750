//! For tests: a store in which names of blobs can be made, and cannot be brought to the disk.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use kubexm_spec::Digest;

/// Somebody without any right.
const USER: u32 = 54_321;

/// `put` brings this blob into a store and says that it is there: it does, and not where the folder of blobs cannot be synced.
pub(super) fn assert_names_are_synced<T: Send>(blob: &[u8], put: impl Fn(&Path) -> Result<T, String> + Sync) {
    let folder = tempfile::tempdir().unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        chown(folder.path(), Some(USER), Some(USER)).unwrap();
    }
    let store = folder.path().join("store");
    let blobs = store.join("blobs/sha256");
    std::thread::scope(|scope| {
        let tested = scope.spawn(|| {
            if is_root {
                // root can read every folder. Applies to this thread only.
                let user = rustix::process::Uid::from_raw(USER);
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            }
            put(&store).unwrap_or_else(|error| panic!("{error}"));
            fs::remove_file(blobs.join(Digest::of(blob).hex())).unwrap();
            // Entries can be created, but the folder cannot be opened for syncing.
            fs::set_permissions(&blobs, Permissions::from_mode(0o300)).unwrap();
            let failed = put(&store).err().unwrap_or_default();
            fs::set_permissions(&blobs, Permissions::from_mode(0o700)).unwrap();
            assert!(failed.contains("sync the folder"), "{failed:?}");
        });
        tested.join().unwrap();
    });
}
