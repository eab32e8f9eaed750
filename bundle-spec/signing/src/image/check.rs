//! Whether an image is signed by whom a policy demands.

use kubexm_spec::lock::{Content, Descriptor, ImageSignature, ImageSigner, Referrer, SignatureCheck};
use kubexm_spec::{Digest, Reference, printable};
use serde::Deserialize;

use super::identity::verified;
use super::policy::{ImagePolicy, Signers};
use super::referrer::{SIGNATURE_LIMIT, SIMPLE_SIGNING, SignatureLayer, is_signature, layers};
use super::signed::Signed;
use super::{sigstore_bundle, simple_signing};

/// The most signatures of an image that are looked at: everyone with push access may attach.
const MOST: usize = 256;
/// The most of them that an error names.
const SHOWN: usize = 4;
/// The most characters of each.
const LONGEST: usize = 400;

/// An image of a lock.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    pub reference: &'a str,
    pub target: &'a Descriptor,
    pub manifest: &'a Descriptor,
    pub blobs: &'a [Descriptor],
    pub referrers: &'a [Referrer],
}

/// An image that is not signed by whom the policy demands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reference} ({digest}) {problem}")]
pub struct Unsigned {
    /// Upstream's name with its tag.
    pub reference: String,
    /// What the tag points at.
    pub digest: Digest,
    /// Which rule it does not satisfy, what was found instead, and what to do.
    pub problem: String,
}

impl<'a> Image<'a> {
    /// None of a file.
    pub fn of(content: &'a Content) -> Option<Self> {
        match content {
            Content::Image { reference, target, manifest, blobs, referrers, .. } => {
                Some(Self { reference, target, manifest, blobs, referrers })
            }
            Content::File { .. } => None,
        }
    }
}

/// Checks an image by its referrers; `read` gives the bytes of a manifest or of a layer of at most [`SIGNATURE_LIMIT`] bytes. What the tag
/// points at must be signed; a signature of an index holds for every manifest in it.
///
/// # Errors
/// No rule names it, or nothing that is attached to it satisfies the rule that does.
pub fn check(
    policy: &ImagePolicy,
    image: &Image<'_>,
    read: &dyn Fn(&Descriptor) -> Result<Vec<u8>, String>,
) -> Result<SignatureCheck, Unsigned> {
    let unsigned = |problem: String| Unsigned {
        reference: image.reference.to_owned(),
        digest: image.target.digest,
        problem: printable(&problem).into_owned(),
    };
    let Some((signers, rule)) = policy.rule_for(image.reference) else {
        let problem = "is not named by spec.bundle.imageSignatures: add a rule that says who must have signed it, or one with \
                       accept: any for its repository";
        return Err(unsigned(problem.to_owned()));
    };
    let rule = rule.to_owned();
    if signers.accepts_any {
        return Ok(SignatureCheck { rule, signature: None });
    }
    let mut problems = Vec::new();
    let mut left = MOST;
    let carries = |referrer: &&Referrer| referrer.blobs.iter().any(|blob| is_signature(&blob.media_type));
    for referrer in image.referrers.iter().filter(carries) {
        let manifest = match read(&referrer.manifest) {
            Ok(manifest) => manifest,
            Err(problem) => {
                problems.push(format!("{}: {problem}", referrer.manifest.digest));
                continue;
            }
        };
        for layer in layers(&manifest).iter().filter(|layer| is_signature(&layer.media_type)).take(left) {
            left -= 1;
            let found = signed(layer, read).and_then(|signed| satisfies(&signed, signers, image, read));
            match found {
                Ok((subject, signer)) => {
                    let (manifest, layer) = (referrer.manifest.digest, layer.digest);
                    return Ok(SignatureCheck {
                        rule,
                        signature: Some(ImageSignature { subject, manifest, layer, signer }),
                    });
                }
                Err(problem) => problems.push(format!("{}: {problem}", referrer.manifest.digest)),
            }
        }
    }
    Err(unsigned(refusal(&rule, signers, &problems)))
}

