//! `modules.yaml`: streams of modules, and which packages they leave to be seen
//! (<https://github.com/fedora-modularity/libmodulemd>, modulemd 2 and modulemd-defaults 1).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::Deserialize;

use super::DocumentError;

/// Of the whole, unpacked, in bytes; EL8's has some 10 MiB.
pub const LIMIT: u64 = 128 * 1024 * 1024;
/// Documents of the whole: each is looked at for each default. EL8's has some thousands.
const DOCUMENTS: usize = 50_000;
/// The longest name of a module, stream or context, in bytes: they are compared with each other.
const LENGTH: usize = 1024;
/// Nodes of one document.
const NODES: usize = 1_000_000;
/// Texts that are kept of the whole: streams that builds need, packages and names. EL8's has some 100,000; each takes 24 bytes of memory
/// and what it says, though an alias for a hundred of them takes three.
const TEXTS: usize = 2_000_000;
/// Values that aliases of one document stand for.
const REPLAYED: usize = 10_000;
const NAME: &str = "modules.yaml";

/// What the repositories say of modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modules {
    pub(super) builds: Vec<Build>,
    /// By module; none where repositories disagree.
    pub(super) defaults: BTreeMap<String, Option<String>>,
}

/// One build of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Build {
    pub(super) module: String,
    pub(super) stream: String,
    pub(super) version: u64,
    pub(super) context: String,
    pub(super) arch: String,
    /// Streams of other modules that it needs: one of them, or any where none is listed.
    pub(super) requires: Vec<(String, Vec<String>)>,
    /// Its packages: `name-epoch:version-release.arch`.
    pub(super) artifacts: Vec<String>,
    /// Names that are not of modules any more.
    pub(super) demodularized: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Kind {
    document: Option<String>,
    version: Option<u64>,
}

#[derive(Deserialize)]
struct Modulemd {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    name: String,
    stream: String,
    #[serde(default)]
    version: u64,
    #[serde(default)]
    context: String,
    #[serde(default)]
    arch: String,
    #[serde(default)]
    dependencies: Vec<Dependencies>,
    #[serde(default)]
    artifacts: Rpms,
    #[serde(default)]
    demodularized: Rpms,
}

impl Data {
    /// How many it keeps: packages, names, modules and their streams.
    fn texts(&self) -> usize {
        let streams = self.dependencies.iter().flat_map(|one| one.requires.values()).map(|streams| 1 + streams.len());
        self.artifacts.rpms.len() + self.demodularized.rpms.len() + streams.sum::<usize>()
    }
}

#[derive(Default, Deserialize)]
struct Dependencies {
    #[serde(default)]
    requires: BTreeMap<String, Vec<String>>,
}

#[derive(Default, Deserialize)]
struct Rpms {
    #[serde(default)]
    rpms: Vec<String>,
}

#[derive(Deserialize)]
struct Defaults {
    data: DefaultsData,
}

#[derive(Deserialize)]
struct DefaultsData {
    module: String,
    stream: Option<String>,
}

impl Modules {
    /// Reads the unpacked document.
    pub fn read(text: &str) -> Result<Self, DocumentError> {
        Self::read_within(text, TEXTS)
    }

    fn read_within(text: &str, most: usize) -> Result<Self, DocumentError> {
        let mut modules = Self::default();
        let (mut at, mut left) = (0, most);
        for (number, document) in documents(text).into_iter().enumerate() {
            if number == DOCUMENTS {
                let why = format!("it has more than {DOCUMENTS} modules");
                return Err(DocumentError { document: NAME, why, at });
            }
            let wrong = |why: String| DocumentError { document: NAME, why, at };
            if !document.trim().is_empty() {
                left = modules.add(document, left).map_err(wrong)?;
            }
            at += document.len() as u64;
        }
        Ok(modules)
    }

