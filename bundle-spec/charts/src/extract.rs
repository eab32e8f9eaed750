//! The images that rendered objects name: surely in pod specs, perhaps in everything else. Pure, and safe for any input.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_spec::Reference;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::documents::{self, Room};
use crate::objects::{self, Identity};
use crate::suspect::{self, speaks_of_image};

/// Lists of containers in a pod spec.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// The longest text that is read as YAML in its turn.
const NESTED_LIMIT: usize = 4 << 20;
/// A place is for people.
const PLACE_LENGTH: usize = 200;
/// The most names that look like images in one chart: each takes some 500 bytes of memory, though six bytes of a text may say it, and a person
/// has to judge each. Those of operators have some hundred.
const SUSPECTS: usize = 10_000;

/// What was found, each with the first place where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// In pod specs, by completed name; with neither tag nor digest where the chart gives none.
    pub pods: BTreeMap<String, String>,
    /// What looks like an image elsewhere, by completed name.
    pub suspects: BTreeMap<String, String>,
    /// Texts in the place of an image of a pod that are no name of one.
    pub broken: BTreeMap<String, String>,
}

/// How what stands among the broken begins where not all suspects are kept.
const MANY: &str = "(more than ";

impl Found {
    /// Whether there are more suspects than are kept: what is not found here may be named all the same.
    pub fn is_cut(&self) -> bool {
        self.broken.keys().any(|text| text.starts_with(MANY))
    }
}

/// Looks through objects.
pub fn images(documents: &[Value]) -> Found {
    images_within(documents, Room::nested(), SUSPECTS)
}

fn images_within(documents: &[Value], room: Room, most: usize) -> Found {
    let mut walk = Walk { found: Found::default(), object: String::new(), path: Vec::new(), nested: false, room, most };
    for document in documents {
        walk.object(document, "object");
    }
    // What a pod names is no mere suspicion.
    let Found { pods, suspects, .. } = &mut walk.found;
    suspects.retain(|name, _| !pods.contains_key(name));
    walk.found
}

struct Walk {
    found: Found,
    /// `Deployment kube-system/web`.
    object: String,
    path: Vec<String>,
    /// Inside a text that was read as YAML: what is a pod there is made by others, if at all.
    nested: bool,
    /// Of all texts that are read as YAML. When it is used up, the rest is searched as words alone.
    room: Room,
    /// How many suspects are kept.
    most: usize,
}

impl Walk {
    /// An object of Kubernetes, or a list of them. `of_list`: its kind if it names none.
    fn object(&mut self, object: &Value, of_list: &str) {
        let kind = object["kind"].as_str().filter(|kind| !kind.is_empty()).unwrap_or(of_list);
        if let Some(items) = objects::items(object) {
            let kind = kind.strip_suffix("List").filter(|kind| !kind.is_empty()).unwrap_or("object");
            items.iter().for_each(|item| self.object(item, cut(kind)));
            return;
        }
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().or(metadata["generateName"].as_str()).unwrap_or("without a name");
        self.object = match metadata["namespace"].as_str() {
            Some(namespace) => format!("{} {}/{}", cut(kind), cut(namespace), cut(name)),
            None => format!("{} {}", cut(kind), cut(name)),
        };
        self.path.clear();
        match kind {
            // Schemas explain images in words; only what they set by themselves counts.
            "CustomResourceDefinition" if Identity::of(object).is_kept() => self.defaults(object),
            "Secret" => {
                self.value(object, false);
                self.secret(&object["data"]);
            }
            _ => self.value(object, false),
        }
    }

