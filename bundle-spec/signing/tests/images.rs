//! Signatures of images: those that the real cosign made with each kind of key, and those of identities, by an authority and
//! logs of our own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod fulcio;

use std::collections::{BTreeMap, HashMap};

use kubexm_signing::image::{Image, ImagePolicy, Unsigned, check};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{Acceptance, ImageSignatureRule, MaterialFile, SignedAs, SignerIdentity};
use kubexm_spec::lock::{Descriptor, ImageSigner, Referrer, SignatureCheck};
use serde_json::{Value, json};

use fulcio::{Change, Fulcio, ISSUER, LOGGED, SUBJECT};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const REFERENCE: &str = "registry.test/team/app:v1";

/// An image with what is attached to it.
struct Attached {
    blobs: HashMap<Digest, Vec<u8>>,
    reference: String,
    target: Descriptor,
    manifest: Descriptor,
    nested: Vec<Descriptor>,
    referrers: Vec<Referrer>,
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Descriptor {
    Descriptor { media_type: media_type.to_owned(), digest: Digest::of(bytes), size: bytes.len() as u64 }
}

impl Attached {
    /// An index with the manifest of one platform in it.
    fn new() -> Self {
        let mut all = Self {
            blobs: HashMap::new(),
            reference: REFERENCE.to_owned(),
            target: descriptor(INDEX, b""),
            manifest: descriptor(MANIFEST, b"a manifest"),
            nested: Vec::new(),
            referrers: Vec::new(),
        };
        let index = json!({"manifests": [{"digest": all.manifest.digest.to_string()}]});
        all.target = all.put(INDEX, index.to_string().as_bytes());
        all
    }

    fn put(&mut self, media_type: &str, bytes: &[u8]) -> Descriptor {
        let descriptor = descriptor(media_type, bytes);
        self.blobs.insert(descriptor.digest, bytes.to_vec());
        descriptor
    }

    fn attach(&mut self, media_type: &str, content: &[u8], annotations: &BTreeMap<&str, String>) {
        let layer = self.put(media_type, content);
        let mut listed = serde_json::to_value(&layer).unwrap();
        listed["annotations"] = json!(annotations);
        self.attach_manifest(&json!({"layers": [listed]}), vec![layer]);
    }

    fn attach_manifest(&mut self, manifest: &Value, blobs: Vec<Descriptor>) {
        let manifest = self.put(MANIFEST, manifest.to_string().as_bytes());
        self.referrers.push(Referrer { subject: self.target.digest, tag: None, manifest, blobs });
    }

    fn check(&self, rule: ImageSignatureRule, files: &[(&str, &str)]) -> Result<SignatureCheck, Unsigned> {
        let text = |file: &MaterialFile| {
            let found = files.iter().find(|(name, _)| *name == file.name);
            found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "missing".to_owned())
        };
        let policy = ImagePolicy::of(&[rule], &text).unwrap().unwrap();
        let image = Image {
            reference: &self.reference,
            target: &self.target,
            manifest: &self.manifest,
            blobs: &self.nested,
            referrers: &self.referrers,
        };
        let read = |wanted: &Descriptor| self.blobs.get(&wanted.digest).cloned().ok_or_else(|| "not here".to_owned());
        check(&policy, &image, &read)
    }
}

fn rule() -> ImageSignatureRule {
    ImageSignatureRule {
        repositories: vec!["registry.test".to_owned()],
        keys: Vec::new(),
        identities: Vec::new(),
        trusted_root: None,
        accept: Acceptance::Signed,
        signed_as: SignedAs::Same,
    }
}

/// A thousand rules may name one file.
#[test]
fn a_trusted_root_is_read_once_for_all_rules_that_name_it() {
    let root = Fulcio::new().root();
    let asked = std::cell::Cell::new(0);
    let text = |_: &MaterialFile| {
        asked.set(asked.get() + 1);
        Ok(root.clone())
    };
    let rules: Vec<_> = ["a.test", "b.test", "c.test"]
        .map(|name| ImageSignatureRule {
            repositories: vec![name.to_owned()],
            ..with_identity("https://i.test", "a@b")
        })
        .into();
    assert!(ImagePolicy::of(&rules, &text).unwrap().is_some());
    assert_eq!(asked.get(), 1);
}

