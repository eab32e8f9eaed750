//! `spec.addons`, `spec.storage`, and charts of `spec.bundle.extraCharts`.

use std::collections::BTreeMap;

use super::take::{each, maybe, or, raw};
use super::{addresses, values};
use crate::Digest;
use crate::cluster::{Addon, AddonKind, AddonSource, Keyword, Nfs, OpenEbs, Storage};
use crate::yaml::{At, Field, Mapping, Object, ProblemKind, Shape};

const SHA256: Shape = Shape::Form("^(sha256:)?[0-9a-f]{64}$");

/// One of `spec.addons`.
pub(super) const ADDON: Object = Object::new(
    "Something that runs in the cluster beyond its own",
    &[
        Field::needed("name", Shape::Text, "Its name; the release's name with a chart"),
        Field::needed("type", Shape::Words(AddonKind::WORDS), "A Helm chart, or plain objects"),
        Field::needed("source", Shape::Mapping(&SOURCE), "Where the builder fetches it from"),
        Field::new("namespace", Shape::Text, "Namespace of its objects that name none"),
        Field::new("values", Shape::Raw, "Values of the chart, merged over those of valuesFile"),
        Field::new("valuesFile", Shape::Text, "Values of the chart, relative to this file; travels in the bundle"),
    ],
);

/// One of `spec.bundle.extraCharts`.
pub(super) const CHART: Object = Object::new(
    "A chart that is carried with its images and that you install yourself",
    &[
        Field::needed("name", Shape::Text, "The release's name"),
        Field::needed("source", Shape::Mapping(&SOURCE), "Where the builder fetches it from"),
        Field::new("namespace", Shape::Text, "Where its objects will go"),
        Field::new("values", Shape::Raw, "Values that you will install it with: the images depend on them"),
        Field::new("valuesFile", Shape::Text, "The same as a file, relative to this file"),
    ],
);

/// `spec.addons[].source`.
pub(super) const SOURCE: Object = Object::new(
    "One of: {catalogue}, {repo, chart, version}, {oci, version}, {url, sha256}, {path}",
    &[
        Field::new("catalogue", Shape::Text, "Its name in the catalogue, like metrics-server"),
        Field::new("repo", Shape::Form("^https?://[^@]+$"), "Address of a chart repository"),
        Field::new("chart", Shape::Text, "Its name in that repository"),
        Field::new("oci", Shape::Form("^oci://[^@]+$"), "A chart in an OCI registry, without its tag"),
        Field::new("version", Shape::Text, "Exact version; the catalogue's default when left out there"),
        Field::new("url", Shape::Form("^https?://[^@]+$"), "Address of a YAML file, or of a chart's .tgz"),
        Field::new("sha256", SHA256, "Digest of that file"),
        Field::new("path", Shape::Text, "YAML file or folder, or a chart's folder or .tgz, relative to this file"),
    ],
)
.one_of(&["catalogue", "repo", "oci", "url", "path"]);

/// `spec.storage`.
pub(super) const STORAGE: Object = Object::new(
    "What makes volumes",
    &[
        Field::new(
            "openebs",
            Shape::Mapping(&OPENEBS),
            "OpenEBS local PV, volumes in a folder of the node; {} for its defaults",
        ),
        Field::new("nfs", Shape::Mapping(&NFS), "Volumes as folders of an NFS export"),
    ],
);

/// `spec.storage.openebs`.
pub(super) const OPENEBS: Object = Object::new(
    "OpenEBS local PV",
    &[
        Field::new("basePath", Shape::Text, "Folder on every node"),
        Field::new("defaultClass", Shape::Bool, "Whether claims that name no class are given one of its volumes"),
    ],
);

/// `spec.storage.nfs`.
pub(super) const NFS: Object = Object::new(
    "An NFS export",
    &[
        Field::needed("server", Shape::Text, "IP address or DNS name"),
        Field::needed("path", Shape::Form("^/"), "The export"),
        Field::new("mountOptions", Shape::List(&Shape::Text), "Options of mount(8)"),
        Field::new("defaultClass", Shape::Bool, "Whether claims that name no class are given one of its volumes"),
    ],
);

pub(super) fn addons(at: &At<'_>) -> Option<Vec<Addon>> {
    named_once(at, each(at, addon))
}

pub(super) fn charts(at: &At<'_>) -> Option<Vec<Addon>> {
    named_once(
        at,
        each(at, |at| {
            let map = at.mapping(&CHART)?;
            common(&map, Some(AddonKind::Helm))
        }),
    )
}

fn named_once(at: &At<'_>, all: Option<Vec<Addon>>) -> Option<Vec<Addon>> {
    let mut names = BTreeMap::new();
    for item in at.list() {
        let Some(name) = item.open_mapping_quiet().and_then(|map| map.get("name")) else { continue };
        let Some(text) = name.text_quiet() else { continue };
        if let Some(line) = names.insert(text, name.line()) {
            name.bad(format!("{text:?} is given twice, first in line {line}"), "each has its own name");
        }
    }
    all
}

fn addon(at: &At<'_>) -> Option<Addon> {
    let map = at.mapping(&ADDON)?;
    let kind = map.need("type").and_then(|at| at.word());
    common(&map, kind)
}

