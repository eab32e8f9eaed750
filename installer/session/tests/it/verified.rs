//! Whether the verification of a bundle is remembered depends on its file system.

use std::io;
use std::path::Path;

use kubexm_session::{Answer, BundleOptions, FileSystems, Medium, Session};

use crate::sessions::Site;

/// Every path is on this type of file system, on such a medium.
struct All(u32, Medium);

impl FileSystems for All {
    fn magic(&self, _: &Path) -> io::Result<u32> {
        Ok(self.0)
    }

    fn medium(&self, _: &Path, _: &Path) -> io::Result<Medium> {
        Ok(self.1)
    }
}

const BEFORE: &str = "was verified before";
const EXT4: All = All(0xef53, Medium::Fixed);

fn verify(site: &Site, session: &Session<'_>) -> String {
    let before = site.events().len();
    let bundle = BundleOptions { bundle: vec![site.bundle.clone()], ..BundleOptions::default() };
    session.open(&bundle).unwrap().verify(session).unwrap();
    site.events()[before..].to_owned()
}

fn remembered(site: &Site) -> usize {
    std::fs::read_dir(site.home.verified()).map_or(0, Iterator::count)
}

#[test]
fn nothing_is_remembered_of_a_bundle_where_a_file_can_be_replaced_unnoticed() {
    let types = [
        (0x4d44, "on FAT,"),
        (0x2011_bab0, "on exFAT,"),
        (0xff53_4d42, "on CIFS,"),
        (0xfe53_4d42, "on SMB2,"),
        (0x6969, "on NFS,"),
        (0x6573_5546, "on FUSE,"),
    ];
    for (magic, name) in types {
        let (site, file_systems) = (Site::new("red", &["red1"], Answer::Yes), All(magic, Medium::Fixed));
        let session = Session { file_systems: &file_systems, ..site.session() };
        for _ in 0..2 {
            let events = verify(&site, &session);
            assert_eq!(events.matches(name).count(), 1, "{events}");
            assert!(events.contains("checksums match") && !events.contains(BEFORE), "{events}");
            assert_eq!(remembered(&site), 0);
        }
    }
}

#[test]
fn nothing_is_remembered_of_a_bundle_on_a_medium_that_can_be_changed_elsewhere() {
    for (medium, name) in
        [(Medium::Removable, "on a removable disk,"), (Medium::Unknown, "on a disk that may not be in this machine,")]
    {
        // An entry of before does not count either.
        let site = Site::new("red", &["red1"], Answer::Yes);
        verify(&site, &Session { file_systems: &EXT4, ..site.session() });
        let file_systems = All(0xef53, medium);
        let events = verify(&site, &Session { file_systems: &file_systems, ..site.session() });
        assert!(events.contains(name) && events.contains("checksums match") && !events.contains(BEFORE), "{events}");
        std::fs::remove_dir_all(site.home.verified()).unwrap();
        verify(&site, &Session { file_systems: &file_systems, ..site.session() });
        assert_eq!(remembered(&site), 0);
    }
}

#[test]
fn an_entry_does_not_count_for_a_bundle_on_another_kind_of_file_system() {
    let site = Site::new("red", &["red1"], Answer::Yes);
    verify(&site, &Session { file_systems: &EXT4, ..site.session() });
    assert_eq!(remembered(&site), 1);
    let events = verify(&site, &Session { file_systems: &All(0x4d44, Medium::Fixed), ..site.session() });
    assert!(events.contains("checksums match") && !events.contains(BEFORE), "{events}");
}

#[test]
fn on_a_local_disk_and_in_memory_a_bundle_is_verified_once() {
    for folder in ["/var/tmp", "/dev/shm"] {
        let mut site = Site::new("red", &["red1"], Answer::Yes);
        let there = tempfile::tempdir_in(folder).unwrap();
        let moved = there.path().join("red.tar.zst");
        std::fs::copy(&site.bundle, &moved).unwrap();
        site.bundle = moved;
        let first = verify(&site, &site.session());
        assert!(!first.contains("every use verifies it anew") && !first.contains(BEFORE), "{first}");
        let second = verify(&site, &site.session());
        assert!(second.contains(BEFORE) && !second.contains("checksums match"), "{second}");
    }
}