fn refusal(rule: &str, signers: &Signers, problems: &[String]) -> String {
    let found = match problems {
        [] => "it has no signature".to_owned(),
        all => {
            let mut shown: Vec<String> = Vec::new();
            for problem in all {
                // Whoever attached it chose some of the words.
                let problem = problem.chars().take(LONGEST).collect();
                if !shown.contains(&problem) {
                    shown.push(problem);
                }
            }
            let more = shown.len().saturating_sub(SHOWN);
            shown.truncate(SHOWN);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            format!("of its signatures none is: {}{more}", shown.join("; "))
        }
    };
    format!(
        "must be signed by {} (rule for {rule} of spec.bundle.imageSignatures), and {found}. Have it signed, name another version \
         or signer, or accept: any for its repository",
        signers.names()
    )
}

/// What a layer holds.
fn signed(layer: &SignatureLayer, read: &dyn Fn(&Descriptor) -> Result<Vec<u8>, String>) -> Result<Signed, String> {
    let SignatureLayer { media_type, digest, size, annotations } = layer;
    if *size > SIGNATURE_LIMIT {
        return Err(format!("it has {size} bytes, more than any signature"));
    }
    let content = read(&Descriptor { media_type: media_type.clone(), digest: *digest, size: *size })?;
    match media_type.as_str() {
        SIMPLE_SIGNING => simple_signing::read(&content, annotations),
        _ => sigstore_bundle::read(&content),
    }
}

/// What of the image is signed, and by which signer of the rule.
fn satisfies(
    signed: &Signed,
    signers: &Signers,
    image: &Image<'_>,
    read: &dyn Fn(&Descriptor) -> Result<Vec<u8>, String>,
) -> Result<(Digest, ImageSigner), String> {
    let subject = image.target.digest;
    if !signed.about.contains(&subject) {
        // Nodes ask for the tag: an index that nobody signed may have other manifests for them.
        if signed.about.contains(&image.manifest.digest) {
            return Err("it signs the manifest of one platform, and not the index that the tag points at".to_owned());
        }
        let about = signed.about.first().map_or_else(|| "nothing".to_owned(), Digest::to_string);
        return Err(format!("it signs {about}, which is not this image"));
    }
    if let Some(named) = signed.repository.as_deref().filter(|_| !signers.signed_as_any) {
        let repository = |name: &str| Reference::read(name).map(|reference| reference.repository);
        if repository(named) != repository(image.reference) {
            return Err(format!("it is for {named}; where images are signed at a mirror, signedAs: any allows that"));
        }
    }
    let signer = by_whom(signed, signers)?;
    if !is_in_index(image, read)? {
        return Err("it signs an index that the manifest of this platform is not in".to_owned());
    }
    Ok((subject, signer))
}

fn by_whom(signed: &Signed, signers: &Signers) -> Result<ImageSigner, String> {
    let key = signers.keys.iter().find(|(_, key)| key.verifies(&signed.message, &signed.signature));
    if let Some((file, key)) = key {
        return Ok(ImageSigner::Key { file: file.clone(), key: key.id() });
    }
    let Some(root) = &signers.root else {
        let other =
            if signed.certificate.is_some() { "a certificate of Sigstore" } else { "another key, or it was changed" };
        return Err(format!("it is by {other}"));
    };
    let (found, logged) = verified(signed, root)?;
    let (issuer, subject) = (found.issuer, found.subject);
    match signers.identities.iter().any(|wanted| wanted.matches(&issuer, &subject)) {
        true => Ok(ImageSigner::Identity { issuer, subject, logged }),
        false => Err(format!("it is by {subject} ({issuer})")),
    }
}

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    digest: String,
}

/// Whether the platform's manifest is what the tag points at, or in the index that it points at, or in one of the indexes in that.
fn is_in_index(image: &Image<'_>, read: &dyn Fn(&Descriptor) -> Result<Vec<u8>, String>) -> Result<bool, String> {
    if image.target.digest == image.manifest.digest {
        return Ok(true);
    }
    let listed = |descriptor: &Descriptor| -> Result<Vec<Digest>, String> {
        let index: Index = serde_json::from_slice(&read(descriptor)?)
            .map_err(|e| format!("the index that it signs cannot be read: {e}"))?;
        Ok(index.manifests.iter().filter_map(|one| one.digest.parse().ok()).collect())
    };
    let first = listed(image.target)?;
    if first.contains(&image.manifest.digest) {
        return Ok(true);
    }
    for nested in image.blobs.iter().filter(|blob| first.contains(&blob.digest)) {
        if listed(nested)?.contains(&image.manifest.digest) {
            return Ok(true);
        }
    }
    Ok(false)
}