fn with_keys(files: &[&str]) -> ImageSignatureRule {
    let keys = files.iter().map(|file| MaterialFile::parse(file).unwrap()).collect();
    ImageSignatureRule { keys, repositories: vec!["*".to_owned()], ..rule() }
}

fn with_identity(issuer: &str, subject: &str) -> ImageSignatureRule {
    let identity = SignerIdentity { issuer: issuer.to_owned(), subject: subject.to_owned() };
    let trusted_root = Some(MaterialFile::parse("root.json").unwrap());
    ImageSignatureRule { identities: vec![identity], trusted_root, ..rule() }
}

// What cosign 2.6.5 signed with keys that `cosign import-key-pair` took; each kind in both forms but P-256, whose key the other
// tests have.
const PAYLOAD: &[u8] = include_bytes!("cosign/payload.json");
const LAYERS: &str = include_str!("cosign/manifest.json");
const KEYS: [(&str, &str, Option<&str>); 4] = [
    ("p256.pub", include_str!("cosign/p256.pub"), None),
    ("p384.pub", include_str!("cosign/p384.pub"), Some(include_str!("cosign/p384.bundle.json"))),
    ("rsa.pub", include_str!("cosign/rsa.pub"), Some(include_str!("cosign/rsa.bundle.json"))),
    ("ed25519.pub", include_str!("cosign/ed25519.pub"), Some(include_str!("cosign/ed25519.bundle.json"))),
];

/// The image that cosign signed, which is in no index.
fn signed_by_cosign() -> Attached {
    let payload: Value = serde_json::from_slice(PAYLOAD).unwrap();
    let digest = payload["critical"]["image"]["docker-manifest-digest"].as_str().unwrap().parse().unwrap();
    let manifest = Descriptor { media_type: MANIFEST.to_owned(), digest, size: 1 };
    let reference = "127.0.0.1:5977/a/img:1".to_owned();
    Attached { reference, target: manifest.clone(), manifest, ..Attached::new() }
}

#[test]
fn each_kind_of_key_that_cosign_signs_with_is_verified_in_both_forms() {
    for (name, key, bundle) in KEYS {
        let mut image = signed_by_cosign();
        let layer = image.put(SIMPLE_SIGNING, PAYLOAD);
        image.attach_manifest(&serde_json::from_str(LAYERS).unwrap(), vec![layer]);
        let signed = image.check(with_keys(&[name]), &[(name, key)]).unwrap();
        let signer = signed.signature.unwrap().signer;
        assert!(matches!(&signer, ImageSigner::Key { file, .. } if file == name), "{signer:?}");
        let Some(bundle) = bundle else { continue };
        let mut image = signed_by_cosign();
        image.attach(BUNDLE, bundle.as_bytes(), &BTreeMap::new());
        assert!(image.check(with_keys(&[name]), &[(name, key)]).is_ok(), "{name}");
        for (other, key, _) in KEYS.iter().filter(|(other, ..)| *other != name) {
            assert!(image.check(with_keys(&[other]), &[(other, key)]).is_err(), "{other} for {name}");
        }
    }
}

#[test]
fn a_payload_with_one_other_byte_is_not_signed() {
    let (name, key, _) = KEYS[0];
    let layers: Value = serde_json::from_str(LAYERS).unwrap();
    let signature = layers["layers"][0]["annotations"]["dev.cosignproject.cosign/signature"].as_str().unwrap();
    let annotations = BTreeMap::from([("dev.cosignproject.cosign/signature", signature.to_owned())]);
    let said = |payload: &[u8]| {
        let mut image = signed_by_cosign();
        image.attach(SIMPLE_SIGNING, payload, &annotations);
        image.check(with_keys(&[name]), &[(name, key)]).map_err(|unsigned| unsigned.problem)
    };
    assert!(said(PAYLOAD).is_ok());
    for at in 0..PAYLOAD.len() {
        let mut changed = PAYLOAD.to_vec();
        changed[at] ^= 1;
        assert!(said(&changed).is_err(), "byte {at}");
    }
    let text = String::from_utf8(PAYLOAD.to_vec()).unwrap();
    let another = text.replace("cosign container image signature", "atomic container signature");
    assert!(said(another.as_bytes()).unwrap_err().contains("is not a cosign container image signature"));
}

