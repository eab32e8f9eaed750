//! Images and containers of isulad: through the bundle's crictl what the CRI has, and through isulad's own client what it lacks: archives,
//! containers that keep an image, signals.
//!
//! isulad knows an image by the digest of its configuration, and compares each layer with what that names while it loads. It pins no image,
//! and refuses to remove one that a container has, whoever made that.

use std::fs;
use std::io::Write as _;

use kubexm_plan::op::{ImageLoaded, ImageSource, Listed};
use kubexm_plan::runtime::{self, RuntimeTraits, isulad};
use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;
use kubexm_spec::reference::Reference;
use serde::Deserialize;

use crate::container::{Container, Signal};
use crate::image_list::ImageList;
use crate::kept_image::{KEEPS, NOTHING, config_of, is_kept, keeper};
use crate::system::{Piece, Program};
use crate::{Machine, OpError, crictl, fsio, oci_archive, paths};

const ISULAD: &RuntimeTraits = runtime::of(RuntimeKind::Isulad);

/// What crictl lists.
#[derive(Deserialize)]
struct Images {
    #[serde(default)]
    images: Vec<Image>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Image {
    /// The digest of the configuration, in hex.
    id: String,
    /// `registry.k8s.io/pause:3.10.1`; of docker.io without the host.
    #[serde(default)]
    repo_tags: Vec<String>,
}

/// Every image that has a tag, by its full name and the digest of its configuration.
pub(crate) fn images(machine: &Machine) -> Result<ImageList, OpError> {
    let program = crictl::of(ISULAD, ["images", "--output", "json"]);
    let text = machine.run(&program)?.stdout();
    let all: Images = serde_json::from_str(&text).map_err(crictl::unreadable(&program))?;
    let keepers = keepers(machine)?;
    Ok(ImageList::of(all.images.iter().flat_map(|image| names(image, &keepers)).collect()))
}

fn names(image: &Image, keepers: &[String]) -> Vec<(String, Vec<Listed>)> {
    let id = image.id.strip_prefix("sha256:").unwrap_or(&image.id);
    let Ok(digest) = format!("sha256:{id}").parse::<Digest>() else { return Vec::new() };
    let digest = digest.to_string();
    let pinned = keepers.contains(&keeper(&digest));
    let listed = || vec![Listed { digest: digest.clone(), pinned, managed: true }];
    let full = image.repo_tags.iter().filter_map(|tag| Reference::read(tag));
    full.map(|name| (name.to_string(), listed())).collect()
}

/// Names of the containers that keep images: the client pads each to its column.
fn keepers(machine: &Machine) -> Result<Vec<String>, OpError> {
    let filter = format!("label={KEEPS}");
    let listed = machine.run(&client("ps", ["--all", "--filter", &filter, "--format", "{{.Names}}"]))?.stdout();
    Ok(listed.lines().map(|line| line.trim().to_owned()).collect())
}

/// Loads an image from the store, and keeps it.
pub(crate) fn load(machine: &Machine, op: &ImageLoaded) -> Result<(), OpError> {
    let wanted = config_of(machine, op)?;
    if let ImageSource::Store { blobs } = &op.source {
        let archive = oci_archive::for_docker(machine, &op.reference, &op.digest, blobs)?;
        load_archive(machine, &op.reference, &archive)?;
    }
    if is_kept(&images(machine)?, op, &wanted)? {
        return Ok(());
    }
    let kept = keep(machine, &op.reference, &wanted);
    // Another name of the image may have been faster.
    if kept.is_err() && is_kept(&images(machine)?, op, &wanted)? { Ok(()) } else { kept }
}

/// isulad reads an archive by its path, and from no pipe: it stands on the disk meanwhile, where only root looks. One that an interrupted
/// run has left is written anew.
fn load_archive(machine: &Machine, reference: &str, archive: &[Piece]) -> Result<(), OpError> {
    // The name of a temporary file of kubexm's. Two names of one image may be loaded at once, each from a file of its own.
    let path = format!("{}/.{}.tar", paths::STATE, keeper(&Digest::of(reference).to_string()));
    let real = machine.path(&path);
    let loaded = write(&real, archive)
        .map_err(OpError::path("write the archive", &real))
        .and_then(|()| machine.run(&client("load", ["--input", &path]).within(900)).map(drop));
    fsio::remove(&real)?;
    loaded
}

fn write(path: &std::path::Path, archive: &[Piece]) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    archive.iter().try_for_each(|piece| piece.write_to(&mut file))?;
    file.flush()
}

