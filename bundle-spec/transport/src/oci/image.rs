//! Reads indexes, manifests and configs (OCI image-spec 1.1 and docker's schema 2, which have the same fields). Pure.

use kubexm_spec::lock::Descriptor;
use kubexm_spec::{Digest, Platform};
use serde::Deserialize;

/// The largest manifest that is read, in bytes (distribution-spec 1.1 has registries take at least this).
pub(crate) const MANIFEST_LIMIT: u64 = 4 << 20;
/// The largest config that is read, in bytes.
pub(crate) const CONFIG_LIMIT: u64 = 8 << 20;
/// How deep indexes may nest.
pub(crate) const DEPTH: usize = 4;

/// What is asked for and understood.
pub(crate) const MANIFEST_TYPES: [&str; 4] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

const INDEX_TYPES: [&str; 2] = [MANIFEST_TYPES[0], MANIFEST_TYPES[1]];

/// An index or a manifest.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// A list of manifests by platform.
    Index { media_type: String, entries: Vec<Entry> },
    /// One image.
    Manifest { media_type: String, config: Descriptor, layers: Vec<Descriptor> },
}

impl Parsed {
    pub fn media_type(&self) -> &str {
        match self {
            Self::Index { media_type, .. } | Self::Manifest { media_type, .. } => media_type,
        }
    }
}

/// One line of an index.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub descriptor: Descriptor,
    /// `linux/amd64`, with `/variant` where there is one; none when the index does not say.
    pub platform: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema_version: Option<u64>,
    media_type: Option<String>,
    manifests: Option<Vec<Linked>>,
    config: Option<Linked>,
    layers: Option<Vec<Linked>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Linked {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    urls: Vec<String>,
    platform: Option<Platformed>,
}

/// The platform of an index entry, and the same fields of an image's config.
#[derive(Deserialize)]
struct Platformed {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    variant: Option<String>,
}

impl Platformed {
    fn text(&self) -> String {
        let known = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
        let plain = format!("{}/{}", known(&self.os), known(&self.architecture));
        match self.variant.as_deref().filter(|variant| !variant.is_empty()) {
            Some(variant) => format!("{plain}/{variant}"),
            None => plain,
        }
    }
}

impl Linked {
    fn descriptor(self) -> Result<Descriptor, String> {
        let digest: Digest = self.digest.parse().map_err(|e: kubexm_spec::digest::ParseDigestError| e.to_string())?;
        Ok(Descriptor { media_type: self.media_type, digest, size: self.size })
    }

    fn layer(self) -> Result<Descriptor, String> {
        if !self.urls.is_empty() || self.media_type.contains("foreign") || self.media_type.contains("nondistributable")
        {
            return Err(format!(
                "its layer {} may not be distributed (it is fetched from its vendor at run time) and cannot be carried",
                self.digest
            ));
        }
        self.descriptor()
    }
}

/// Reads an index or a manifest; the error is a sentence about it.
pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed, String> {
    let document: Document =
        serde_json::from_slice(bytes).map_err(|e| format!("what came is not an image manifest: {e}"))?;
    if document.schema_version != Some(2) {
        return Err(
            "its manifest is of the old schema 1, which has no stable digest; push it again with a current tool"
                .to_owned(),
        );
    }
    let declared = document.media_type.filter(|media_type| !media_type.is_empty());
    if let Some(other) = declared.as_deref().filter(|media_type| !MANIFEST_TYPES.contains(media_type)) {
        return Err(format!("its manifest is of type {other}, which is not an image"));
    }
    match (document.manifests, document.config, document.layers) {
        (Some(manifests), None, None) => {
            let media_type = declared.unwrap_or_else(|| MANIFEST_TYPES[0].to_owned());
            if !INDEX_TYPES.contains(&media_type.as_str()) {
                return Err(format!("it is a list of manifests that calls itself {media_type}"));
            }
            let entries = manifests.into_iter().map(entry).collect::<Result<_, _>>()?;
            Ok(Parsed::Index { media_type, entries })
        }
        (None, Some(config), Some(layers)) => {
            let media_type = declared.unwrap_or_else(|| MANIFEST_TYPES[2].to_owned());
            if INDEX_TYPES.contains(&media_type.as_str()) {
                return Err(format!("it is a manifest that calls itself {media_type}"));
            }
            let layers = layers.into_iter().map(Linked::layer).collect::<Result<_, _>>()?;
            Ok(Parsed::Manifest { media_type, config: config.descriptor()?, layers })
        }
        // Both at once is how one set of bytes is made to mean two things (CVE-2021-41190).
        _ => Err("its manifest is neither an index nor an image, or both at once".to_owned()),
    }
}

fn entry(mut linked: Linked) -> Result<Entry, String> {
    let platform = linked.platform.take().map(|platform| platform.text());
    Ok(Entry { descriptor: linked.descriptor()?, platform })
}

/// The entries that may hold the platform, the likeliest first: those that say so, then nested indexes that say nothing.
pub(crate) fn choose(entries: &[Entry], platform: Platform) -> Vec<Descriptor> {
    let plain = platform.to_string();
    let says = |entry: &&Entry, wanted: &str| entry.platform.as_deref() == Some(wanted);
    let mut chosen: Vec<Descriptor> =
        entries.iter().filter(|entry| says(entry, &plain)).map(|entry| entry.descriptor.clone()).collect();
    // arm64's only variant in use is v8, which some tools write out; amd64 variants (v2, v3) may not run everywhere.
    if platform == Platform::LINUX_ARM64 {
        let spelled = format!("{plain}/v8");
        chosen.extend(entries.iter().filter(|entry| says(entry, &spelled)).map(|entry| entry.descriptor.clone()));
    }
    let nested =
        |entry: &&Entry| entry.platform.is_none() && INDEX_TYPES.contains(&entry.descriptor.media_type.as_str());
    chosen.extend(entries.iter().filter(nested).map(|entry| entry.descriptor.clone()));
    chosen
}

/// The platforms an index offers, for people; attestations (`unknown/unknown`) are none.
pub(crate) fn offered(entries: &[Entry]) -> String {
    let mut names: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry.platform.as_deref())
        .filter(|name| *name != "unknown/unknown")
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { "no platform at all".to_owned() } else { names.join(", ") }
}

/// Checks what an image is really made for; the error is its true platform.
pub(crate) fn check_config(bytes: &[u8], platform: Platform) -> Result<(), String> {
    let config: Platformed =
        serde_json::from_slice(bytes).map_err(|e| format!("a config that cannot be read ({e})"))?;
    let variant = config.variant.as_deref().unwrap_or_default();
    // The baseline of each: what is made for more (amd64/v3, arm64/v9) does not start on every host.
    let baseline = match platform.arch {
        kubexm_spec::Arch::Amd64 => ["", "v1"],
        kubexm_spec::Arch::Arm64 => ["", "v8"],
    };
    let fits = config.os == platform.os() && config.architecture == platform.arch.as_str();
    if fits && baseline.contains(&variant) { Ok(()) } else { Err(config.text()) }
}
