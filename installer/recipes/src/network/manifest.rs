//! Upstream's manifest, changed as data: objects by kind and name, containers and variables by name. What is not there is noted, and refuses
//! the plan: a change that silently finds nothing would be a cluster with another network than cluster.yaml asks for.

use kubexm_charts::documents;
use kubexm_charts::objects::flattened;
use kubexm_spec::Digest;
use serde_json::{Value, json};

/// The objects of a manifest, and what was not found in them.
#[derive(Debug)]
pub struct Manifest {
    objects: Vec<Value>,
    problems: Vec<String>,
}

/// An object that is being changed.
pub struct Found<'m> {
    /// `DaemonSet calico-node`.
    name: String,
    object: &'m mut Value,
    problems: &'m mut Vec<String>,
}

/// A container that is being changed.
pub struct Container<'m> {
    /// `container calico-node of DaemonSet calico-node`.
    name: String,
    container: &'m mut Value,
    problems: &'m mut Vec<String>,
}

impl Manifest {
    /// Reads a manifest.
    pub fn read(text: &str) -> Result<Self, String> {
        let documents = documents::read(text).map_err(|error| format!("{}: {}", error.place, error.problem))?;
        Ok(Self { objects: flattened(documents), problems: Vec::new() })
    }

    fn place(&self, kind: &str, name: &str) -> Option<usize> {
        self.objects.iter().position(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    }

    /// Changes an object.
    pub fn object(&mut self, kind: &str, name: &str, change: impl FnOnce(Found<'_>)) {
        let Some(at) = self.place(kind, name) else {
            return self.problems.push(format!("it has no {kind} {name}"));
        };
        let (object, problems) = (&mut self.objects[at], &mut self.problems);
        change(Found { name: format!("{kind} {name}"), object, problems });
    }

    /// Removes an object.
    pub fn remove(&mut self, kind: &str, name: &str) {
        match self.place(kind, name) {
            Some(at) => drop(self.objects.remove(at)),
            None => self.problems.push(format!("it has no {kind} {name}")),
        }
    }

    /// Adds an object of ours.
    pub fn add(&mut self, object: Value) {
        self.objects.push(object);
    }

    /// A digest of what these ConfigMaps say.
    pub fn digest(&self, config_maps: &[&str]) -> Digest {
        let data = |name: &&str| self.place("ConfigMap", name).map(|at| &self.objects[at]["data"]);
        Digest::of(config_maps.iter().filter_map(data).map(Value::to_string).collect::<String>())
    }

    /// Gives every container the image that `of` names for upstream's reference.
    pub fn images(&mut self, of: impl Fn(&str) -> Option<String>) {
        for object in &mut self.objects {
            let name = format!("{} {}", word(&object["kind"]), word(&object["metadata"]["name"]));
            for list in ["initContainers", "containers"] {
                let Some(Value::Array(all)) = object.pointer_mut(&format!("{POD}/{list}")) else { continue };
                for container in all {
                    let reference = word(&container["image"]).to_owned();
                    match of(&reference) {
                        Some(image) => container["image"] = image.into(),
                        None => self.problems.push(format!("{name} runs {reference}, which is no image of the bundle")),
                    }
                }
            }
        }
    }

    /// The objects as changed; everything that was not found otherwise.
    pub fn done(self) -> Result<Vec<Value>, Vec<String>> {
        if self.problems.is_empty() { Ok(self.objects) } else { Err(self.problems) }
    }
}

/// The pod of a workload.
const POD: &str = "/spec/template/spec";

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl Found<'_> {
    /// Replaces a value that is there.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) {
        match self.object.pointer_mut(path) {
            Some(place) => *place = value.into(),
            None => self.problems.push(format!("{} has no {path}", self.name)),
        }
    }

    /// Puts another text in the place of one that is there once.
    pub fn replace(&mut self, path: &str, text: &str, by: &str) {
        match self.object.pointer_mut(path) {
            Some(Value::String(place)) if place.matches(text).count() == 1 => *place = place.replace(text, by),
            _ => self.problems.push(format!("{} has no {text:?} in {path}, or more than one", self.name)),
        }
    }

    /// Notes something at its pods: when it is another text, they are replaced.
    pub fn annotate_pods(&mut self, name: &str, text: &str) {
        match self.object.pointer_mut("/spec/template/metadata").and_then(Value::as_object_mut) {
            Some(metadata) => metadata.entry("annotations").or_insert_with(|| json!({}))[name] = text.into(),
            None => self.problems.push(format!("{} has no pods", self.name)),
        }
    }

    /// Changes a container, or one that runs before them.
    pub fn container(&mut self, name: &str, change: impl FnOnce(Container<'_>)) {
        let is_it = |container: &&mut Value| container["name"] == name;
        let pod = self.object.pointer_mut(POD).and_then(Value::as_object_mut);
        let lists =
            pod.into_iter().flatten().filter(|(key, _)| matches!(key.as_str(), "initContainers" | "containers"));
        let mut all = lists.filter_map(|(_, list)| list.as_array_mut()).flatten();
        match all.find(is_it) {
            Some(container) => {
                let name = format!("container {name} of {}", self.name);
                change(Container { name, container, problems: self.problems });
            }
            None => self.problems.push(format!("{} has no container {name}", self.name)),
        }
    }
}

impl Container<'_> {
    /// Gives a variable that is there another value.
    pub fn env(&mut self, name: &str, value: &str) {
        let all = self.container["env"].as_array_mut();
        match all.into_iter().flatten().find(|variable| variable["name"] == name) {
            Some(variable) => *variable = json!({"name": name, "value": value}),
            None => self.problems.push(format!("{} has no variable {name}", self.name)),
        }
    }

