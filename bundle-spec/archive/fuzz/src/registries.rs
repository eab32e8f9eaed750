//! Harbor's installer, whose list of images is in an archive in an archive.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use kubexm_builder::harbor;

const LIST: &str = r#"[{"Config":"a.json","RepoTags":["goharbor/harbor-core:v2.14.0","goharbor/registry-photon:v2.14.0"],"Layers":["a/layer.tar"]},{"RepoTags":null}]"#;

/// Any bytes as the installer, as its archive of images, and as their list.
pub(crate) fn harbor(bytes: &[u8]) {
    let _ = harbor::images(bytes);
    let _ = harbor::images(installer(&packed(bytes)).as_slice());
    let _ = harbor::images(installer(&images(bytes)).as_slice());
}

/// An installer, its archive of images without compression, and their list.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let list = LIST.as_bytes();
    vec![installer(&images(list)), archive("manifest.json", list), list.to_vec()]
}

fn installer(images: &[u8]) -> Vec<u8> {
    packed(&archive("harbor/harbor.v2.14.0.tar.gz", images))
}

fn images(list: &[u8]) -> Vec<u8> {
    packed(&archive("manifest.json", list))
}

fn archive(name: &str, content: &[u8]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, name, content).unwrap();
    archive.into_inner().unwrap()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}
