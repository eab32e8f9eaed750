//! Images of runtimes that know one by the digest of its configuration, and pin none: a container that is never started keeps it.

use kubexm_plan::op::{ImageLoaded, ImageSource, Loaded};

use crate::image_list::ImageList;
use crate::{Machine, OpError, oci_archive};

/// Label of a container that keeps an image, with the image's digest.
pub(crate) const KEEPS: &str = "io.kubexm.keeps-image";
/// What it would run.
pub(crate) const NOTHING: &str = "never-started";

/// The state of an op's image. Such a runtime has no name by the digest of an index: an image of the right content counts as both.
pub(crate) fn state_of(machine: &Machine, all: &ImageList, op: &ImageLoaded) -> Loaded {
    let mut found = all.state_of(op);
    let wanted = config_of(machine, op).ok();
    if let Some(image) = found.by_tag.as_mut().filter(|image| wanted.as_ref() == Some(&image.digest)) {
        image.digest = op.digest.to_string();
        found.by_digest = found.by_tag.clone();
    }
    found
}

/// The digest of the configuration, as the store's manifest has it.
pub(crate) fn config_of(machine: &Machine, op: &ImageLoaded) -> Result<String, OpError> {
    match &op.source {
        ImageSource::Store { blobs } => Ok(oci_archive::content(machine, &op.digest, blobs)?.config.to_string()),
        ImageSource::Registry => Err(OpError::other(format!(
            "{} cannot be pulled into {}: it asks mirrors for images of docker.io only",
            op.reference, op.runtime
        ))),
    }
}

/// What there is of an image that was loaded: whether something keeps it. Another one under its name is an error.
pub(crate) fn is_kept(all: &ImageList, op: &ImageLoaded, wanted: &str) -> Result<bool, OpError> {
    match all.of_name(&op.reference).first() {
        Some(image) if image.digest == wanted => Ok(image.pinned),
        other => Err(OpError::other(format!(
            "{} is {} after it was loaded, but {wanted} is expected: {} received something else; look at the content \
             store, and run again",
            op.reference,
            other.map_or("missing", |image| &image.digest),
            op.runtime,
        ))),
    }
}

/// `kubexm-image-0123456789ab`.
pub(crate) fn keeper(digest: &str) -> String {
    let hex = digest.rsplit(':').next().unwrap_or_default();
    format!("kubexm-image-{}", hex.get(..12).unwrap_or(hex))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_keeps_an_image_is_named_after_it() {
        assert_eq!(keeper("sha256:0123456789abcdef"), "kubexm-image-0123456789ab");
        assert_eq!(keeper("short"), "kubexm-image-short");
    }
}
