//! Overlays: a user's own versions, builds and pins, laid over the catalogue; what they bring carries [`Trust::Overlay`].

use std::collections::{BTreeMap, BTreeSet};

use kubexm_spec::yaml::{self, At, Keys, ProblemKind, Sink, nearest};
use kubexm_spec::{Arch, Digest, Trust};

use crate::catalogue::{Catalogue, ImagePin, SCHEMA, SCHEMA_1};
use crate::component::{Pin, parse_digest};
use crate::error::CatalogueError;
use crate::libc::Libc;
use crate::limits;
use crate::release::{PatchRange, Release};
use crate::verified::{Compared, Verified};
use crate::version;

const OVERLAY: Keys = Keys::all(&["schema", "name", "components", "images", "releases"]);
const COMPONENT: Keys = Keys::all(&["url", "urls", "digestSource", "libc", "default", "versions"]);
const URLS: Keys = Keys::all(&["amd64", "arm64"]);
const PIN: Keys = Keys::all(&["sha256", "size", "trust"]);
const RELEASE: Keys = Keys::all(&["like", "kubeadmApi", "defaults", "constants"]);
const CONSTANTS: Keys = Keys::all(&["pause", "coredns", "etcd"]);

impl Catalogue {
    /// The catalogue with an overlay laid over it. Strict: all problems at once, with line and column.
    ///
    /// ```yaml
    /// schema: kubexm.io/catalogue/v2
    /// name: mine
    /// components:
    ///   containerd: {default: 2.2.9, versions: {2.2.9: {amd64: {sha256: 1f0e…, size: 30000000}}}}
    /// images: {"registry.k8s.io/pause:3.10.1": "sha256:a1b2…"}
    /// releases: {"1.34": {defaults: {flannel: v0.28.5}}}
    /// ```
    ///
    /// A minor that the catalogue does not know says which it is `like`: it gets that one's defaults and support, and one
    /// range of patches. Its constants are unverified unless all three are given; its programs need versions of their own.
    ///
    /// ```yaml
    /// releases: {"1.37": {like: "1.36", constants: {pause: "3.10.2", coredns: v1.14.2, etcd: 3.6.8-0}}}
    /// components: {kubeadm: {versions: {1.37.0: {}}}, kubelet: {versions: {1.37.0: {}}}, kubectl: {versions: {1.37.0: {}}}}
    /// ```
    pub fn overlaid(self, overlay: &str) -> Result<Self, CatalogueError> {
        let tree = yaml::parse(overlay).map_err(CatalogueError::Overlay)?;
        let sink = Sink::default();
        let laid = lay(self, &At::root(&tree, &sink));
        sink.finish(laid).map_err(CatalogueError::Overlay)
    }
}

fn lay(mut catalogue: Catalogue, at: &At<'_>) -> Option<Catalogue> {
    let map = at.mapping(&OVERLAY)?;
    if let Some(at) = map.need("schema")
        && let Some(found) = at.text()
        && ![SCHEMA, SCHEMA_1].contains(&found)
    {
        at.bad(format!("{found:?} is not a schema this program reads"), format!("expected {SCHEMA}"));
    }
    if let Some(name) = map.need("name").and_then(|at| at.text().map(str::to_owned)) {
        catalogue.overlays.push(name);
    }
    if let Some(at) = map.get("components") {
        components(&mut catalogue, &at);
    }
    if let Some(map) = map.get("images").and_then(|at| at.open_mapping()) {
        for (reference, at) in map.entries() {
            if let Some(digest) = digest(&at) {
                catalogue.pins.insert(reference.to_owned(), ImagePin { digest, trust: Trust::Overlay });
            }
        }
    }
    if let Some(at) = map.get("releases") {
        releases(&mut catalogue, &at);
    }
    // A bundle's catalogue is read within limits, so none is built that nobody reads.
    if let Some(problem) = serde_json::to_value(&catalogue).ok().and_then(|value| limits::check(&value).err()) {
        at.bad(problem, "no bundle's catalogue is read with that");
    }
    Some(catalogue)
}