    fn value(&mut self, value: &Value, of_image: bool) {
        match value {
            Value::Object(map) => self.map(map),
            Value::Array(values) => self.list(values, of_image),
            Value::String(text) => self.text(text, of_image),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn map(&mut self, map: &Map<String, Value>) {
        if let Some(composed) = composed(map) {
            self.suspect(&composed);
        }
        // `{name: IMAGE, value: …}` of an environment.
        let named = map.get("name").and_then(Value::as_str).is_some_and(speaks_of_image);
        for (key, value) in map {
            self.path.push(key.clone());
            match (key.as_str(), value) {
                (key, Value::Array(containers)) if CONTAINERS.contains(&key) => self.containers(containers),
                ("volumes", Value::Array(volumes)) => self.volumes(volumes),
                // Said to be for people.
                ("description", Value::String(_)) => {}
                (key, value) => self.value(value, speaks_of_image(key) || (named && key == "value")),
            }
            self.path.pop();
        }
    }

    fn list(&mut self, values: &[Value], of_image: bool) {
        let mut before = of_image;
        for (index, value) in values.iter().enumerate() {
            self.path.push(format!("[{index}]"));
            self.value(value, before);
            self.path.pop();
            // `["--image", "x/y:1"]`
            before = of_image || value.as_str().is_some_and(|text| text.starts_with('-') && speaks_of_image(text));
        }
    }

    fn containers(&mut self, containers: &[Value]) {
        for (index, container) in containers.iter().enumerate() {
            self.path.push(format!("[{index}]"));
            match container {
                Value::Object(fields) => {
                    for (key, value) in fields {
                        self.path.push(key.clone());
                        match (key.as_str(), value) {
                            ("image", Value::String(image)) => self.pod(image),
                            (key, value) => self.value(value, speaks_of_image(key)),
                        }
                        self.path.pop();
                    }
                }
                other => self.value(other, false),
            }
            self.path.pop();
        }
    }

    /// Volumes that are images (Kubernetes 1.31, "Use an Image Volume With a Pod").
    fn volumes(&mut self, volumes: &[Value]) {
        for (index, volume) in volumes.iter().enumerate() {
            self.path.push(format!("[{index}]"));
            match volume["image"]["reference"].as_str() {
                Some(image) => {
                    self.path.push("image.reference".to_owned());
                    self.pod(image);
                    self.path.pop();
                }
                None => self.value(volume, false),
            }
            self.path.pop();
        }
    }

    /// What a schema fills in by itself.
    fn defaults(&mut self, value: &Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    self.path.push(key.clone());
                    match key.as_str() {
                        "default" => {
                            // The field is what is before: `…properties.image.default`.
                            let field = self.path.iter().rev().nth(1).is_some_and(|field| speaks_of_image(field));
                            self.value(value, field);
                        }
                        _ => self.defaults(value),
                    }
                    self.path.pop();
                }
            }
            Value::Array(values) => values.iter().for_each(|value| self.defaults(value)),
            _ => {}
        }
    }

    /// Texts in a Secret are base64.
    fn secret(&mut self, data: &Value) {
        for (key, value) in data.as_object().into_iter().flatten() {
            let decoded = value.as_str().and_then(|text| STANDARD.decode(text.trim()).ok());
            if let Some(text) = decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
                self.path.extend(["data".to_owned(), key.clone()]);
                self.text(&text, speaks_of_image(key));
                self.path.truncate(self.path.len() - 2);
            }
        }
    }

    fn text(&mut self, text: &str, of_image: bool) {
        suspect::words(text, of_image, |reference| self.suspect(&reference));
        // A file that holds objects, or a configuration with maps of repository and tag.
        let may_hold = text.contains('\n') && (text.contains("image") || text.contains("repository"));
        if !self.nested && may_hold && text.len() <= NESTED_LIMIT {
            self.nested = true;
            for document in documents::read_within(text, &mut self.room).unwrap_or_default() {
                self.value(&document, false);
            }
            self.nested = false;
        }
    }

    fn pod(&mut self, image: &str) {
        let place = self.place();
        match Reference::read(image) {
            Some(reference) if self.nested => {
                self.suspect(&reference);
            }
            Some(reference) => {
                self.found.pods.entry(reference.to_string()).or_insert(place);
            }
            None if self.nested => {}
            None => {
                self.found.broken.entry(image.to_owned()).or_insert(place);
            }
        }
    }

    /// Whether more may come. One too many is refused with the chart, since it may be an image that is missing later.
    fn suspect(&mut self, reference: &Reference) -> bool {
        let name = reference.to_string();
        if self.found.suspects.contains_key(&name) {
            return true;
        }
        let place = self.place();
        if self.found.suspects.len() < self.most {
            self.found.suspects.insert(name, place);
            return true;
        }
        self.found.broken.entry(format!("{MANY}{} names that look like images)", self.most)).or_insert(place);
        false
    }

    /// No longer than is shown: a stream may have millions of places, and a name of megabytes.
    fn place(&self) -> String {
        let mut place = format!("{}: ", cut(&self.object));
        for (at, part) in self.path.iter().enumerate() {
            if place.len() > PLACE_LENGTH {
                break;
            }
            if at > 0 && !part.starts_with('[') {
                place.push('.');
            }
            place.push_str(cut(part));
        }
        if place.len() > PLACE_LENGTH {
            place.truncate(cut(&place).len());
            place.push('…');
        }
        // Names and keys of others, on their way to a terminal.
        kubexm_spec::on_one_line(&place)
    }
}

/// The beginning of a text.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(PLACE_LENGTH)]
}