    /// Gives a variable a value, whether upstream has it or not.
    pub fn put_env(&mut self, name: &str, value: &str) {
        match self.container.get_mut("env").and_then(Value::as_array_mut) {
            Some(all) => {
                all.retain(|variable| variable["name"] != name);
                all.push(json!({"name": name, "value": value}));
            }
            None => self.problems.push(format!("{} has no variables", self.name)),
        }
    }

    /// Notes if it does not take its variables from this ConfigMap.
    pub fn takes_env_of(&mut self, config_map: &str) {
        let sources = self.container["envFrom"].as_array();
        if !sources.into_iter().flatten().any(|source| source["configMapRef"]["name"] == config_map) {
            self.problems.push(format!("{} takes no variables from ConfigMap {config_map}", self.name));
        }
    }

    /// Leaves a word out of the command of a probe.
    pub fn without_word(&mut self, probe: &str, argument: &str) {
        let command = self.container.pointer_mut(&format!("/{probe}/exec/command")).and_then(Value::as_array_mut);
        let before = command.as_ref().map(|command| command.len());
        if let Some(command) = command {
            command.retain(|word| word != argument);
            if Some(command.len()) != before {
                return;
            }
        }
        self.problems.push(format!("the {probe} of {} has no {argument}", self.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "kind: ConfigMap\nmetadata: {name: config}\ndata: {a: \"1\"}\n---\n\
        kind: DaemonSet\nmetadata: {name: node}\nspec: {template: {metadata: {labels: {}}, spec: {\
        initContainers: [{name: first, image: r.example/cni:v1}], \
        containers: [{name: second, image: r.example/node:v1, env: [{name: A, valueFrom: {fieldRef: {fieldPath: b}}}], \
        envFrom: [{configMapRef: {name: other}}], livenessProbe: {exec: {command: [live, -x, -y]}}}]}}}\n";

    #[test]
    fn what_is_there_is_changed() {
        let mut manifest = Manifest::read(TEXT).unwrap();
        manifest.object("ConfigMap", "config", |mut config| {
            config.set("/data/a", "1, 3");
            config.replace("/data/a", "1, 3", "2");
        });
        let digest = manifest.digest(&["config", "of nobody"]);
        manifest.object("DaemonSet", "node", |mut node| {
            node.annotate_pods("a/b", "c");
            node.container("second", |mut container| {
                container.env("A", "c");
                container.put_env("B", "d");
                container.takes_env_of("other");
                container.without_word("livenessProbe", "-y");
            });
            node.container("first", |_| ());
        });
        manifest.images(|image| Some(image.replace("r.example", "own")));
        let all = manifest.done().unwrap();
        assert_eq!(all[0]["data"]["a"], "2");
        assert_ne!(digest, Manifest::read(TEXT).unwrap().digest(&["config", "of nobody"]), "it says something else");
        assert_eq!(all[1]["spec"]["template"]["metadata"]["annotations"], json!({"a/b": "c"}));
        let pod = &all[1]["spec"]["template"]["spec"];
        assert_eq!(pod["initContainers"][0]["image"], "own/cni:v1");
        let second = &pod["containers"][0];
        assert_eq!(second["env"], json!([{"name": "A", "value": "c"}, {"name": "B", "value": "d"}]));
        assert_eq!(second["livenessProbe"]["exec"]["command"], json!(["live", "-x"]));
    }

    #[test]
    fn whatever_is_not_found_is_noted_by_its_name() {
        let mut manifest = Manifest::read(TEXT).unwrap();
        manifest.remove("Service", "typha");
        manifest.object("ConfigMap", "nowhere", |_| ());
        manifest.object("ConfigMap", "config", |mut config| {
            config.set("/data/b", "2");
            config.replace("/data/a", "2", "3");
            config.annotate_pods("a/b", "c");
        });
        manifest.object("DaemonSet", "node", |mut node| {
            node.container("third", |_| ());
            node.container("first", |mut container| container.put_env("A", "1"));
            node.container("second", |mut container| {
                container.env("C", "c");
                container.takes_env_of("config");
                container.without_word("livenessProbe", "-z");
                container.without_word("readinessProbe", "-y");
            });
        });
        manifest.images(|image| image.contains("node").then(|| "own".to_owned()));
        assert_eq!(
            manifest.done().unwrap_err(),
            [
                "it has no Service typha",
                "it has no ConfigMap nowhere",
                "ConfigMap config has no /data/b",
                "ConfigMap config has no \"2\" in /data/a, or more than one",
                "ConfigMap config has no pods",
                "DaemonSet node has no container third",
                "container first of DaemonSet node has no variables",
                "container second of DaemonSet node has no variable C",
                "container second of DaemonSet node takes no variables from ConfigMap config",
                "the livenessProbe of container second of DaemonSet node has no -z",
                "the readinessProbe of container second of DaemonSet node has no -y",
                "DaemonSet node runs r.example/cni:v1, which is no image of the bundle",
            ]
        );
        assert!(Manifest::read("a: [").is_err());
    }
}