fn components(catalogue: &mut Catalogue, at: &At<'_>) {
    let Some(map) = at.open_mapping() else { return };
    for (name, at) in map.entries() {
        let Some(component) = catalogue.components.get_mut(name) else {
            unknown(&at, "component", name, catalogue.components.keys());
            continue;
        };
        let Some(map) = at.mapping(&COMPONENT) else { continue };
        if let Some(url) = map.get("url").filter(|at| !at.holds_login()).and_then(|at| at.parsed(read_url)) {
            component.url = url;
            // A build of one's own is linked as its builder says.
            component.builds.iter_mut().for_each(|build| (build.url, build.libc) = (None, None));
            component.libc = None;
        }
        if let Some(libc) = map.get("libc").and_then(|at| at.parsed(Libc::parse)) {
            component.libc = Some(libc);
        }
        if let Some(map) = map.get("urls").and_then(|at| at.mapping(&URLS)) {
            for arch in [Arch::Amd64, Arch::Arm64] {
                let given = map.get(arch.as_str()).filter(|at| !at.holds_login());
                component.urls.extend(given.and_then(|at| at.parsed(read_url)).map(|url| (arch, url)));
            }
        }
        if let Some(url) =
            map.get("digestSource").filter(|at| !at.holds_login()).and_then(|at| at.text().map(str::to_owned))
        {
            component.digest_source = Some(url);
        }
        if let Some(map) = map.get("versions").and_then(|at| at.open_mapping()) {
            for (text, at) in map.entries() {
                if !version::is_version(text) {
                    at.bad(format!("{text:?} is not a version"), "like 1.34.4");
                    continue;
                }
                let pins = pins(&at);
                component.versions.entry(version::bare(text).to_owned()).or_default().extend(pins);
            }
        }
        if let Some(at) = map.get("default")
            && let Some(text) = at.text()
        {
            let version = version::bare(text);
            if component.versions.contains_key(version) {
                component.default = Some(version.to_owned());
            } else {
                let known = component.versions.keys().map(String::as_str);
                let near = version::near(version, known, 3);
                at.bad(format!("no {name} {version} is known"), format!("nearest: {}", near.join(", ")));
            }
        }
    }
}

fn pins(at: &At<'_>) -> BTreeMap<Arch, Pin> {
    let mut pins = BTreeMap::new();
    let Some(map) = at.open_mapping() else { return pins };
    for (arch, at) in map.entries() {
        let Some(arch) = [Arch::Amd64, Arch::Arm64].into_iter().find(|known| known.as_str() == arch) else {
            unknown(&at, "architecture", arch, &["amd64".to_owned(), "arm64".to_owned()]);
            continue;
        };
        let Some(map) = at.mapping(&PIN) else { continue };
        let sha256 = map.need("sha256").and_then(|at| digest(&at));
        let size = map.get("size").and_then(|at| {
            at.parsed(|text| text.parse::<u64>().map_err(|_| format!("{text:?} is not a number of bytes")))
        });
        let trust = map.get("trust").and_then(|at| at.parsed(trust)).unwrap_or(Trust::Overlay);
        if let Some(sha256) = sha256 {
            pins.insert(arch, Pin { sha256, size, trust });
        }
    }
    pins
}

/// Why a digest of an overlay is trusted: its user's word, unless it says where the digest was published.
fn trust(text: &str) -> Result<Trust, String> {
    let known = [Trust::Overlay, Trust::UpstreamChecksum, Trust::Mirror];
    let names = known.map(|trust| trust.to_string()).join(", ");
    known.into_iter().find(|trust| trust.to_string() == text).ok_or_else(|| format!("{text:?} is none of {names}"))
}

