//! Images and containers of docker, through the program of its own archive. Docker asks mirrors for docker.io's images only, so that
//! images are loaded from the node's content store, by their upstream names.
//!
//! Docker knows an image by the digest of its configuration, which names each layer by its content: docker checks them while it
//! loads. Nothing of docker or of cri-dockerd pins an image: a container that is never started keeps it.

use kubexm_plan::op::{ImageLoaded, ImageSource, Listed};
use kubexm_plan::runtime::{self, RuntimeTraits, docker};
use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;
use kubexm_spec::reference::Reference;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::container::{Container, Signal};
use crate::image_list::ImageList;
use crate::kept_image::{KEEPS, NOTHING, config_of, is_kept, keeper};
use crate::oci_archive;
use crate::system::Program;
use crate::{Machine, OpError};

const DOCKER: &RuntimeTraits = runtime::of(RuntimeKind::Docker);
/// The configuration of the client, which root may have one of: logins, contexts, proxies. There is none here.
const NO_CONFIG: &str = "/etc/docker/kubexm-no-client-config";

/// Every image that has a tag, by its full name and the digest of its configuration.
pub(crate) fn images(machine: &Machine) -> Result<ImageList, OpError> {
    let listed =
        machine.run(&client(["image", "ls", "--no-trunc", "--format", "{{.Repository}}\t{{.Tag}}\t{{.ID}}"]))?.stdout();
    let kept = kept(machine)?;
    let names = listed.lines().filter_map(parse_line).map(|(name, digest)| {
        let pinned = kept.contains(&digest);
        (name, vec![Listed { digest, pinned, managed: true }])
    });
    Ok(ImageList::of(names.collect()))
}

/// Docker shortens names of docker.io, and writes `<none>` for what has no tag.
fn parse_line(line: &str) -> Option<(String, String)> {
    let mut words = line.split('\t');
    let (repository, tag, digest) = (words.next()?, words.next()?, words.next()?);
    let name = Reference::read(&format!("{repository}:{tag}"))?.to_string();
    Some((name, digest.parse::<Digest>().ok()?.to_string()))
}

/// Digests of the images that a container of kubexm's keeps. A container has the labels of its image, whoever made that: its name counts,
/// too, and those of pods have kubelet's.
fn kept(machine: &Machine) -> Result<Vec<String>, OpError> {
    let (filter, format) = (format!("label={KEEPS}"), format!("{{{{.Names}}}}\t{{{{.Label \"{KEEPS}\"}}}}"));
    let listed = client(["container", "ls", "--all", "--filter", &filter, "--format", &format]);
    Ok(machine.run(&listed)?.stdout().lines().filter_map(kept_line).collect())
}

fn kept_line(line: &str) -> Option<String> {
    let (name, digest) = line.trim().split_once('\t')?;
    (name == keeper(digest)).then(|| digest.to_owned())
}

/// Loads an image from the store, and keeps it.
pub(crate) fn load(machine: &Machine, op: &ImageLoaded) -> Result<(), OpError> {
    let wanted = config_of(machine, op)?;
    if let ImageSource::Store { blobs } = &op.source {
        let archive = oci_archive::for_docker(machine, &op.reference, &op.digest, blobs)?;
        machine.run(&client(["image", "load", "--quiet"]).pieces(archive).within(900))?;
    }
    if is_kept(&images(machine)?, op, &wanted)? { Ok(()) } else { keep(machine, &op.reference, &wanted) }
}

fn keep(machine: &Machine, name: &str, digest: &str) -> Result<(), OpError> {
    let label = format!("{KEEPS}={digest}");
    let keeper = keeper(digest);
    let create = ["container", "create", "--name", &keeper, "--label", &label, "--network", "none", "--pull", "never"];
    machine.run(&client(create).args([name, NOTHING])).map(drop)
}

