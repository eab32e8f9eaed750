//! Images and containers of CRI-O, through the programs of its own archive: `crictl`, and `runc` for signals, which the CRI
//! has no call for. Containers of another runtime that has a crictl of its own are listed in the same way.

use std::collections::BTreeMap;

use kubexm_plan::op::{ImageLoaded, Listed};
use kubexm_plan::runtime::{self, RuntimeTraits, cri_o};
use kubexm_spec::cluster::RuntimeKind;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::container::{Container, Signal};
use crate::image_list::ImageList;
use crate::system::Program;
use crate::{Machine, OpError};

const CRI_O: &RuntimeTraits = runtime::of(RuntimeKind::CriO);
/// As the CRI and crictl name it.
const RUNNING: &str = "CONTAINER_RUNNING";

/// What crictl lists; it writes numbers as texts.
#[derive(Deserialize)]
struct Images {
    #[serde(default)]
    images: Vec<Image>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Image {
    /// `registry.k8s.io/pause:3.10.1`.
    #[serde(default)]
    repo_tags: Vec<String>,
    /// `registry.k8s.io/pause@sha256:…`, of the index and of the platform's manifest.
    #[serde(default)]
    repo_digests: Vec<String>,
    #[serde(default)]
    pinned: bool,
}

#[derive(Deserialize)]
struct Listing {
    #[serde(default)]
    containers: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    state: String,
}

#[derive(Deserialize)]
struct Inspected {
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    created_at: String,
}

/// Every image. One that is not complete is not listed: containers/storage records it last.
pub(crate) fn images(machine: &Machine) -> Result<ImageList, OpError> {
    let program = crictl(["images", "--output", "json"]);
    let text = machine.run(&program)?.stdout();
    let all: Images = serde_json::from_str(&text).map_err(unreadable(&program))?;
    Ok(ImageList::of(all.images.iter().flat_map(names).collect()))
}

/// The names of an image, each with every digest that it is known by. CRI-O pins by its configuration, and manages every image.
fn names(image: &Image) -> Vec<(String, Vec<Listed>)> {
    let mut by_repository: BTreeMap<&str, Vec<Listed>> = BTreeMap::new();
    let mut names = Vec::new();
    for name in &image.repo_digests {
        let Some((repository, digest)) = name.split_once('@') else { continue };
        let listed = Listed { digest: digest.to_owned(), pinned: image.pinned, managed: true };
        by_repository.entry(repository).or_default().push(listed.clone());
        names.push((name.clone(), vec![listed]));
    }
    let tagged = image.repo_tags.iter().filter_map(|tag| {
        // A colon of a port stands before the last slash.
        let (repository, _) = tag.rsplit_once(':')?;
        Some((tag.clone(), by_repository.get(repository)?.clone()))
    });
    names.extend(tagged.collect::<Vec<_>>());
    names
}

/// Pulls an image from where CRI-O's configuration says.
pub(crate) fn pull(machine: &Machine, op: &ImageLoaded) -> Result<(), OpError> {
    machine.run(&crictl(["pull", &op.reference]).within(900)).map(drop)
}

/// Removes a name. An image that a container uses stays: it goes with the data of CRI-O.
pub(crate) fn remove(machine: &Machine, name: &str) -> Result<(), OpError> {
    let program = crictl(["rmi", name]);
    let output = machine.try_run(&program)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.code == 0 || ["in use", "used by", "no such image", "not found"].iter().any(|why| said.contains(why)) {
        return Ok(());
    }
    Err(OpError::other(format!("`{program}` failed: {}", output.tail())))
}

/// Containers of this name in pods of kube-system, by kubelet's labels.
pub(crate) fn of_system_pod(machine: &Machine, runtime: &RuntimeTraits, name: &str) -> Result<Vec<Container>, OpError> {
    let labels = ["io.kubernetes.pod.namespace=kube-system".to_owned(), format!("io.kubernetes.container.name={name}")];
    let labels = labels.into_iter().flat_map(|label| ["--label".to_owned(), label]);
    let program = of(runtime, ["ps", "--all", "--output", "json"]).args(labels);
    let text = machine.run(&program)?.stdout();
    let listing: Listing = serde_json::from_str(&text).map_err(unreadable(&program))?;
    let all = listing.containers.into_iter();
    Ok(all.map(|entry| Container { running: entry.state == RUNNING, id: entry.id }).collect())
}

/// When a container was created, in nanoseconds since 1970 by the host's clock.
pub(crate) fn created(machine: &Machine, runtime: &RuntimeTraits, id: &str) -> Result<i128, OpError> {
    let program = of(runtime, ["inspect", "--output", "json", id]);
    let text = machine.run(&program)?.stdout();
    let found: Inspected = serde_json::from_str(&text).map_err(unreadable(&program))?;
    let created = OffsetDateTime::parse(&found.status.created_at, &Rfc3339);
    let created = created
        .map_err(|error| OpError::other(format!("`{program}` does not say when the container was created: {error}")))?;
    Ok(created.unix_timestamp_nanos())
}

/// Sends a signal to a container's first process. One that is gone is no error.
pub(crate) fn signal(machine: &Machine, id: &str, signal: Signal) -> Result<(), OpError> {
    let program = Program::new(&CRI_O.program("runc")).args(["--root", cri_o::RUNC_ROOT, "kill", id, signal.name()]);
    let output = machine.try_run(&program)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.code == 0 || ["does not exist", "not running"].iter().any(|gone| said.contains(gone)) {
        return Ok(());
    }
    Err(OpError::other(format!("`{program}` failed: {}", output.tail())))
}

pub(crate) fn unreadable(program: &Program) -> impl FnOnce(serde_json::Error) -> OpError + use<> {
    let program = program.to_string();
    move |error| OpError::other(format!("`{program}` answers with something else than expected: {error}"))
}

fn crictl<const N: usize>(args: [&str; N]) -> Program {
    of(CRI_O, args)
}

/// A runtime's own crictl. The host's own /etc/crictl.yaml may name another runtime.
pub(crate) fn of<const N: usize>(runtime: &RuntimeTraits, args: [&str; N]) -> Program {
    let ask = ["--runtime-endpoint", runtime.endpoint, "--image-endpoint", runtime.endpoint, "--timeout", "30s"];
    Program::new(&runtime.program("crictl")).args(ask).args(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_known_by_the_digests_of_its_own_repository() {
        let image = Image {
            repo_tags: vec!["registry.k8s.io/pause:3.10.1".to_owned(), "host:5000/mine:1".to_owned()],
            repo_digests: [
                "registry.k8s.io/pause@sha256:aa",
                "registry.k8s.io/pause@sha256:bb",
                "host:5000/mine@sha256:aa",
            ]
            .map(str::to_owned)
            .to_vec(),
            pinned: true,
        };
        let names: BTreeMap<String, Vec<Listed>> = names(&image).into_iter().collect();
        let digests = |name: &str| names[name].iter().map(|listed| listed.digest.as_str()).collect::<Vec<_>>();
        assert_eq!(digests("registry.k8s.io/pause:3.10.1"), ["sha256:aa", "sha256:bb"]);
        assert_eq!(digests("host:5000/mine:1"), ["sha256:aa"]);
        assert_eq!(digests("registry.k8s.io/pause@sha256:bb"), ["sha256:bb"]);
    }
}
