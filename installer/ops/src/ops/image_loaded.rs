//! An image in containerd's `k8s.io` namespace, pulled from the cluster's registry or imported from the node's content
//! store, and pinned against image GC.
//!
//! `ctr images pull` of 2.x uses containerd's transfer service and reads `hosts.toml`; it needs `--skip-metadata`,
//! since it otherwise requests the manifests of every platform in the index, and a bundle has only some. 1.x has no
//! such flag and requests only its own platform; its transfer service ignores `--hosts-dir`, so `--local` is used. An
//! import uses `--local` in both, since the archive is generated while it is read. The labels are those that the CRI
//! plugin and kubelet's image garbage collection use.
//!
//! CRI-O pulls each image by its one name, from where its own configuration says, and pins what its configuration names. Docker and isulad
//! load each from the store, under its one name.

use kubexm_plan::op::{ImageLoaded, ImageSource, Listed, Loaded};
use kubexm_plan::runtime::{self, RuntimeTraits};
use kubexm_spec::Version;
use kubexm_spec::cluster::RuntimeKind;

use crate::ctr::ctr;
use crate::image_list::{ImageList, LABELS, by_digest, known_digest, parse_line};
use crate::oci_archive;
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave, crictl, docker, isulad, kept_image};

const CONTAINERD: &RuntimeTraits = runtime::of(RuntimeKind::Containerd);

impl Converge for ImageLoaded {
    fn observe(&self, machine: &Machine) -> Result<Loaded, OpError> {
        if let Some(loaded) = in_survey(machine, self.runtime).map(|all| state_of(machine, all, self))
            && self.satisfied(&loaded, machine)
        {
            return Ok(loaded);
        }
        match self.runtime {
            RuntimeKind::CriO => return Ok(crictl::images(machine)?.state_of(self)),
            RuntimeKind::Docker => return Ok(kept_image::state_of(machine, &docker::images(machine)?, self)),
            RuntimeKind::Isulad => return Ok(kept_image::state_of(machine, &isulad::images(machine)?, self)),
            RuntimeKind::Containerd => {}
        }
        let by_tag = list(machine, &self.reference)?;
        let by_digest = list(machine, &by_digest(self, known_digest(self, by_tag.as_ref())))?;
        let complete = by_tag.is_some() && complete(machine, &self.reference)?;
        Ok(Loaded { by_tag, by_digest, complete })
    }

    fn satisfied(&self, found: &Loaded, _: &Machine) -> bool {
        let wanted = known_digest(self, found.by_tag.as_ref()).to_string();
        let good = |listed: &Option<Listed>| listed.as_ref().is_some_and(|i| i.digest == wanted && i.managed);
        // An image is pinned if one of its names is; where a pod has containerd ask for a tag again, the tag's new entry is not.
        let pinned = [&found.by_tag, &found.by_digest].into_iter().flatten().any(|image| image.pinned);
        found.complete && good(&found.by_tag) && good(&found.by_digest) && pinned
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        match self.runtime {
            RuntimeKind::CriO => return with_cri_o(machine, self),
            RuntimeKind::Docker => return docker::load(machine, self),
            RuntimeKind::Isulad => return isulad::load(machine, self),
            RuntimeKind::Containerd => {}
        }
        match &self.source {
            ImageSource::Registry => pull(machine, self)?,
            ImageSource::Store { blobs } => {
                let archive = oci_archive::pieces(machine, &self.reference, &self.digest, blobs)?;
                let import = ["images", "import", "--local", "--platform", &self.platform, "-"];
                machine.run(&ctr(import).pieces(archive).within(900))?;
            }
        }
        let found = list(machine, &self.reference)?;
        let digest = known_digest(self, found.as_ref());
        if found.as_ref().map(|image| &image.digest) != Some(&digest.to_string()) {
            return Err(OpError::other(format!(
                "{} resolved to {}, but {} is expected: containerd received something else; look at \
                 {} and at the registry it points at",
                self.reference,
                found.as_ref().map_or("nothing", |image| &image.digest),
                self.digest,
                CONTAINERD.registries
            )));
        }
        let by_digest = by_digest(self, digest);
        if by_digest != self.reference {
            machine.run(&ctr(["images", "tag", "--force", &self.reference, &by_digest]))?;
        }
        for name in [&self.reference, &by_digest] {
            machine.run(&ctr(["images", "label", name]).args(LABELS))?;
        }
        Ok(())
    }

