//! How a blob is stored follows from what it is declared to be, not from its first bytes: layout.json is before blobs
//! that are still being fetched, and must not depend on their order of arrival.

use kubexm_archive::Encoding;
use kubexm_spec::lock::{Content, LockItem, Referrer};
use kubexm_spec::{Digest, Lock};
use std::collections::HashMap;

/// Ends of names of files that a second compression does not make smaller.
const COMPRESSED: [&str; 11] = [".gz", ".tgz", ".xz", ".txz", ".zst", ".tzst", ".bz2", ".tbz2", ".deb", ".rpm", ".zip"];

/// The encoding of every blob of the lock. A blob of several artifacts goes by the first of them.
pub fn declared(lock: &Lock) -> HashMap<Digest, Encoding> {
    let mut all = HashMap::new();
    for (digest, encoding) in lock.items.iter().flat_map(of_item) {
        all.entry(digest).or_insert(encoding);
    }
    all
}

fn of_item(item: &LockItem) -> Vec<(Digest, Encoding)> {
    match &item.content {
        Content::File { file_name, digest, .. } => vec![(*digest, of_file(file_name))],
        Content::Image { target, manifest, blobs, referrers, .. } => {
            let attached = referrers.iter().flat_map(Referrer::descriptors);
            let all = [target, manifest].into_iter().chain(blobs).chain(attached);
            all.map(|descriptor| (descriptor.digest, of_media_type(&descriptor.media_type))).collect()
        }
    }
}

/// The encoding of a file by its name.
pub fn of_file(name: &str) -> Encoding {
    let name = name.to_ascii_lowercase();
    raw_if(COMPRESSED.iter().any(|end| name.ends_with(end)))
}

/// Ends of names that programs have.
const ARCHITECTURES: [&str; 4] = ["amd64", "arm64", "x86_64", "aarch64"];

/// Whether a file may be a program by its name: one without an extension (a part of a version is none), or with an architecture for one.
pub fn may_be_program(name: &str) -> bool {
    let Some((_, extension)) = name.rsplit_once('.') else { return true };
    ARCHITECTURES.contains(&extension) || extension.starts_with(|first: char| first.is_ascii_digit())
}

/// OCI image-spec, "Layer media types", and Docker's `…tar.gzip`.
fn of_media_type(media_type: &str) -> Encoding {
    raw_if(media_type.ends_with("gzip") || media_type.ends_with("+zstd"))
}

const fn raw_if(compressed: bool) -> Encoding {
    if compressed { Encoding::Raw } else { Encoding::Zstd }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_is_not_compressed_again() {
        for name in ["containerd-2.2.1-linux-amd64.tar.gz", "cni-plugins.TGZ", "socat_1.8_amd64.deb", "x.rpm", "y.zst"]
        {
            assert_eq!(of_file(name), Encoding::Raw, "{name}");
        }
        for name in ["kubeadm", "kubexm-install", "notes.txt", "tar.gz.sig"] {
            assert_eq!(of_file(name), Encoding::Zstd, "{name}");
        }
    }

    #[test]
    fn programs_are_known_by_name() {
        for name in ["kubeadm", "runc.amd64", "containerd-shim-runc-v2", "kubectl.1.33", "tool-1.2.0"] {
            assert!(may_be_program(name), "{name}");
        }
        for name in ["disk.img", "a.bin", "dump.sql", "image.tar", "notes.txt", "y.qcow2"] {
            assert!(!may_be_program(name), "{name}");
        }
    }

    #[test]
    fn layers_go_by_their_media_type() {
        let layer = "application/vnd.oci.image.layer.v1.tar";
        assert_eq!(of_media_type(layer), Encoding::Zstd);
        for raw in
            [&format!("{layer}+gzip"), &format!("{layer}+zstd"), "application/vnd.docker.image.rootfs.diff.tar.gzip"]
        {
            assert_eq!(of_media_type(raw), Encoding::Raw, "{raw}");
        }
        assert_eq!(of_media_type("application/vnd.oci.image.manifest.v1+json"), Encoding::Zstd);
    }
}