fn common(map: &Mapping<'_>, kind: Option<AddonKind>) -> Option<Addon> {
    let name = map.need("name").and_then(|at| at.parsed(values::label));
    let source = map.need("source").and_then(|at| source(&at, kind));
    let namespace = or(map.get("namespace"), "default".to_owned(), |at| at.parsed(values::label));
    let values = or(map.get("values"), serde_json::Map::new(), raw);
    let values_file = maybe(map.get("valuesFile"), |at| at.parsed(values::path));
    if kind == Some(AddonKind::Yaml) {
        for at in ["values", "valuesFile"].iter().filter_map(|key| map.get(key)) {
            at.bad("plain YAML has no values", "leave it out, or write type: helm");
        }
    }
    Some(Addon {
        name: name?,
        kind: kind?,
        source: source?,
        namespace: namespace?,
        values: values?,
        values_file: values_file?,
    })
}

/// Keys that say where something is from; each with those that go with it.
const WAYS: [(&str, &[&str]); 5] = [
    ("catalogue", &["version"]),
    ("repo", &["chart", "version"]),
    ("oci", &["version"]),
    ("url", &["sha256"]),
    ("path", &[]),
];

fn source(at: &At<'_>, kind: Option<AddonKind>) -> Option<AddonSource> {
    // A name alone may be the catalogue's, or a path, or a chart's: what was meant is not guessed.
    if let Some(name) = at.text_quiet().filter(|text| values::label(text).is_ok()) {
        let hint = format!("{{catalogue: {name}}} is the catalogue's own; else {{repo, chart, version}}, {{path}} …");
        at.fail(ProblemKind::WrongType, format!("{name:?} does not state its source"), hint);
        return None;
    }
    let map = at.mapping(&SOURCE)?;
    let ways: Vec<_> = WAYS.iter().filter(|(way, _)| map.get(way).is_some()).collect();
    let [(way, with)] = ways.as_slice() else {
        let text = if ways.is_empty() { "this does not state its source" } else { "this names more than one source" };
        at.fail(if ways.is_empty() { ProblemKind::Missing } else { ProblemKind::BadValue }, text, SOURCE.about);
        return None;
    };
    for key in ["chart", "version", "sha256"].iter().filter(|key| !with.contains(key)) {
        if let Some(at) = map.get(key) {
            at.bad(format!("{key:?} does not go with {way:?}"), SOURCE.about);
        }
    }
    let version = |at: At<'_>| at.parsed(values::chart_version);
    let chart = |at: &At<'_>| {
        if kind == Some(AddonKind::Yaml) {
            at.bad("only charts come from there", "give {url, sha256} or {path}, or write type: helm");
        }
    };
    let address = |at: At<'_>| if at.holds_login() { None } else { at.parsed(addresses::url) };
    match *way {
        "catalogue" => {
            let name = map.need("catalogue").and_then(|at| at.parsed(values::label));
            let version = maybe(map.get("version"), |at| at.parsed(values::chart_version));
            Some(AddonSource::Catalogue { name: name?, version: version? })
        }
        "repo" => {
            let url = map.need("repo").inspect(chart).and_then(address);
            let name = map.need("chart").and_then(|at| at.parsed(values::repository));
            let version = map.need("version").and_then(version);
            Some(AddonSource::Repository { url: url?, chart: name?, version: version? })
        }
        "oci" => {
            let reference = map.need("oci").inspect(chart);
            let reference = reference.and_then(|at| if at.holds_login() { None } else { at.parsed(addresses::oci) });
            let version = map.need("version").and_then(version);
            Some(AddonSource::Oci { reference: reference?, version: version? })
        }
        "url" => {
            let url = map.need("url").and_then(address);
            let sha256 = map.need("sha256").and_then(|at| at.parsed(digest));
            Some(AddonSource::Url { url: url?, sha256: sha256? })
        }
        _ => map.need("path").and_then(|at| at.parsed(values::path)).map(|path| AddonSource::Path { path }),
    }
}

/// `sha256:…`, or the digits alone.
pub(super) fn digest(text: &str) -> Result<Digest, String> {
    Digest::from_hex(text.strip_prefix("sha256:").unwrap_or(text)).map_err(|error| error.to_string())
}

pub(super) fn storage(at: &At<'_>) -> Option<Storage> {
    let map = at.mapping(&STORAGE)?;
    let open_ebs = maybe(map.get("openebs"), open_ebs);
    let nfs = maybe(map.get("nfs"), nfs);
    let storage = Storage { open_ebs: open_ebs?, nfs: nfs? };
    if storage.open_ebs.as_ref().is_some_and(|o| o.default_class)
        && storage.nfs.as_ref().is_some_and(|n| n.default_class)
    {
        at.bad("two default classes", "openebs is the default unless it has defaultClass: false");
    }
    Some(storage)
}

fn open_ebs(at: &At<'_>) -> Option<OpenEbs> {
    let map = at.mapping(&OPENEBS)?;
    let default = OpenEbs::default();
    let base_path = or(map.get("basePath"), default.base_path, |at| at.parsed(values::folder));
    let default_class = or(map.get("defaultClass"), default.default_class, |at| at.boolean());
    Some(OpenEbs { base_path: base_path?, default_class: default_class? })
}

fn nfs(at: &At<'_>) -> Option<Nfs> {
    let map = at.mapping(&NFS)?;
    let server = map.need("server").and_then(|at| at.parsed(addresses::host));
    let path = map.need("path").and_then(|at| {
        at.parsed(|text| {
            let good = text.starts_with('/') && !text.contains(char::is_control);
            if good { Ok(text.to_owned()) } else { Err(format!("{text:?} is not an export, like /srv/volumes")) }
        })
    });
    let mount_options = or(map.get("mountOptions"), Vec::new(), |at| each(at, super::take::text));
    let default_class = or(map.get("defaultClass"), false, |at| at.boolean());
    Some(Nfs { server: server?, path: path?, mount_options: mount_options?, default_class: default_class? })
}
