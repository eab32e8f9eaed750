//! From what a name points at, through indexes, to one platform's manifest and its config. The same for a registry and
//! for a folder; every step is checked against the digest and size that the step before named.

use std::sync::Arc;

use async_trait::async_trait;
use kubexm_spec::lock::Descriptor;
use kubexm_spec::{Digest, Platform};

use super::image::{self, Parsed};
use super::{RawManifest, ResolvedImage};
use crate::TransportError;

/// More manifests than this are not looked at for one image; a hostile index could name any number.
const LOOKS: usize = 16;

/// Of all layers of an image, in bytes.
pub(crate) const LARGEST: u64 = 64 << 30;

/// Where manifests and configs are read from.
#[async_trait]
pub(crate) trait Content: Sync {
    /// The name of the image with where it is read, for people.
    fn reference(&self) -> String;
    /// The registry and repository, or the folder.
    fn place(&self) -> String;
    /// The bytes of a manifest or index.
    async fn manifest(&self, descriptor: &Descriptor) -> Result<Vec<u8>, TransportError>;
    /// The bytes of a config.
    async fn config(&self, descriptor: &Descriptor) -> Result<Vec<u8>, TransportError>;
}

/// Goes from the bytes of the target to the image of a platform.
pub(crate) async fn resolve(
    content: &dyn Content,
    target_bytes: Vec<u8>,
    want: Option<Digest>,
    platform: Platform,
) -> Result<ResolvedImage, TransportError> {
    let found = Digest::of(&target_bytes);
    if let Some(expected) = want.filter(|want| *want != found) {
        return Err(TransportError::Mismatch { origin: content.reference(), expected, found });
    }
    let wrong = |problem| TransportError::Image { reference: content.reference(), problem };
    let parsed = image::parse(&target_bytes).map_err(wrong)?;
    let media_type = parsed.media_type().to_owned();
    let target = Descriptor { media_type, digest: found, size: target_bytes.len() as u64 };

    let (entries, target_bytes) = match parsed {
        Parsed::Manifest { config, layers, .. } => {
            let raw = RawManifest { descriptor: target.clone(), bytes: target_bytes.clone() };
            return finish(content, target, target_bytes, Vec::new(), (raw, config, layers), platform).await;
        }
        Parsed::Index { entries, .. } => (entries, target_bytes),
    };
    let mut offered = vec![image::offered(&entries)];
    let mut open: Vec<(Descriptor, Vec<Arc<RawManifest>>)> = Vec::new();
    let push = |open: &mut Vec<_>, entries: &[image::Entry], above: &[Arc<RawManifest>]| {
        // Last in, first out: the likeliest entry is looked at first. No more than can be looked at: each has a list of its own of
        // what is above it.
        let likeliest: Vec<Descriptor> = image::choose(entries, platform).into_iter().take(LOOKS + 1).collect();
        open.extend(likeliest.into_iter().rev().map(|descriptor| (descriptor, above.to_vec())));
    };
    push(&mut open, &entries, &[]);
    let mut looks = 0;
    while let Some((descriptor, mut above)) = open.pop() {
        looks += 1;
        if looks > LOOKS || above.len() > image::DEPTH {
            return Err(wrong("its index nests too deep, or names too many manifests for one platform".to_owned()));
        }
        let bytes = content.manifest(&descriptor).await?;
        check(content, &descriptor, &bytes)?;
        let parsed = image::parse(&bytes).map_err(wrong)?;
        let media_type = parsed.media_type().to_owned();
        let raw = RawManifest { descriptor: Descriptor { media_type, ..descriptor }, bytes };
        match parsed {
            Parsed::Manifest { config, layers, .. } => {
                let nested = above.into_iter().map(Arc::unwrap_or_clone).collect();
                return finish(content, target, target_bytes, nested, (raw, config, layers), platform).await;
            }
            Parsed::Index { entries, .. } => {
                offered.push(image::offered(&entries));
                above.push(Arc::new(raw));
                push(&mut open, &entries, &above);
            }
        }
    }
    Err(TransportError::NoPlatform {
        reference: content.reference(),
        platform: platform.to_string(),
        found: offered.join("; "),
    })
}

async fn finish(
    content: &dyn Content,
    target: Descriptor,
    target_bytes: Vec<u8>,
    nested: Vec<RawManifest>,
    (manifest, config, layers): (RawManifest, Descriptor, Vec<Descriptor>),
    platform: Platform,
) -> Result<ResolvedImage, TransportError> {
    if config.size > image::CONFIG_LIMIT {
        let problem = format!("its config has {} bytes, more than any image needs", config.size);
        return Err(TransportError::Image { reference: content.reference(), problem });
    }
    let size = layers.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
    if size > LARGEST {
        let problem = format!("its layers have {size} bytes, more than {} GiB", LARGEST >> 30);
        return Err(TransportError::Image { reference: content.reference(), problem });
    }
    let config_bytes = content.config(&config).await?;
    check(content, &config, &config_bytes)?;
    // What an index says about an entry is a claim; what the image was built for is in its config.
    image::check_config(&config_bytes, platform).map_err(|found| TransportError::NoPlatform {
        reference: content.reference(),
        platform: platform.to_string(),
        found: format!("{found}, as its config says"),
    })?;
    Ok(ResolvedImage {
        target,
        target_bytes,
        nested,
        manifest: manifest.descriptor,
        manifest_bytes: manifest.bytes,
        config,
        config_bytes,
        layers,
        answered_by: content.place(),
    })
}

fn check(content: &dyn Content, descriptor: &Descriptor, bytes: &[u8]) -> Result<(), TransportError> {
    let origin = content.reference();
    let (size, found) = (bytes.len() as u64, Digest::of(bytes));
    if found != descriptor.digest {
        return Err(TransportError::Mismatch { origin, expected: descriptor.digest, found });
    }
    if size != descriptor.size {
        return Err(TransportError::WrongSize { origin, expected: descriptor.size, found: size });
    }
    Ok(())
}