    fn restore(&self, machine: &Machine, before: &Loaded, wave: Wave) -> Result<(), OpError> {
        // While the runtime still runs; if it is gone or is not kubexm's, the images are removed with its data.
        if wave != Wave::Stop || !machine.path(runtime::of(self.runtime).socket()).exists() {
            return Ok(());
        }
        match self.runtime {
            RuntimeKind::CriO | RuntimeKind::Docker | RuntimeKind::Isulad if before.by_tag.is_some() => return Ok(()),
            RuntimeKind::CriO => return crictl::remove(machine, &self.reference),
            RuntimeKind::Docker => return docker::remove(machine, &self.reference),
            RuntimeKind::Isulad => return isulad::remove(machine, &self.reference),
            RuntimeKind::Containerd => {}
        }
        let by_digest = self.accepted().map(|digest| (by_digest(self, digest), &before.by_digest));
        for (name, was) in [(self.reference.clone(), &before.by_tag)].into_iter().chain(by_digest) {
            if was.is_none() && list(machine, &name)?.is_some() {
                machine.run(&ctr(["images", "remove", &name]))?;
            }
        }
        Ok(())
    }
}

/// CRI-O imports nothing: an image comes from a registry.
fn with_cri_o(machine: &Machine, op: &ImageLoaded) -> Result<(), OpError> {
    if !op.source.is_registry() {
        return Err(OpError::other(format!(
            "{} cannot be imported into {}: name a registry in spec.registry.type",
            op.reference, op.runtime
        )));
    }
    crictl::pull(machine, op).map_err(explain_refusal)?;
    let found = crictl::images(machine)?.state_of(op);
    let digest = known_digest(op, found.by_tag.as_ref());
    match found.by_tag {
        Some(image) if image.digest == digest.to_string() && image.pinned => Ok(()),
        Some(image) if image.digest == digest.to_string() => Err(OpError::other(format!(
            "{} was pulled, and is not pinned: another file than kubexm's in {} sets pinned_images",
            op.reference,
            runtime::of(op.runtime).drop_ins.map_or_else(String::new, |(folder, _)| folder.to_owned())
        ))),
        other => Err(OpError::other(format!(
            "{} resolved to {}, but {} is expected: {} received something else; look at {} and at the registry it points at",
            op.reference,
            other.as_ref().map_or("nothing", |image| &image.digest),
            op.digest,
            op.runtime,
            runtime::of(op.runtime).registries
        ))),
    }
}

fn pull(machine: &Machine, op: &ImageLoaded) -> Result<(), OpError> {
    let own = if is_1(machine)? { "--local" } else { "--skip-metadata" };
    let mut pull = ctr(["images", "pull", "--hosts-dir", CONTAINERD.registries, own])
        .args(["--platform", &op.platform])
        .within(900);
    for label in LABELS {
        pull = pull.args(["--label", label]);
    }
    machine.run(&pull.arg(&*op.reference)).map(drop).map_err(explain_refusal)
}

/// containerd says of a refused login that there are no credentials, or that the repository may not exist; CRI-O, what the
/// registry answered.
fn explain_refusal(error: OpError) -> OpError {
    let text = error.full();
    if ![
        "401 Unauthorized",
        "403 Forbidden",
        "authorization failed",
        "no basic auth credentials",
        "authentication required",
    ]
    .iter()
    .any(|words| text.contains(words))
    {
        return error;
    }
    OpError::other(format!(
        "{text}: the registry refuses this host's login; correct `spec.registry.auths` in cluster.yaml or what its passwordFrom \
         names (of the cluster's own registry, what the cluster was created with), and run again"
    ))
}

/// Whether this is containerd 1.x: `ctr github.com/containerd/containerd v1.7.32`.
fn is_1(machine: &Machine) -> Result<bool, OpError> {
    let said = machine.run(&Program::new("ctr").arg("--version").within(10))?.stdout();
    let version = said.split_whitespace().next_back().unwrap_or_default();
    Ok(Version::of(version).numbers().next() == Some(1))
}

/// The images of the runtime, within a survey.
pub(crate) fn in_survey(machine: &Machine, runtime: RuntimeKind) -> Option<&ImageList> {
    machine.survey()?.images(|references| match runtime {
        RuntimeKind::CriO => crictl::images(machine).ok(),
        RuntimeKind::Docker => docker::images(machine).ok(),
        RuntimeKind::Isulad => isulad::images(machine).ok(),
        RuntimeKind::Containerd => list_all(machine, references).ok(),
    })
}

