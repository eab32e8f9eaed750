//! `spec.addons`, and charts of `spec.bundle.extraCharts`: what runs in the cluster once it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::addon_secret::AddonSecret;
use super::field::{ChartVersion, FieldType, HttpUrl, Label, OciChart, Repository, Sha256, optional, put, required};
use super::parse::values;
use crate::Digest;
use crate::keywords::keywords;
use crate::yaml::{At, Field, Mapping, Object, ProblemKind, Shape};

/// One of `spec.addons`, or of `spec.bundle.extraCharts` (which are carried and not installed, and are all charts).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Addon {
    /// Its own, a DNS-1123 label; the release's name with a chart.
    pub name: String,
    /// Chart or plain YAML.
    #[serde(rename = "type")]
    pub kind: AddonKind,
    /// Where the builder fetches it from.
    pub source: AddonSource,
    /// Namespace of its objects that name none; `default`.
    pub namespace: String,
    /// Values of the chart, laid over those of `values_file`.
    pub values: Map<String, Value>,
    /// Values of the chart, relative to cluster.yaml; travels in the bundle.
    pub values_file: Option<PathBuf>,
    /// Names of add-ons before it in the list that are there, and work, before it begins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Secrets that are there before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<AddonSecret>,
}

keywords! {
    /// `spec.addons[].type`.
    pub enum AddonKind {
        /// A chart of Helm.
        Helm = "helm",
        /// Objects as they are.
        Yaml = "yaml",
    }
}

/// Where the builder fetches an add-on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "from")]
pub enum AddonSource {
    /// A chart or YAML that the catalogue knows by name (`metrics-server`).
    Catalogue {
        /// Its name there.
        name: String,
        /// The catalogue's default when none.
        version: Option<String>,
    },
    /// A chart of a repository with an index.yaml.
    Repository {
        /// http or https.
        url: String,
        /// Its name in the index.
        chart: String,
        /// Exact.
        version: String,
    },
    /// A chart of an OCI registry.
    Oci {
        /// `oci://ghcr.io/org/charts/name`.
        reference: String,
        /// Its tag.
        version: String,
    },
    /// A file of a web server: YAML, or a chart's `.tgz`.
    Url {
        /// http or https.
        url: String,
        /// Digest of the content.
        sha256: Digest,
    },
    /// On the builder's disk: a YAML file, a folder of them, a chart's folder or its `.tgz`.
    Path {
        /// As written, relative to cluster.yaml; the builder makes it ready to be opened.
        path: PathBuf,
    },
}

/// One of `spec.addons`.
const ADDON: Object = Object::new(
    "Something that runs in the cluster beyond its own",
    &[
        Field::needed("name", Shape::Text, "Its name; the release's name with a chart"),
        Field::needed("type", AddonKind::SHAPE, "A Helm chart, or plain objects"),
        Field::needed("source", Shape::Mapping(&SOURCE), "Where the builder fetches it from"),
        Field::new("namespace", Shape::Text, "Namespace of its objects that name none"),
        Field::new("values", Shape::Raw, "Values of the chart, merged over those of valuesFile"),
        Field::new("valuesFile", Shape::Text, "Values of the chart, relative to this file; travels in the bundle"),
        Field::new(
            "after",
            <Vec<Label>>::SHAPE,
            "Add-ons before it in this list that must be there, and work, before it",
        ),
        Field::new("secrets", <NamedOnce<AddonSecret>>::SHAPE, "Secrets in that namespace, there before it"),
    ],
);

