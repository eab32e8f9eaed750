//! Whole bundles, and bundles of which one part is any bytes while all checksums hold, so that what is behind them is reached.

use std::path::Path;

use kubexm_archive::{
    Bundle, Contents, Delta, Group, Options, check_references, members, verify, verify_quick, verify_stream, write,
    write_contents,
};
use kubexm_spec::Digest;

use crate::memory;
use crate::support::forge::Forged;
use crate::support::{blob, inputs, manifest as manifest_of, noise, small};

/// Everything that a reader does with a bundle from strangers.
fn read_all(bytes: Vec<u8>) {
    let Ok(bundle) = memory::open(bytes) else { return };
    let _ = verify_quick(&bundle, 1, &|_, _| {});
    let _ = verify(&bundle, 1, &|_, _| {});
    let _ = check_references(&bundle);
    for member in bundle.members() {
        let _ = bundle.read(&member.name, 1 << 20);
        let part = bundle.part(&member.name, member.size / 2);
        let _ = part.map(|part| std::io::copy(&mut part.without_verification(), &mut std::io::sink()));
        let from = bundle.member_from(&member.name, member.size / 2);
        let _ = from.map(|mut from| std::io::copy(&mut from, &mut std::io::sink()));
    }
}

/// A bundle in one piece.
pub(crate) fn open(bytes: &[u8]) {
    read_all(bytes.to_vec());
}

/// The same, read once. What a stream takes for right, a reader of the file takes for right too.
pub(crate) fn stream(bytes: &[u8]) {
    let right = verify_stream(Path::new("-"), bytes, 1, &|_, _| {}).is_ok_and(|streamed| streamed.bytes.is_ok());
    let file = memory::open(bytes.to_vec()).is_ok_and(|bundle| verify(&bundle, 1, &|_, _| {}).is_ok());
    assert_eq!(right, file, "a stream and a file are judged differently");
}

/// Any end behind honest frames.
pub(crate) fn tail(bytes: &[u8]) {
    let honest = Forged::honest(&small()).bytes();
    let end = honest.windows(4).rposition(|window| window == 0x184D_2A5D_u32.to_le_bytes()).unwrap();
    read_all([&honest[..end], bytes].concat());
}

/// Any bytes as header and content of a member whose frame and digest hold: 512 bytes of header, then content.
pub(crate) fn tar(bytes: &[u8]) {
    let (header, content) = bytes.split_at(bytes.len().min(512));
    let contents = [("index.json".to_owned(), content.to_vec()), blob(noise(40, 3))];
    let mut file = Forged::honest(&contents).bytes();
    // The header is where the honest one does; every digest is made anew.
    let honest = file.windows(11).position(|window| window == b"index.json\0").unwrap();
    file[honest..honest + header.len()].copy_from_slice(header);
    read_all(seal(file));
}

/// Makes checksums of frames, digests of the trailer and its own fit what is there now.
fn seal(mut file: Vec<u8>) -> Vec<u8> {
    let word = |file: &[u8], at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let count = word(&file, file.len() - 9);
    let table = file.len() - 9 - 8 * count;
    let (mut offset, mut digests) = (0, Vec::new());
    for entry in 0..count - 1 {
        let len = word(&file, table + 8 * entry);
        let frame = &mut file[offset..offset + len];
        let mut content = Vec::new();
        let mut at = 9;
        loop {
            let header = u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], 0]);
            let size = (header >> 3) as usize;
            content.extend_from_slice(&frame[at + 3..at + 3 + size]);
            at += 3 + size;
            if header & 1 == 1 {
                break;
            }
        }
        let mut hasher = twox_hash::XxHash64::with_seed(0);
        std::hash::Hasher::write(&mut hasher, &content);
        frame[at..at + 4].copy_from_slice(&(std::hash::Hasher::finish(&hasher) as u32).to_le_bytes());
        // The second is the signature's, in a bundle whose manifest.json has one frame.
        if entry != 1 {
            digests.extend_from_slice(Digest::of(&file[offset..offset + len]).as_bytes());
        }
        offset += len;
    }
    let payload = offset + 8;
    let end = payload + word(&file, offset + 4) - 32;
    file[end - digests.len()..end].copy_from_slice(&digests);
    let own = Digest::of(&file[payload..end]);
    file[end..end + 32].copy_from_slice(own.as_bytes());
    file
}