#[test]
fn a_signed_index_holds_for_the_manifests_in_it_and_for_no_other() {
    let fulcio = Fulcio::new();
    let rule = || with_identity(ISSUER, SUBJECT);
    let files = [("root.json", fulcio.root())];
    let files = files.iter().map(|(name, text)| (*name, text.as_str())).collect::<Vec<_>>();
    let mut image = Attached::new();
    let (payload, annotations) = fulcio.simple_signing(&image.target.digest, Change::None);
    image.attach(SIMPLE_SIGNING, &payload, &annotations);
    let signed = image.check(rule(), &files).unwrap();
    assert_eq!(signed.signature.unwrap().subject, image.target.digest);
    let inside = image.manifest.clone();
    image.manifest = descriptor(MANIFEST, b"a manifest of somebody else");
    let refused = image.check(rule(), &files).unwrap_err();
    assert!(refused.problem.contains("an index that the manifest of this platform is not in"), "{refused}");
    // An index in the index.
    image.manifest = inside;
    let nested = image.put(INDEX, json!({"manifests": [{"digest": image.manifest.digest}]}).to_string().as_bytes());
    image.target = image.put(INDEX, json!({"manifests": [{"digest": nested.digest}]}).to_string().as_bytes());
    image.referrers.clear();
    let (payload, annotations) = fulcio.simple_signing(&image.target.digest, Change::None);
    image.attach(SIMPLE_SIGNING, &payload, &annotations);
    assert!(image.check(rule(), &files).is_err());
    image.nested.push(nested);
    assert!(image.check(rule(), &files).is_ok());
}

#[test]
fn an_identity_is_whom_the_certificate_is_for_and_nobody_else() {
    let fulcio = Fulcio::new();
    let root = fulcio.root();
    let files = [("root.json", root.as_str())];
    for bundle in [false, true] {
        let image = fulcio.signed(Attached::new(), bundle, Change::None);
        let signed = image.check(with_identity(ISSUER, SUBJECT), &files).unwrap();
        let wanted = ImageSigner::Identity { issuer: ISSUER.into(), subject: SUBJECT.into(), logged: LOGGED };
        assert_eq!(signed.signature.unwrap().signer, wanted);
        assert!(image.check(with_identity(ISSUER, "https://ci.test/team/*@refs/tags/*"), &files).is_ok());
        for (issuer, subject) in [
            (ISSUER, "https://ci.test/team/*@refs/heads/*"),
            ("https://other.test", SUBJECT),
            (ISSUER, "somebody@ci.test"),
        ] {
            let refused = image.check(with_identity(issuer, subject), &files).unwrap_err();
            assert!(refused.problem.contains(&format!("it is by {SUBJECT} ({ISSUER})")), "{refused}");
        }
    }
}