/// `{registry, repository, tag, digest}`, as custom resources of operators have images.
fn composed(map: &Map<String, Value>) -> Option<Reference> {
    let text = |key: &str| match map.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let repository = text("repository").or_else(|| text("image").filter(|_| map.contains_key("registry")))?;
    let registry = text("registry").or_else(|| text("hub"));
    let mut name = match registry {
        Some(registry) => format!("{}/{repository}", registry.trim_end_matches('/')),
        None => repository,
    };
    let (tag, digest) = (text("tag").or_else(|| text("version")), text("digest").or_else(|| text("sha")));
    if tag.is_none() && digest.is_none() {
        return None;
    }
    if let Some(tag) = tag {
        name = format!("{name}:{tag}");
    }
    if let Some(digest) = digest {
        let digest = if digest.contains(':') { digest } else { format!("sha256:{digest}") };
        name = format!("{name}@{digest}");
    }
    Reference::read(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Found {
        images(&documents::read(text).unwrap())
    }

    fn names(map: &BTreeMap<String, String>) -> Vec<&str> {
        map.keys().map(String::as_str).collect()
    }

    #[test]
    fn images_of_pods_are_found_in_any_kind_of_object() {
        let found = found(
            "kind: CronJob\nmetadata: {name: tidy, namespace: ops}\nspec:\n  jobTemplate:\n    spec:\n      template:\n        spec:\n          \
             initContainers: [{image: 'busybox:1.36'}]\n          containers: [{name: a, image: 'quay.io/a/b:1'}]\n          \
             ephemeralContainers: [{image: 'quay.io/a/debug:1'}]\n          \
             volumes: [{name: data, image: {reference: 'quay.io/a/data:1'}}, {name: x, emptyDir: {}}]\n---\n\
             kind: List\nitems:\n- {kind: Pod, metadata: {name: p}, spec: {containers: [{image: 'c/d'}]}}\n---\n\
             kind: Rollout\nspec: {template: {spec: {containers: [{image: 'registry.example:5000/x:2'}]}}}\n",
        );
        let pods = [
            "docker.io/c/d",
            "docker.io/library/busybox:1.36",
            "quay.io/a/b:1",
            "quay.io/a/data:1",
            "quay.io/a/debug:1",
            "registry.example:5000/x:2",
        ];
        assert_eq!(names(&found.pods), pods);
        assert_eq!(
            found.pods["quay.io/a/b:1"],
            "CronJob ops/tidy: spec.jobTemplate.spec.template.spec.containers[0].image"
        );
        assert!(found.suspects.is_empty(), "{:?}", found.suspects);
    }

    #[test]
    fn an_operator_that_hides_images_in_args_env_and_files_is_suspected() {
        let found = found(
            "kind: Deployment\nmetadata: {name: operator}\nspec: {template: {spec: {containers: [{image: 'a.b/operator:1', \
             args: [--sidecar-image=a.b/sidecar:2, --proxy-image, 'a.b/proxy'], \
             env: [{name: RELATED_IMAGE_X, value: 'a.b/related'}, {name: PORT, value: '8080'}]}]}}}\n---\n\
             kind: ConfigMap\nmetadata: {name: files}\ndata:\n  pod.yaml: |\n    kind: Pod\n    spec:\n      containers:\n      - image: a.b/nested:3\n  \
             config.yaml: |\n    worker:\n      image:\n        repository: a.b/worker\n        tag: v4\n---\n\
             kind: Secret\nmetadata: {name: hidden}\ndata: {x: aW1hZ2U6IGEuYi9zZWNyZXQ6NQo=}\n---\n\
             kind: Prometheus\nmetadata: {name: p}\nspec: {image: 'a.b/prometheus:v3', thanos: {image: {registry: a.b, repository: thanos, tag: v6}}}\n",
        );
        assert_eq!(names(&found.pods), ["a.b/operator:1"]);
        let suspects = [
            "a.b/nested:3",
            "a.b/prometheus:v3",
            "a.b/proxy",
            "a.b/related",
            "a.b/secret:5",
            "a.b/sidecar:2",
            "a.b/thanos:v6",
            "a.b/worker:v4",
        ];
        assert_eq!(names(&found.suspects), suspects);
        assert_eq!(found.suspects["a.b/sidecar:2"], "Deployment operator: spec.template.spec.containers[0].args[0]");
    }

    #[test]
    fn defaults_in_schemas_are_searched_and_descriptions_are_not() {
        let found = found(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\nspec: {versions: [{schema: {properties: {\
             image: {description: 'like a.b/explained:1', default: a.b/set, type: string}, \
             containers: {type: array, items: {properties: {image: {type: string}}}}}}}]}\n",
        );
        assert_eq!(names(&found.suspects), ["a.b/set"]);
        assert!(found.pods.is_empty());
    }

    #[test]
    fn an_object_with_items_is_a_list_whatever_its_kind_is_and_a_definition_is_one_of_its_group() {
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{image: 'evil.b/x:1'}]}}";
        let of_definition = |version: &str, more: &str| {
            found(&format!("apiVersion: {version}\nkind: CustomResourceDefinition\nmetadata: {{name: x}}\n{more}\n"))
        };
        let listed = of_definition("apiextensions.k8s.io/v1", &format!("items: [{pod}]"));
        assert_eq!(names(&listed.pods), ["evil.b/x:1"]);
        let other = of_definition("example.com/v1", &format!("spec: {{template: {pod}}}"));
        assert_eq!(names(&other.pods), ["evil.b/x:1"]);
        let secrets = found("kind: SecretList\nitems: [{data: {x: aW1hZ2U6IGEuYi9zZWNyZXQ6NQo=}}]\n");
        assert_eq!(names(&secrets.suspects), ["a.b/secret:5"]);
    }

    #[test]
    fn all_texts_within_objects_share_one_room_and_are_searched_as_words_when_it_is_used_up() {
        let files: String = (0..10)
            .map(|at| {
                format!("  f{at}: |\n    image: {{repository: a.b/file{at}, tag: v1}}\n    more: a.b/word{at}:1\n")
            })
            .collect();
        let text = format!("kind: ConfigMap\nmetadata: {{name: x}}\ndata:\n{files}");
        let documents = documents::read(&text).unwrap();
        let of = |room| {
            names(&images_within(&documents, room, SUSPECTS).suspects)
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let whole = of(Room::nested());
        assert!(whole.contains(&"a.b/file9:v1".to_owned()), "{whole:?}");
        // Some five of ten.
        let few = of(Room::of(250));
        assert!(few.contains(&"a.b/file0:v1".to_owned()) && !few.contains(&"a.b/file9:v1".to_owned()), "{few:?}");
        assert!(few.contains(&"a.b/word9:1".to_owned()), "{few:?}");
    }

    #[test]
    fn a_text_of_more_names_than_anybody_can_judge_is_refused_with_its_place() {
        let words: String = (0..100).map(|at| format!("a:{at}.0 ")).collect();
        let documents =
            documents::read(&format!("kind: ConfigMap\nmetadata: {{name: x}}\ndata: {{a: '{words}', b: '{words}'}}\n"));
        let of = |most| images_within(documents.as_ref().unwrap(), Room::nested(), most);
        let all = of(100);
        assert!(all.suspects.len() == 100 && !all.is_cut(), "{:?}", all.broken);
        let few = of(99);
        assert!(few.suspects.len() == 99 && few.is_cut());
        assert_eq!(few.broken["(more than 99 names that look like images)"], "ConfigMap x: data.a");
    }

    #[test]
    fn a_place_is_no_longer_than_is_shown_whatever_the_names_on_the_way_are() {
        // Of two bytes each: a cut may be in the middle of one.
        let long = "ä".repeat(1 << 20);
        let values =
            |key: &str| serde_json::json!({"kind": "Thing", "metadata": {"name": "x"}, key: {"image": "a.b/c:1"}});
        let many = (0..1_000).fold(serde_json::json!("a.b/c:1"), |inner, _| serde_json::json!({"part": inner}));
        let odd = format!("x{long}");
        for object in [values(&long), values(&odd), serde_json::json!({"kind": long, "x": many})] {
            let place = &images(&[object]).suspects["a.b/c:1"];
            assert!(place.len() <= PLACE_LENGTH + '…'.len_utf8() && place.ends_with('…'), "{} bytes", place.len());
        }
        assert_eq!(images(&[values("spec")]).suspects["a.b/c:1"], "Thing x: spec.image");
    }

    #[test]
    fn a_place_writes_nothing_to_a_terminal_but_text() {
        let found = found("kind: \"Pod\\e[2J\"\nmetadata: {name: \"a\\nb\"}\nspec: {\"x\\u202e\": 'a.b/c:1'}\n");
        assert_eq!(found.suspects["a.b/c:1"], "Pod [2J a b: spec.x ");
    }

    #[test]
    fn invalid_image_references_are_reported() {
        let found = found("kind: Pod\nspec: {containers: [{image: ''}, {image: 'A/B'}]}\n");
        assert_eq!(names(&found.broken), ["", "A/B"]);
    }

    #[test]
    fn objects_of_unexpected_shape_do_not_stop_the_search() {
        for text in [
            "kind: [1]\nmetadata: x\nspec: null\n",
            "containers: [null, 1, [x], {image: 3}]\n",
            "volumes: [1, {image: x}]\n",
            "kind: Secret\ndata: [x]\n",
            "kind: PodList\nitems: [1, null]\n",
            "- a\n- b\n",
            "just text\n",
            "kind: CustomResourceDefinition\ndefault: {default: [default]}\n",
            "repository: 1\ntag: [x]\n",
        ] {
            found(text);
        }
    }
}