/// One of `spec.bundle.extraCharts`.
const CHART: Object = Object::new(
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
const SOURCE: Object = Object::new(
    "One of: {catalogue}, {repo, chart, version}, {oci, version}, {url, sha256}, {path}",
    &[
        Field::new("catalogue", Shape::Text, "Its name in the catalogue, like metrics-server"),
        Field::new("repo", HttpUrl::SHAPE, "Address of a chart repository"),
        Field::new("chart", Shape::Text, "Its name in that repository"),
        Field::new("oci", OciChart::SHAPE, "A chart in an OCI registry, without its tag"),
        Field::new("version", Shape::Text, "Exact version; the catalogue's default when left out there"),
        Field::new("url", HttpUrl::SHAPE, "Address of a YAML file, or of a chart's .tgz"),
        Field::new("sha256", Sha256::SHAPE, "Digest of that file"),
        Field::new("path", Shape::Text, "YAML file or folder, or a chart's folder or .tgz, relative to this file"),
    ],
)
.one_of(&["catalogue", "repo", "oci", "url", "path"]);

/// A list of which each item has its own name.
pub(super) struct NamedOnce<T>(PhantomData<T>);

impl<T: FieldType> FieldType for NamedOnce<T> {
    type Value = Vec<T::Value>;

    const SHAPE: Shape = Vec::<T>::SHAPE;

    fn read(at: &At<'_>) -> Option<Self::Value> {
        let all = Vec::<T>::read(at);
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

    fn show(value: &Self::Value) -> Option<Value> {
        Vec::<T>::show(value)
    }
}

/// `spec.addons`: each has its own name, and waits only for earlier ones, so that there is an order.
pub(super) struct Addons;

impl FieldType for Addons {
    type Value = Vec<Addon>;

    const SHAPE: Shape = NamedOnce::<Addon>::SHAPE;

    fn read(at: &At<'_>) -> Option<Self::Value> {
        let all = NamedOnce::<Addon>::read(at);
        let mut earlier = BTreeSet::new();
        for map in at.list().iter().filter_map(At::open_mapping_quiet) {
            for after in map.get("after").iter().flat_map(At::list) {
                if let Some(name) = after.text_quiet().filter(|name| !earlier.contains(*name)) {
                    after.bad(
                        format!("{name:?} is no add-on before it in this list"),
                        "name one that is, or move it up",
                    );
                }
            }
            earlier.extend(map.get("name").and_then(|name| name.text_quiet().map(str::to_owned)));
        }
        all
    }

    fn show(value: &Self::Value) -> Option<Value> {
        NamedOnce::<Addon>::show(value)
    }
}

impl FieldType for Addon {
    type Value = Self;

    const SHAPE: Shape = Shape::Mapping(&ADDON);

    fn read(at: &At<'_>) -> Option<Self> {
        let map = at.mapping(&ADDON)?;
        let kind = required::<AddonKind>(&map, &ADDON, "type");
        common(&map, &ADDON, kind)
    }

    fn show(value: &Self) -> Option<Value> {
        let mut addon = document(value);
        put::<AddonKind>(&mut addon, "type", &value.kind);
        Some(addon.into())
    }
}

/// An [`Addon`] without a type: one of `spec.bundle.extraCharts`.
pub(super) struct Chart;

impl FieldType for Chart {
    type Value = Addon;

    const SHAPE: Shape = Shape::Mapping(&CHART);

    fn read(at: &At<'_>) -> Option<Addon> {
        let map = at.mapping(&CHART)?;
        common(&map, &CHART, Some(AddonKind::Helm))
    }

    fn show(value: &Addon) -> Option<Value> {
        Some(document(value).into())
    }
}

fn common(map: &Mapping<'_>, of: &Object, kind: Option<AddonKind>) -> Option<Addon> {
    let name = required::<Label>(map, of, "name");
    let source = map.need("source").and_then(|at| source(&at, kind));
    let namespace = optional::<Label>(map, "namespace", || "default".to_owned());
    let values = optional::<Map<_, _>>(map, "values", Map::new);
    let values_file = optional::<Option<PathBuf>>(map, "valuesFile", || None);
    let after = optional::<Vec<Label>>(map, "after", Vec::new);
    let secrets = optional::<NamedOnce<AddonSecret>>(map, "secrets", Vec::new);
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
        after: after?,
        secrets: secrets?,
    })
}

fn document(addon: &Addon) -> Map<String, Value> {
    let source = match &addon.source {
        AddonSource::Catalogue { name, version: None } => json!({"catalogue": name}),
        AddonSource::Catalogue { name, version } => json!({"catalogue": name, "version": version}),
        AddonSource::Repository { url, chart, version } => json!({"repo": url, "chart": chart, "version": version}),
        AddonSource::Oci { reference, version } => json!({"oci": reference, "version": version}),
        AddonSource::Url { url, sha256 } => json!({"url": url, "sha256": sha256.hex()}),
        AddonSource::Path { path } => json!({"path": PathBuf::show(path)}),
    };
    let mut document = Map::new();
    document.insert("source".to_owned(), source);
    put::<Label>(&mut document, "name", &addon.name);
    put::<Label>(&mut document, "namespace", &addon.namespace);
    put::<Map<_, _>>(&mut document, "values", &addon.values);
    put::<Option<PathBuf>>(&mut document, "valuesFile", &addon.values_file);
    put::<Vec<Label>>(&mut document, "after", &addon.after);
    put::<NamedOnce<AddonSecret>>(&mut document, "secrets", &addon.secrets);
    document
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
    let chart = |key: &str| {
        if let Some(at) = map.get(key).filter(|_| kind == Some(AddonKind::Yaml)) {
            at.bad("only charts come from there", "give {url, sha256} or {path}, or write type: helm");
        }
    };
    match *way {
        "catalogue" => {
            let name = required::<Label>(&map, &SOURCE, "catalogue");
            let version = optional::<Option<ChartVersion>>(&map, "version", || None);
            Some(AddonSource::Catalogue { name: name?, version: version? })
        }
        "repo" => {
            chart("repo");
            let url = required::<HttpUrl>(&map, &SOURCE, "repo");
            let name = required::<Repository>(&map, &SOURCE, "chart");
            let version = required::<ChartVersion>(&map, &SOURCE, "version");
            Some(AddonSource::Repository { url: url?, chart: name?, version: version? })
        }
        "oci" => {
            chart("oci");
            let reference = required::<OciChart>(&map, &SOURCE, "oci");
            let version = required::<ChartVersion>(&map, &SOURCE, "version");
            Some(AddonSource::Oci { reference: reference?, version: version? })
        }
        "url" => {
            let url = required::<HttpUrl>(&map, &SOURCE, "url");
            let sha256 = required::<Sha256>(&map, &SOURCE, "sha256");
            Some(AddonSource::Url { url: url?, sha256: sha256? })
        }
        _ => required::<PathBuf>(&map, &SOURCE, "path").map(|path| AddonSource::Path { path }),
    }
}