fn keep(machine: &Machine, name: &str, digest: &str) -> Result<(), OpError> {
    let label = format!("{KEEPS}={digest}");
    let keeper = keeper(digest);
    let create = client("create", ["--name", &keeper, "--label", &label, "--net", "none", "--pull", "never"]);
    machine.run(&create.args([name, NOTHING])).map(drop)
}

/// Removes a name, and what keeps its image if nothing else has it. An image that another container uses stays: it goes with
/// isulad's data.
pub(crate) fn remove(machine: &Machine, name: &str) -> Result<(), OpError> {
    let all = images(machine)?;
    let Some(image) = all.of_name(name).first() else { return Ok(()) };
    if image.pinned && all.names_of(&image.digest) == 1 {
        gone(machine, client("rm", ["--volumes", &keeper(&image.digest)]))?;
    }
    gone(machine, client("rmi", [name]))
}

/// Containers of this name in pods of kube-system.
pub(crate) fn of_system_pod(machine: &Machine, name: &str) -> Result<Vec<Container>, OpError> {
    crictl::of_system_pod(machine, ISULAD, name)
}

/// When a container was created, in nanoseconds since 1970 by the host's clock.
pub(crate) fn created(machine: &Machine, id: &str) -> Result<i128, OpError> {
    crictl::created(machine, ISULAD, id)
}

/// Sends a signal to a container's first process. One that is gone is no error.
pub(crate) fn signal(machine: &Machine, id: &str, signal: Signal) -> Result<(), OpError> {
    gone(machine, client("kill", ["--signal", signal.name(), id]))
}

/// Runs what may find nothing to do.
fn gone(machine: &Machine, program: Program) -> Result<(), OpError> {
    let output = machine.try_run(&program)?;
    // The client says on either what the daemon has answered.
    let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let said = String::from_utf8_lossy(&said).to_lowercase();
    let nothing = ["no such container", "no such image", "is not running", "image used by"];
    if output.code == 0 || nothing.iter().any(|why| said.contains(why)) {
        return Ok(());
    }
    Err(OpError::other(format!("`{program}` failed: {}", output.tail())))
}

/// isulad's client, with isulad's own socket whatever the environment says.
pub(crate) fn client<const N: usize>(command: &str, args: [&str; N]) -> Program {
    Program::new(isulad::CLIENT).args([command, "--host", ISULAD.endpoint]).args(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_its_full_names_and_is_pinned_if_a_container_keeps_it() {
        let digest = Digest::of("config");
        let image = |id: &str| Image {
            id: id.to_owned(),
            repo_tags: vec!["busybox:1".to_owned(), "registry.k8s.io/pause:3.10.1".to_owned()],
        };
        let kept = [keeper(&digest.to_string())];
        for (id, keepers, pinned) in
            [(digest.hex().to_string(), kept.as_slice(), true), (digest.to_string(), &[], false)]
        {
            let listed = Listed { digest: digest.to_string(), pinned, managed: true };
            let expected = ["docker.io/library/busybox:1", "registry.k8s.io/pause:3.10.1"];
            let expected = expected.map(|name| (name.to_owned(), vec![listed.clone()]));
            assert_eq!(names(&image(&id), keepers), expected);
        }
        assert_eq!(names(&image("none"), &kept), []);
    }
}