    /// `left` texts may be kept; those that may be kept after this one.
    fn add(&mut self, document: &str, left: usize) -> Result<usize, String> {
        let kind: Kind = parse(document, left)?;
        match (kind.document.as_deref(), kind.version) {
            (Some("modulemd"), Some(2)) => {
                let Modulemd { data } = parse(document, left)?;
                if [&data.name, &data.stream, &data.context].into_iter().any(|name| name.len() > LENGTH) {
                    return Err(format!("a module's name, stream or context is longer than {LENGTH} bytes"));
                }
                let texts = data.texts();
                let left = left.checked_sub(texts).ok_or_else(too_many)?;
                let requires = data.dependencies.into_iter().flat_map(|dependencies| dependencies.requires);
                self.builds.push(Build {
                    module: data.name,
                    stream: data.stream,
                    version: data.version,
                    context: data.context,
                    arch: data.arch,
                    requires: requires.collect(),
                    artifacts: data.artifacts.rpms,
                    demodularized: data.demodularized.rpms.into_iter().collect(),
                });
                Ok(left)
            }
            (Some("modulemd-defaults"), Some(1)) => {
                let Defaults { data } = parse(document, left)?;
                if let Some(stream) = data.stream {
                    self.set_default(data.module, Some(stream));
                }
                Ok(left)
            }
            (Some(kind @ ("modulemd" | "modulemd-defaults")), version) => {
                Err(format!("{kind} is of version {}, which is not known here", version.unwrap_or_default()))
            }
            // Translations, obsoletes and what else may come say nothing of what is seen.
            _ => Ok(left),
        }
    }

    fn set_default(&mut self, module: String, stream: Option<String>) {
        let known = self.defaults.entry(module).or_insert_with(|| stream.clone());
        if *known != stream {
            *known = None;
        }
    }

    /// Adds what another repository says.
    pub fn merge(&mut self, other: Self) {
        self.builds.extend(other.builds);
        let mut seen = HashSet::new();
        let mut first = self.builds.iter().map(|build| seen.insert(build)).collect::<Vec<_>>().into_iter();
        self.builds.retain(|_| first.next().unwrap_or(true));
        for (module, stream) in other.defaults {
            self.set_default(module, stream);
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.builds.is_empty()
    }
}

/// The documents of a stream. Its block texts are indented, so that `---` at the begin of a line parts documents.
fn documents(text: &str) -> Vec<&str> {
    let (mut documents, mut from, mut at) = (Vec::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        if line.starts_with("---") {
            documents.push(&text[from..at]);
            from = at;
        }
        at += line.len();
    }
    documents.push(&text[from..]);
    documents
}

fn too_many() -> String {
    format!("its modules need and have more than {TEXTS} streams and packages together")
}

/// `left` texts may be kept: aliases stand for no more than that.
fn parse<'de, T: Deserialize<'de>>(document: &'de str, left: usize) -> Result<T, String> {
    // What aliases repeat counts each time; over all documents it is then no more than a few times the whole stream.
    let bytes = 2 * document.len() + (4 << 10);
    let budget = serde_saphyr::budget! {
        max_nodes: NODES,
        max_events: 4 * NODES,
        max_documents: 2,
        max_total_scalar_bytes: bytes,
    };
    let options = serde_saphyr::options! {
        budget: budget,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: REPLAYED.min(left) },
    };
    serde_saphyr::from_str_with_options(document, options)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_texts_as_they_are_written() {
        let text = "---\ndocument: modulemd\nversion: 2\ndata:\n  name: perl\n  stream: 5.30\n  version: 820\n  context: ab\n  \
                    arch: x86_64\n  description: |\n    text\n     --- no end\n  dependencies:\n  - requires:\n      platform: [el8]\n      \
                    x: []\n  artifacts:\n    rpms:\n    - perl-4:5.30-1.x86_64\n...\n---\ndocument: modulemd-defaults\nversion: 1\n\
                    data:\n  module: perl\n  stream: \"5.30\"\n  profiles: {'5.30': [common]}\n---\ndocument: \
                    modulemd-translations\nversion: 1\ndata: {}\n";
        let modules = Modules::read(text).unwrap();
        let [build] = modules.builds.as_slice() else { panic!("{modules:?}") };
        assert_eq!((build.stream.as_str(), build.version), ("5.30", 820));
        assert_eq!(build.requires, [("platform".into(), vec!["el8".into()]), ("x".into(), vec![])]);
        assert_eq!(modules.defaults["perl"].as_deref(), Some("5.30"));
    }