#[test]
fn whatever_is_missing_or_other_in_the_proof_of_an_identity_refuses_it() {
    let fulcio = Fulcio::new();
    let root = fulcio.root();
    for (change, bundle, said) in [
        (Change::NoEntry, false, "no log entry with a signed timestamp"),
        (Change::NoEntry, true, "no log entry with a signed timestamp"),
        (Change::Promise, false, "is not signed by the log"),
        (Change::Promise, true, "is not signed by the log"),
        (Change::LoggedLater, false, "is not signed by the log"),
        (Change::ForeignEntry, false, "its log entry is about another signature"),
        (Change::ForeignEntry, true, "its log entry is about another signature"),
        (Change::ForeignCertificateInEntry, false, "its log entry is about another signature"),
        (Change::ForeignCertificateInEntry, true, "its log entry is about another signature"),
        (Change::OtherLog, false, "is not in the trusted root"),
        (Change::SignedAfterwards, false, "was not issued by the trusted root at that time"),
        (Change::SignedAfterwards, true, "was not issued by the trusted root at that time"),
        (Change::OtherAuthority, false, "was not issued by the trusted root at that time"),
        (Change::NoTimestamp, false, "in no certificate log of the trusted root"),
        (Change::NoTimestamp, true, "in no certificate log of the trusted root"),
        (Change::ForeignTimestamp, false, "in no certificate log of the trusted root"),
        (Change::TimestampOfAnother, false, "in no certificate log of the trusted root"),
        (Change::NotForCode, false, "is not for signing code"),
        (Change::TwoNames, false, "is not for one mail address or URL"),
        (Change::NoIssuer, false, "does not say which issuer"),
        (Change::OtherKey, false, "is not by the key of its certificate"),
        (Change::OtherKey, true, "is not by the key of its certificate"),
        (Change::Attestation, true, "it is an attestation"),
        (Change::OtherPayloadType, true, "does not hold an in-toto statement"),
    ] {
        let image = fulcio.signed(Attached::new(), bundle, change);
        let refused = image.check(with_identity(ISSUER, SUBJECT), &[("root.json", &root)]);
        let problem = refused.unwrap_err().problem;
        assert!(problem.contains(said), "{change:?} {bundle}: {problem}");
    }
    // A certificate vouches for identities only: no key is demanded of it, and it is no key.
    let image = fulcio.signed(Attached::new(), false, Change::None);
    let refused = image.check(with_keys(&["p256.pub"]), &[("p256.pub", KEYS[0].1)]).unwrap_err();
    assert!(refused.problem.contains("it is by a certificate of Sigstore"), "{refused}");
}

#[test]
fn an_authority_or_log_vouches_only_for_the_time_that_it_is_trusted_for() {
    let fulcio = Fulcio::new();
    let image = fulcio.signed(Attached::new(), false, Change::None);
    let root: Value = serde_json::from_str(&fulcio.root()).unwrap();
    let check = |root: &Value| image.check(with_identity(ISSUER, SUBJECT), &[("root.json", &root.to_string())]);
    assert!(check(&root).is_ok());
    for (path, said) in [
        ("/certificateAuthorities/0/validFor", "no certificate authority for that time"),
        ("/tlogs/0/publicKey/validFor", "is not in the trusted root at that time"),
        ("/ctlogs/0/publicKey/validFor", "in no certificate log"),
    ] {
        for valid in [
            json!({"start": "2031-01-01T00:00:00Z"}),
            json!({"start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z"}),
        ] {
            let mut other = root.clone();
            *other.pointer_mut(path).unwrap() = valid;
            let problem = check(&other).unwrap_err().problem;
            assert!(problem.contains(said), "{path}: {problem}");
        }
    }
    // An authority of one's own may have no log of certificates.
    let mut without = root.clone();
    without["ctlogs"] = json!([]);
    let unlogged = fulcio.signed(Attached::new(), false, Change::NoTimestamp);
    assert!(unlogged.check(with_identity(ISSUER, SUBJECT), &[("root.json", &without.to_string())]).is_ok());
}

#[test]
fn too_much_attached_and_what_is_not_there_ends_in_a_refusal() {
    let mut image = Attached::new();
    let layers: Vec<Value> = (0..5000)
        .map(|n| json!({"mediaType": SIMPLE_SIGNING, "digest": Digest::of(format!("{n}")), "size": 10}))
        .collect();
    let one = descriptor(SIMPLE_SIGNING, b"0");
    image.attach_manifest(&json!({"layers": layers}), vec![one.clone()]);
    image.attach_manifest(
        &json!({"layers": [{"mediaType": SIMPLE_SIGNING, "digest": one.digest, "size": 1_u64 << 40}]}),
        vec![one],
    );
    let refused = image.check(
        ImageSignatureRule { repositories: vec!["registry.test".into()], ..with_keys(&["p256.pub"]) },
        &[("p256.pub", KEYS[0].1)],
    );
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("not here") && text.len() < 1500, "{text}");
}

impl Fulcio {
    fn signed(&self, mut image: Attached, bundle: bool, change: Change) -> Attached {
        match bundle {
            true => {
                let content = self.bundle(&image.target.digest, change);
                image.attach(BUNDLE, content.as_bytes(), &BTreeMap::new());
            }
            false => {
                let (payload, annotations) = self.simple_signing(&image.target.digest, change);
                image.attach(SIMPLE_SIGNING, &payload, &annotations);
            }
        }
        image
    }
}
