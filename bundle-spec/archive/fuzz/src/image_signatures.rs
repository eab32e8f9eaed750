//! Signatures of images: a manifest and the layer in it, with a NUL byte between; and trusted roots.

use std::sync::LazyLock;

use kubexm_signing::image::{Image, ImageKey, ImagePolicy, TrustedRoot, check};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{Acceptance, ImageSignatureRule, MaterialFile, SignedAs, SignerIdentity};
use kubexm_spec::lock::{Descriptor, Referrer};

const KEY: &str = include_str!("../corpus/public_key/ecdsa.pub");
/// That of the corpus, whose keys were thrown away.
const ROOT: &str = include_str!("../corpus/image_signature/root.json");
/// What the signatures of the corpus are about.
const IMAGE: &str = "an image";

/// A key that signed nothing of the corpus, and an identity that nothing in it is of: whatever is read, nothing satisfies this.
static POLICY: LazyLock<ImagePolicy> = LazyLock::new(|| {
    let file = |name: &str| MaterialFile::parse(name).unwrap();
    let identity =
        |subject: &str| SignerIdentity { issuer: "https://nobody.test".to_owned(), subject: subject.to_owned() };
    let rule = ImageSignatureRule {
        repositories: vec!["*".to_owned()],
        keys: vec![file("key")],
        identities: vec![identity("*@nobody.test")],
        trusted_root: Some(file("root")),
        accept: Acceptance::Signed,
        signed_as: SignedAs::Any,
    };
    let text = |file: &MaterialFile| Ok(if file.name == "key" { KEY } else { ROOT }.to_owned());
    ImagePolicy::of(&[rule], &text).unwrap().unwrap()
});

pub(crate) fn signature(bytes: &[u8]) {
    let (manifest, layer) = match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, bytes),
    };
    let described = |media_type: &str, bytes: &[u8]| Descriptor {
        media_type: media_type.to_owned(),
        digest: Digest::of(bytes),
        size: bytes.len() as u64,
    };
    let image = described("application/vnd.oci.image.manifest.v1+json", IMAGE.as_bytes());
    let simple = described("application/vnd.dev.cosign.simplesigning.v1+json", layer);
    let carrier = described("application/vnd.oci.image.manifest.v1+json", manifest);
    let carrier_digest = carrier.digest;
    let referrers = [Referrer { subject: image.digest, tag: None, manifest: carrier, blobs: vec![simple] }];
    let image = Image { reference: "a.test/x:1", target: &image, manifest: &image, blobs: &[], referrers: &referrers };
    let read = |wanted: &Descriptor| Ok(if wanted.digest == carrier_digest { manifest } else { layer }.to_vec());
    let unsigned = check(&POLICY, &image, &read).unwrap_err();
    assert!(unsigned.to_string().chars().all(|c| !c.is_control()));
    let _ = TrustedRoot::parse(bytes);
    let _ = ImageKey::from_spki(bytes);
}
