//! The images of a running cluster, from `kubectl get pods -A -o json`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kubexm_spec::Digest;
use kubexm_spec::cluster::full_reference;
use kubexm_spec::json::memory_of;
use serde_json::Value;

use super::buildable;
use super::error::ImportError;
use super::fit::fit;
use super::imported::Imported;
use super::left::Left;
use super::yaml::{Map, cluster};

/// What pods may take as memory, in bytes: 256 MiB of real ones take two or three GiB. Who may make pods writes what is in
/// them, and small values take fifty times their length.
const MEMORY_LIMIT: usize = 4 << 30;
/// Most bytes of a name that is shown, as many as an API server takes: a pod is named for each of its containers.
const NAME_LENGTH: usize = 253;
/// Where a pod names containers, and where it says what became of them.
const LISTS: [(&str, &str); 3] = [
    ("initContainers", "initContainerStatuses"),
    ("containers", "containerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
];

/// A cluster.yaml of extras with every image that a pod names, by the running digest if the runtime reports it.
pub fn live(json: &[u8]) -> Result<Imported, ImportError> {
    if memory_of(json) > MEMORY_LIMIT {
        return Err(ImportError::ManyPods);
    }
    let mut value: Value = serde_json::from_slice(json).map_err(|e| ImportError::Pods(e.to_string()))?;
    let kind = value["kind"].as_str().map(str::to_owned);
    let items = match kind.as_deref() {
        Some("List" | "PodList") => match value["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        },
        Some("Pod") => vec![value],
        other => return Err(ImportError::Pods(format!("its kind is {}", other.unwrap_or("not given")))),
    };
    let (mut images, mut left) = (BTreeMap::new(), Vec::new());
    let (pods, others): (Vec<&Value>, Vec<&Value>) =
        items.iter().partition(|item| item["kind"].as_str().is_none_or(|kind| kind == "Pod"));
    if pods.is_empty() {
        return Err(ImportError::Pods("it has no pods".to_owned()));
    }
    for other in others {
        let (kind, name) = (other["kind"].as_str().unwrap_or("?"), other["metadata"]["name"].as_str().unwrap_or("?"));
        left.push(Left { line: 0, path: format!("{} {}", cut(kind), cut(name)), reason: "it is not a pod".to_owned() });
    }
    for pod in pods {
        let text = |name: &str| cut(pod["metadata"][name].as_str().unwrap_or("?"));
        let pod_name = format!("{}/{}", text("namespace"), text("name"));
        for (containers, statuses) in LISTS {
            let statuses = by_name(&pod["status"][statuses]);
            for container in pod["spec"][containers].as_array().into_iter().flatten() {
                let name = container["name"].as_str().unwrap_or_default();
                let status = statuses.get(name).copied();
                let mut say = |reason| {
                    left.push(Left { line: 0, path: format!("{pod_name}: {containers} {}", cut(name)), reason });
                };
                match reference(container, status) {
                    Ok(Found { reference, instead_of_id }) => {
                        if instead_of_id {
                            say(format!(
                                "its image is named by its id alone: it is carried as {reference}, refer to it by this name"
                            ));
                        }
                        images.entry(reference).or_insert(());
                    }
                    Err(reason) => say(reason),
                }
            }
        }
    }
    let extra: Vec<Map> = images
        .into_keys()
        .map(|name| {
            let mut image = Map::default();
            image.set("name", name);
            image
        })
        .collect();
    let (mut spec, mut bundle) = (Map::default(), Map::default());
    bundle.put("extraImages", extra);
    spec.set("bundle", bundle);
    let (cluster_yaml, refused) = fit(cluster("live-images", spec))?;
    left.extend(refused);
    let not_buildable = buildable::problems(&cluster_yaml);
    Ok(Imported { kind: "PodList".to_owned(), cluster_yaml, left, assumed: Vec::new(), not_buildable })
}

/// What a pod says of its containers: of each name what comes first.
fn by_name(statuses: &Value) -> BTreeMap<&str, &Value> {
    let mut all = BTreeMap::new();
    for status in statuses.as_array().into_iter().flatten() {
        if let Some(name) = status["name"].as_str() {
            all.entry(name).or_insert(status);
        }
    }
    all
}

/// A name as it is shown.
fn cut(name: &str) -> Cow<'_, str> {
    match name.len() > NAME_LENGTH {
        true => format!("{}…", &name[..name.floor_char_boundary(NAME_LENGTH)]).into(),
        false => name.into(),
    }
}

/// What is to be asked for.
struct Found {
    reference: String,
    /// The pod names no repository.
    instead_of_id: bool,
}

/// What a container runs: the name that the pod gives, at the digest that its node reports for that repository.
fn reference(container: &Value, status: Option<&Value>) -> Result<Found, String> {
    let found = |reference| Found { reference, instead_of_id: false };
    let image = container["image"].as_str().filter(|image| !image.is_empty()).ok_or("it names no image")?;
    let id = status.and_then(|status| status["imageID"].as_str()).unwrap_or_default();
    // `docker-pullable://` was dockershim's.
    let id = id.split_once("://").map_or(id, |(_, rest)| rest);
    if is_id(image) {
        let pulled = id.split_once('@').filter(|(name, digest)| !name.is_empty() && digest.parse::<Digest>().is_ok());
        let full = pulled.and_then(|_| full_reference(id).ok());
        return full.map(|reference| Found { reference, instead_of_id: true }).ok_or_else(|| {
            "its image is named by its id alone, which no registry serves, and its node does not state its source; push \
             it to a registry, or give an OCI layout of it (extraImages, from)"
                .to_owned()
        });
    }
    // Without a tag or digest it is `latest`, as the kubelet has it.
    let last = image.rsplit('/').next().unwrap_or(image);
    let named = if last.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") };
    let full = full_reference(&named).map_err(|problem| format!("its image {problem}"))?;
    if full.contains('@') {
        return Ok(found(full));
    }
    // An imageID without a repository is a config, which no registry serves.
    let digest = id.split_once('@').and_then(|(name, digest)| Some((name, digest.parse::<Digest>().ok()?)));
    let (name, _) = kubexm_spec::depot::split_reference(&full);
    match digest {
        Some((repository, digest)) if is_same(repository, name) => Ok(found(format!("{full}@{digest}"))),
        _ => Ok(found(full)),
    }
}

/// Whether an image is named by the digest of its config: `sha256:…`, `docker://sha256:…`, or the hex alone.
fn is_id(image: &str) -> bool {
    let id = image.split_once("://").map_or(image, |(_, rest)| rest);
    let hex = id.strip_prefix("sha256:").unwrap_or(id);
    hex.len() == 64 && hex.chars().all(|c| c.is_ascii_hexdigit())
}

/// A node that pulled through a mirror reports the mirror's name, whose digest may be another image's.
fn is_same(repository: &str, name: &str) -> bool {
    full_reference(&format!("{repository}:x")).is_ok_and(|full| full == format!("{name}:x"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_that_would_take_far_more_memory_than_real_ones_are_refused_before_they_are_parsed() {
        // It has no end: whoever parses it says that.
        let pods = format!(r#"{{"kind":"List","items":[{}"#, "{},".repeat(6_000_000));
        assert!(matches!(live(pods.as_bytes()), Err(ImportError::ManyPods)));
    }

    #[test]
    fn a_pod_with_a_name_of_any_length_is_not_written_out_for_each_of_its_containers() {
        let pod = |name: &str| {
            let containers = [json!({"name": name}), json!({"name": "b", "image": "r.test/b:1"})];
            json!({"kind": "Pod", "metadata": {"namespace": name, "name": name}, "spec": {"containers": containers}})
        };
        let paths = |name: &str| {
            let imported = live(pod(name).to_string().as_bytes()).unwrap();
            imported.left.into_iter().map(|left| left.path).collect::<Vec<_>>()
        };
        assert_eq!(paths("a"), ["a/a: containers a"]);
        let shown = format!("{}…", "a".repeat(NAME_LENGTH));
        assert_eq!(paths(&"a".repeat(5000)), [format!("{shown}/{shown}: containers {shown}")]);
    }

    #[test]
    fn of_two_statuses_with_one_name_the_first_is_taken() {
        let statuses = json!([{"name": "a", "imageID": "1"}, {}, {"name": "a", "imageID": "2"}]);
        let found = by_name(&statuses);
        assert_eq!((found.len(), &found["a"]["imageID"]), (1, &json!("1")));
    }
}
