//! What is asked of a container runtime.

use kubexm_spec::cluster::RuntimeKind;

/// A container runtime as a node shows it.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeTraits {
    /// Which it is.
    pub kind: RuntimeKind,
    /// systemd unit that runs it, with its suffix.
    pub unit: &'static str,
    /// Further units that come with it.
    pub other_units: &'static [&'static str],
    /// Its CRI endpoint, as Kubernetes names it.
    pub endpoint: &'static str,
    /// Its main config.
    pub config: &'static str,
    /// Folder in which the registries that images come from are named.
    pub registries: &'static str,
    /// Folders that it makes and fills.
    pub state: &'static [&'static str],
    /// Folders below which it mounts what containers see as their root and their shared memory.
    pub container_mounts: &'static [&'static str],
    /// How names of folders in its state begin in which mounts are containers'.
    pub mount_folders: &'static [&'static str],
    /// How a container is kept.
    pub keeper: Option<Keeper>,
}

/// The process that keeps a container while the runtime itself may be stopped.
#[derive(Clone, Copy, Debug)]
pub struct Keeper {
    /// How its program's name begins.
    pub program: &'static str,
    /// Arguments that stand side by side where the container is kubelet's. None where nothing tells its containers from
    /// others': then none is ended, and the runtime cannot be one of [`super::INSTALLED`].
    pub of_kubelet: Option<(&'static str, &'static str)>,
    /// Other engines keep theirs by the same program: the daemon that runs then, and the engine's name. Without that
    /// daemon it is `otherwise`.
    pub shared_with: (&'static str, &'static str),
    /// The engine where the daemon does not run.
    pub otherwise: &'static str,
}

impl RuntimeTraits {
    /// The endpoint's path.
    pub fn socket(&self) -> &'static str {
        self.endpoint.trim_start_matches("unix://")
    }

    /// The unit without its suffix: what `journalctl --unit` and people call it.
    pub fn service(&self) -> &'static str {
        self.unit.trim_end_matches(".service")
    }

    /// Every unit of it.
    pub fn units(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.unit).chain(self.other_units.iter().copied())
    }
}

/// Of a runtime that no recipe knows: only what tells that it is there.
pub(super) const KNOWN_BY_SIGHT: RuntimeTraits = RuntimeTraits {
    kind: RuntimeKind::Docker,
    unit: "",
    other_units: &[],
    endpoint: "",
    config: "",
    registries: "",
    state: &[],
    container_mounts: &[],
    mount_folders: &[],
    keeper: None,
};