/// Any bytes as the second volume of a split bundle, by itself and behind the first.
pub(crate) fn volumes(bytes: &[u8]) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let first = split().swap_remove(0);
    let paths = ["x.tar.zst.001", "x.tar.zst.002"].map(|name| dir.path().join(name));
    std::fs::write(&paths[0], first).unwrap();
    std::fs::write(&paths[1], bytes).unwrap();
    if let Ok(bundle) = Bundle::open_all(&paths) {
        let _ = verify(&bundle, 1, &|_, _| {});
    }
    let _ = Bundle::open_all(&paths[1..]);
    let _ = Bundle::open(dir.path());
}

fn split() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let contents = [small(), vec![blob(noise(2_000, 9))]].concat();
    let options = Options { level: 1, threads: 1, split: Some(20_000) };
    let target = dir.path().join("x.tar.zst");
    let written = write(&target, &manifest_of(&contents), inputs(&contents), &options, &|_, _| {}).unwrap();
    written.files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Of three members that are compressed together.
fn grouped() -> Vec<u8> {
    let contents = [small(), vec![blob(b"text ".repeat(310)), blob(b"more text ".repeat(300))]].concat();
    let manifest = manifest_of(&contents);
    let groups = vec![Group { first: contents[5].0.clone(), level: 3, members: 3 }];
    let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    let (inputs, delta) = (inputs(&contents), Delta::default());
    let contents = Contents { manifest: &manifest, inputs, delta, signatures: &[], groups, sources: None };
    write_contents(file.path(), contents, &Options::default(), &|_, _| {}).unwrap();
    std::fs::read(file.path()).unwrap()
}

/// Any bytes as manifest.json and layout.json, split at the first zero byte.
pub(crate) fn manifest(bytes: &[u8]) {
    let mut forged = Forged::honest(&small());
    let mut documents = bytes.splitn(2, |byte| *byte == 0);
    forged.manifest_json = documents.next().unwrap_or_default().to_vec();
    if let Some(layout) = documents.next() {
        forged.layout_json = layout.to_vec();
    }
    if !forged.manifest_json.is_empty() && !forged.layout_json.is_empty() {
        read_all(forged.bytes());
    }
}

/// Any bytes as index.json and as an image manifest that it names, split at the first zero byte.
pub(crate) fn references(bytes: &[u8]) {
    let mut documents = bytes.splitn(2, |byte| *byte == 0);
    let index = documents.next().unwrap_or_default();
    let image = blob(documents.next().unwrap_or(index).to_vec());
    let named = String::from_utf8_lossy(index).replace("IMAGE", image.0.trim_start_matches(members::BLOBS));
    let contents = [("index.json".to_owned(), named.into_bytes()), image];
    if let Ok(bundle) = memory::open(Forged::honest(&contents).bytes()) {
        let _ = check_references(&bundle);
    }
}

/// Honest inputs, made and not stored.
pub(crate) fn seeds(name: &str) -> Vec<Vec<u8>> {
    let forged = Forged::honest(&small());
    let honest = forged.bytes();
    let end = honest.windows(4).rposition(|window| window == 0x184D_2A5D_u32.to_le_bytes()).unwrap();
    let written = || {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        write(file.path(), &manifest_of(&small()), inputs(&small()), &Options::default(), &|_, _| {}).unwrap();
        std::fs::read(file.path()).unwrap()
    };
    let table = honest.len() - 17 - 8 * (small().len() + 5);
    match name {
        "open" | "stream" => {
            vec![honest, written(), split().concat(), grouped(), Forged::grouped(&small(), 3..6).bytes()]
        }
        "tail" => vec![honest[end..].to_vec()],
        "seek_table" => vec![honest[table..].to_vec()],
        "trailer" => vec![honest[end..table].to_vec()],
        "volumes" => split(),
        "volume_header" => split().iter().map(|volume| volume[..96].to_vec()).collect(),
        "manifest" => {
            let grouped = Forged::grouped(&small(), 3..6);
            [forged, grouped].map(|one| [one.manifest_json, vec![0], one.layout_json].concat()).to_vec()
        }
        "tar_header" => vec![honest[12..524].to_vec()],
        "tar" => {
            let at = honest.windows(11).position(|window| window == b"index.json\0").unwrap();
            vec![honest[at..at + 546].to_vec()]
        }
        "frame" => {
            let zstd = |content: &[u8]| {
                let mut encoder = zstd::bulk::Compressor::new(1).unwrap();
                encoder.set_parameter(zstd::zstd_safe::CParameter::ChecksumFlag(true)).unwrap();
                [&(content.len() as u32).to_le_bytes()[..], &encoder.compress(content).unwrap()].concat()
            };
            let raw = [&1536_u32.to_le_bytes()[..], &honest[..1552]].concat();
            vec![zstd(&b"text ".repeat(300)), zstd(&vec![0; 1 << 20]), raw]
        }
        _ => Vec::new(),
    }
}