/// Removes a name, and what keeps its image if nothing else has it. An image that another container uses stays: it goes with
/// docker's data.
pub(crate) fn remove(machine: &Machine, name: &str) -> Result<(), OpError> {
    let all = images(machine)?;
    let Some(image) = all.of_name(name).first() else { return Ok(()) };
    if image.pinned && all.names_of(&image.digest) == 1 {
        gone(machine, client(["container", "rm", "--volumes", &keeper(&image.digest)]))?;
    }
    gone(machine, client(["image", "rm", name]))
}

/// Containers of this name in pods of kube-system; `what` is kubelet's label, which cri-dockerd keeps.
pub(crate) fn of_system_pod(machine: &Machine, name: &str) -> Result<Vec<Container>, OpError> {
    let labels = ["io.kubernetes.pod.namespace=kube-system".to_owned(), format!("io.kubernetes.container.name={name}")];
    let filters = labels.into_iter().flat_map(|label| ["--filter".to_owned(), format!("label={label}")]);
    let program = client(["container", "ls", "--all", "--no-trunc", "--format", "{{.ID}}\t{{.State}}"]).args(filters);
    let listed = machine.run(&program)?.stdout();
    let all = listed.lines().filter_map(|line| line.split_once('\t'));
    Ok(all.map(|(id, state)| Container { id: id.to_owned(), running: state.trim() == "running" }).collect())
}

/// When a container was created, in nanoseconds since 1970 by the host's clock.
pub(crate) fn created(machine: &Machine, id: &str) -> Result<i128, OpError> {
    let program = client(["container", "inspect", "--format", "{{.Created}}", id]);
    let text = machine.run(&program)?.stdout();
    let created = OffsetDateTime::parse(text.trim(), &Rfc3339);
    let created = created
        .map_err(|error| OpError::other(format!("`{program}` does not say when the container was created: {error}")))?;
    Ok(created.unix_timestamp_nanos())
}

/// Sends a signal to a container's first process. One that is gone is no error.
pub(crate) fn signal(machine: &Machine, id: &str, signal: Signal) -> Result<(), OpError> {
    gone(machine, client(["container", "kill", "--signal", signal.name(), id]))
}

/// Runs what may find nothing to do.
fn gone(machine: &Machine, program: Program) -> Result<(), OpError> {
    let output = machine.try_run(&program)?;
    let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
    let nothing = [
        "no such container",
        "no such image",
        "is not running",
        "is using its referenced image",
        "image is being used",
    ];
    if output.code == 0 || nothing.iter().any(|why| said.contains(why)) {
        return Ok(());
    }
    Err(OpError::other(format!("`{program}` failed: {}", output.tail())))
}

/// Docker's client, with docker's own socket whatever the environment says.
pub(crate) fn client<const N: usize>(args: [&str; N]) -> Program {
    let host = format!("unix://{}", docker::SOCKET);
    Program::new(&DOCKER.program("docker")).args(["--config", NO_CONFIG, "--host", &host]).args(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_docker_shortens_are_full_again() {
        let digest = Digest::of("config").to_string();
        let line = |name: &str, tag: &str| parse_line(&format!("{name}\t{tag}\t{digest}")).map(|(name, _)| name);
        assert_eq!(line("busybox", "1").as_deref(), Some("docker.io/library/busybox:1"));
        assert_eq!(line("registry.k8s.io/pause", "3.10.1").as_deref(), Some("registry.k8s.io/pause:3.10.1"));
        assert_eq!(line("<none>", "<none>"), None);
        assert_eq!(line("host:5000/mine", "1").as_deref(), Some("host:5000/mine:1"));
    }

    #[test]
    fn a_container_keeps_an_image_by_its_own_name() {
        // A pod's container has the labels of its image.
        let digest = "sha256:0123456789abcdef";
        assert_eq!(kept_line(&format!("kubexm-image-0123456789ab\t{digest}")).as_deref(), Some(digest));
        assert_eq!(kept_line(&format!("k8s_web_web-1_default_0_0\t{digest}")), None);
    }
}