fn state_of(machine: &Machine, all: &ImageList, op: &ImageLoaded) -> Loaded {
    match op.runtime {
        RuntimeKind::Docker | RuntimeKind::Isulad => kept_image::state_of(machine, all, op),
        RuntimeKind::Containerd | RuntimeKind::CriO => all.state_of(op),
    }
}

/// The images with these references, by tag and by digest, in parallel.
pub(crate) fn list_all(machine: &Machine, references: &[String]) -> Result<ImageList, OpError> {
    let (listed, complete) = std::thread::scope(|scope| {
        let listed = scope.spawn(|| machine.run(&ctr(["images", "list"])));
        let names = references.iter().map(|reference| format!("name=={reference}"));
        // It fails if any of them is incomplete, but still prints the complete ones.
        let complete = machine.try_run(&ctr(["images", "check", "--quiet"]).args(names));
        (listed.join(), complete)
    });
    let listed = listed.unwrap_or_else(|_| Err(OpError::other("listing the images ended abnormally")))?.stdout();
    Ok(ImageList::parse(&listed, &complete?.stdout()))
}

/// One image by name.
fn list(machine: &Machine, name: &str) -> Result<Option<Listed>, OpError> {
    let output = machine.try_run(&ctr(["images", "list", &format!("name=={name}")]))?;
    if output.code != 0 {
        return Ok(None);
    }
    let text = output.stdout();
    let found = text.lines().find(|line| line.split_whitespace().next() == Some(name));
    Ok(found.and_then(parse_line).map(|(_, image)| image))
}