fn releases(catalogue: &mut Catalogue, at: &At<'_>) {
    let Some(map) = at.open_mapping() else { return };
    let by = catalogue.overlays.last().map_or_else(|| "an overlay".to_owned(), |name| format!("overlay {name}"));
    for (minor, at) in map.entries() {
        let Some(map) = at.mapping(&RELEASE) else { continue };
        let apis: BTreeSet<String> = catalogue.releases.values().map(|release| release.kubeadm_api.clone()).collect();
        let Some(release) = release(catalogue, minor, &at, &map) else { continue };
        if let Some(at) = map.get("kubeadmApi")
            && let Some(text) = at.text()
        {
            match apis.contains(text) {
                true => release.kubeadm_api = text.to_owned(),
                false => unknown(&at, "kubeadm API", text, &apis),
            }
        }
        if let Some(map) = map.get("defaults").and_then(|at| at.open_mapping()) {
            for (name, at) in map.entries() {
                if !release.defaults.contains_key(name) {
                    unknown(&at, "default", name, release.defaults.keys());
                } else if let Some(text) = at.text() {
                    release.defaults.insert(name.to_owned(), text.to_owned());
                }
            }
        }
        if let Some(map) = map.get("constants").and_then(|at| at.mapping(&CONSTANTS)) {
            let given = |name: &str| map.get(name).and_then(|at| at.text().map(str::to_owned));
            let (pause, coredns, etcd) = (given("pause"), given("coredns"), given("etcd"));
            // What a user writes is what runs.
            release.etcd_before_next = release.etcd_before_next.take().filter(|_| etcd.is_none());
            for range in &mut release.patches {
                range.pause = pause.clone().unwrap_or_else(|| range.pause.clone());
                range.coredns = coredns.clone().unwrap_or_else(|| range.coredns.clone());
                range.etcd = etcd.clone().unwrap_or_else(|| range.etcd.clone());
                // Who writes all of them has looked.
                if pause.is_some() && coredns.is_some() && etcd.is_some() {
                    range.unverified = None;
                    range.verified = Some(Verified { by: by.clone(), tag: String::new(), date: String::new() });
                }
            }
        }
    }
}

/// The release of a minor; one that the catalogue does not know is made after the one that it is `like`.
fn release<'c>(
    catalogue: &'c mut Catalogue,
    minor: &str,
    at: &At<'_>,
    map: &yaml::Mapping<'_>,
) -> Option<&'c mut Release> {
    let like = map.get("like");
    if catalogue.releases.contains_key(minor) {
        if let Some(like) = like {
            like.bad(format!("Kubernetes {minor} is known"), "leave it out: `like` is for a minor that is not");
        }
        return catalogue.releases.get_mut(minor);
    }
    let near = version::near(minor, catalogue.releases.keys().map(String::as_str), 3).join(", ");
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !minor.split_once('.').is_some_and(|(major, minor)| number(major) && number(minor)) {
        at.bad(format!("{minor:?} is not a Kubernetes minor"), "like 1.34");
        return None;
    }
    let Some(like) = like else {
        at.fail(
            ProblemKind::UnknownKey,
            format!("there is no Kubernetes minor {minor:?}"),
            format!("nearest known: {near}; a new one names the one it is made after, as `like`"),
        );
        return None;
    };
    let text = like.text()?;
    let Some(known) = catalogue.releases.get(text) else {
        like.bad(format!("no Kubernetes minor {text:?} is known"), format!("nearest: {near}"));
        return None;
    };
    let mut new = known.clone();
    new.minor = minor.to_owned();
    // Nobody knows when it ends; what containerd's makers say is about the other minor.
    (new.end_of_life, new.end_of_life_compared) = (None, None);
    new.support.recommended_containerd_compared = Some(Compared::Unverified(format!("made after {text}")));
    let last = new.patches.pop()?;
    new.patches =
        vec![PatchRange { from: 0, to: None, verified: None, unverified: Some(format!("made after {text}")), ..last }];
    Some(catalogue.releases.entry(minor.to_owned()).or_insert(new))
}

fn unknown<'a>(at: &At<'_>, what: &str, name: &str, known: impl IntoIterator<Item = &'a String>) {
    let near: Vec<&str> = nearest(name, known.into_iter().map(String::as_str)).into_iter().take(3).collect();
    at.fail(
        ProblemKind::UnknownKey,
        format!("there is no {what} {name:?}"),
        format!("nearest known: {}", near.join(", ")),
    );
}

fn digest(at: &At<'_>) -> Option<Digest> {
    at.parsed(|text| {
        parse_digest(text).ok_or_else(|| format!("{text:?} is not a sha256 digest of 64 lower-case hex digits"))
    })
}

fn read_url(text: &str) -> Result<String, String> {
    if text.starts_with("https://") || text.starts_with("http://") {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not an http or https address"))
    }
}