    #[test]
    fn repositories_that_disagree_leave_no_default() {
        let of = |stream| {
            Modules::read(&format!(
                "document: modulemd-defaults\nversion: 1\ndata: {{module: m, stream: '{stream}'}}\n"
            ))
        };
        let mut modules = of("1").unwrap();
        modules.merge(of("1").unwrap());
        assert_eq!(modules.defaults["m"].as_deref(), Some("1"));
        modules.merge(of("2").unwrap());
        assert_eq!(modules.defaults["m"], None);
    }

    #[test]
    fn texts_that_aliases_repeat_count_over_all_documents() {
        let (texts, aliases) = ("'', ".repeat(50), (1..40).map(|at| format!("k{at}: *l, ")).collect::<String>());
        let document = format!(
            "---\ndocument: modulemd\nversion: 2\ndata: {{name: a, stream: b, dependencies: \
             [{{requires: {{k: &l [{texts}], {aliases}}}}}]}}\n"
        );
        // Each keeps 40 lists of 50.
        let of = |count, most| Modules::read_within(&document.repeat(count), most).map(|modules| modules.builds.len());
        assert_eq!(of(5, 5 * 40 * 51), Ok(5));
        let error = of(5, 5 * 40 * 51 - 1).unwrap_err();
        assert!(error.why.contains("streams and packages together"), "{error}");
    }

    #[test]
    fn names_that_are_compared_with_each_other_are_short() {
        let of = |name: &str, stream: &str, context: &str| {
            let data = format!("{{name: {name}, stream: {stream}, context: {context}}}");
            Modules::read(&format!("document: modulemd\nversion: 2\ndata: {data}\n"))
        };
        let (longest, longer) = (&*"x".repeat(1024), &*"x".repeat(1025));
        assert_eq!(of(longest, longest, longest).unwrap().builds.len(), 1);
        for error in [of(longer, "s", "c"), of("n", longer, "c"), of("n", "s", longer)] {
            let error = error.unwrap_err();
            assert!(error.why.contains("longer than 1024 bytes"), "{error}");
        }
    }

    #[test]
    fn a_stream_of_more_documents_than_modules_exist_is_refused() {
        // What is before the first `---` counts, too.
        let of = |count: usize| Modules::read(&"---\ndocument: x\n".repeat(count - 1));
        assert_eq!(of(DOCUMENTS), Ok(Modules::default()));
        let error = of(DOCUMENTS + 1).unwrap_err();
        assert!(error.why.contains("more than 50000 modules"), "{error}");
    }

    #[test]
    fn aliases_of_a_document_stand_for_few_values() {
        let texts = "'', ".repeat(198);
        // With its begin and end, each alias is 200 events.
        let of = |count| {
            let many = "*l, ".repeat(count);
            Modules::read(&format!("document: modulemd-translations\nversion: 1\nk: &l [{texts}]\nmany: [{many}]\n"))
        };
        assert_eq!(of(REPLAYED / 200), Ok(Modules::default()));
        let error = of(REPLAYED / 200 + 1).unwrap_err();
        assert!(error.why.contains("replay"), "{error}");
    }

    #[test]
    fn what_cannot_be_read_is_reported_and_not_left_out() {
        for (text, why) in [
            ("document: modulemd\nversion: 1\ndata: {name: a, stream: b}\n", "version 1"),
            ("document: modulemd\nversion: 2\ndata: {name: a}\n", "stream"),
            ("{", ""),
        ] {
            let error = Modules::read(text).unwrap_err();
            assert!(error.why.contains(why), "{error}");
        }
    }
}