/// `ctr images check --quiet` prints the names that are complete and unpacked.
fn complete(machine: &Machine, name: &str) -> Result<bool, OpError> {
    let output = machine.try_run(&ctr(["images", "check", "--quiet", &format!("name=={name}")]))?;
    Ok(output.code == 0 && output.stdout().lines().any(|line| line.trim() == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use crate::fake::host::Host;
    use kubexm_plan::op::{Op, Unit};
    use kubexm_spec::Digest;

    impl Cases for ImageLoaded {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[
            ("an image", |h| {
                h.ready_for_init();
                let digest = Digest::of("pause");
                let served = format!("{{\"registry.k8s.io/pause:3.10.1\":\"{digest}\"}}");
                h.put("/run/kubexm-double/registry.json", served);
                let reference = "registry.k8s.io/pause:3.10.1".to_owned();
                ImageLoaded {
                    reference,
                    digest,
                    manifest: None,
                    platform: "linux/amd64".into(),
                    runtime: RuntimeKind::Containerd,
                    source: Default::default(),
                }
            }),
            ("an image whose tag names the platform's manifest in place of the index", |h| {
                h.ready_for_init();
                let manifest = Digest::of("pause of amd64");
                let served = format!("{{\"registry.k8s.io/pause:3.10.1\":\"{manifest}\"}}");
                h.put("/run/kubexm-double/registry.json", served);
                ImageLoaded {
                    reference: "registry.k8s.io/pause:3.10.1".to_owned(),
                    digest: Digest::of("pause"),
                    manifest: Some(manifest),
                    platform: "linux/amd64".into(),
                    runtime: RuntimeKind::Containerd,
                    source: Default::default(),
                }
            }),
            ("an image of CRI-O", |h| {
                for program in ["crio", "crictl"] {
                    h.put(&runtime::of(RuntimeKind::CriO).program(program), "#!/bin/true\n");
                }
                h.unit("crio.service", "/usr/local/lib/cri-o/crio");
                h.put(
                    "/etc/crio/crio.conf.d/90-kubexm.conf",
                    "[crio.image]\npinned_images = [\"registry.k8s.io/pause:*\"]\n",
                );
                started(h, "crio.service");
                let digest = Digest::of("pause");
                let served = format!("{{\"registry.k8s.io/pause:3.10.1\":\"{digest}\"}}");
                h.put("/run/kubexm-double/registry.json", served);
                ImageLoaded {
                    reference: "registry.k8s.io/pause:3.10.1".to_owned(),
                    digest,
                    manifest: None,
                    platform: "linux/amd64".into(),
                    runtime: RuntimeKind::CriO,
                    source: Default::default(),
                }
            }),
            ("an image of docker", |h| {
                let docker = runtime::of(RuntimeKind::Docker);
                for program in ["docker", "dockerd"] {
                    h.put(&docker.program(program), "#!/bin/true\n");
                }
                h.unit(docker.unit, &docker.program("dockerd"));
                started(h, docker.unit);
                // Without cri-dockerd nothing would be restored.
                h.put(docker.socket(), "");
                of_the_store(h, RuntimeKind::Docker)
            }),
            ("an image of isulad", |h| {
                for (path, text) in crate::fake::isulad::FILES {
                    h.put(path, text);
                }
                let isulad = runtime::of(RuntimeKind::Isulad);
                h.put(&isulad.program("crictl"), "#!/bin/true\n");
                h.put(isulad.config, "{\"enable-cri-v1\": true}\n");
                h.unit(isulad.unit, "/usr/bin/isulad");
                started(h, isulad.unit);
                of_the_store(h, RuntimeKind::Isulad)
            }),
            ("an image of the store", |h| {
                h.ready_for_init();
                let (layer, index) = ("a layer", "{\"schemaVersion\":2,\"manifests\":[]}");
                let blobs = [layer, index].map(|bytes| {
                    let digest = Digest::of(bytes);
                    h.put(&format!("/var/lib/kubexm/store/blobs/sha256/{}", digest.hex()), bytes);
                    digest
                });
                let reference = "registry.k8s.io/pause:3.10.1".to_owned();
                let source = ImageSource::Store { blobs: blobs.into() };
                ImageLoaded {
                    reference,
                    digest: blobs[1],
                    manifest: None,
                    platform: "linux/amd64".into(),
                    runtime: RuntimeKind::Containerd,
                    source,
                }
            }),
        ]);
    }

    fn started(host: &Host, unit: &str) {
        let name = unit.to_owned();
        let unit = Unit { name, enabled: true, running: Some(true), loaded: vec![], reloaded: vec![] };
        crate::dispatch::converge(&Op::from(unit), &host.machine).expect("a runtime");
    }

    /// An image of one layer, and an index that also names a platform which is not there.
    fn of_the_store(host: &Host, runtime: RuntimeKind) -> ImageLoaded {
        let keep = |bytes: String| {
            let digest = Digest::of(&bytes);
            host.put(&format!("/var/lib/kubexm/store/blobs/sha256/{}", digest.hex()), &bytes);
            digest
        };
        let (config, layer) = (keep("{}".to_owned()), keep("a layer".to_owned()));
        let manifest = keep(format!(
            "{{\"schemaVersion\":2,\"config\":{{\"digest\":\"{config}\"}},\"layers\":[{{\"digest\":\"{layer}\"}}]}}"
        ));
        let absent = Digest::of("arm64");
        let index = keep(format!(
            "{{\"schemaVersion\":2,\"manifests\":[{{\"digest\":\"{absent}\"}},{{\"digest\":\"{manifest}\"}}]}}"
        ));
        ImageLoaded {
            reference: "registry.k8s.io/pause:3.10.1".to_owned(),
            digest: index,
            manifest: None,
            platform: "linux/amd64".into(),
            runtime,
            source: ImageSource::Store { blobs: [config, layer, manifest, index].into() },
        }
    }

    /// A second `create` would load it again, with each pod that has pulled it in between.
    #[test]
    fn an_image_that_a_pod_has_pulled_again_is_pinned_by_its_other_name() {
        let digest = Digest::of("pause");
        let op = ImageLoaded {
            reference: "registry.k8s.io/pause:3.10.1".to_owned(),
            digest,
            manifest: None,
            platform: "linux/amd64".into(),
            runtime: RuntimeKind::Containerd,
            source: Default::default(),
        };
        let host = Host::fresh();
        let satisfied = |by_tag: bool, by_digest: bool| {
            let named = |pinned| Some(Listed { digest: digest.to_string(), managed: true, pinned });
            let found = Loaded { by_tag: named(by_tag), by_digest: named(by_digest), complete: true };
            op.satisfied(&found, &host.machine)
        };
        assert!(satisfied(true, true) && satisfied(false, true) && satisfied(true, false));
        assert!(!satisfied(false, false));
    }

    #[test]
    fn a_refused_login_is_explained_and_other_failures_stay_as_they_are() {
        let said = |text: &str| explain_refusal(OpError::other(text)).full();
        for refused in [
            "unexpected status from HEAD request to https://r/v2/a/manifests/1: 401 Unauthorized",
            "pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials",
        ] {
            assert!(
                said(refused).contains(refused) && said(refused).contains("spec.registry.auths"),
                "{}",
                said(refused)
            );
        }
        assert_eq!(said("dial tcp: connection refused"), OpError::other("dial tcp: connection refused").full());
    }
}
