//! Traits of a container runtime.

use kubexm_spec::cluster::RuntimeKind;

/// What a container runtime has on a node.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeTraits {
    /// The runtime.
    pub kind: RuntimeKind,
    /// Its systemd unit, with the suffix.
    pub unit: &'static str,
    /// Further units that are installed with it.
    pub other_units: &'static [&'static str],
    /// Names of its processes, which end with its units.
    pub daemons: &'static [&'static str],
    /// Its CRI endpoint, as Kubernetes writes it.
    pub endpoint: &'static str,
    /// Folder of its own programs, which are on no search path; none if they are where programs usually are.
    pub programs: Option<&'static str>,
    /// Its main configuration file.
    pub config: &'static str,
    /// Folder of drop-ins, in the order of their names, of which the last one wins; and the one that kubexm writes there.
    pub drop_ins: Option<(&'static str, &'static str)>,
    /// Folder with the configuration of registries.
    pub registries: &'static str,
    /// Folders that it creates and fills.
    pub state: &'static [&'static str],
    /// Folders below which it mounts the root file systems and shared memory of containers.
    pub container_mounts: &'static [&'static str],
    /// Prefixes of the names of folders in its state that contain mounts of containers.
    pub mount_folders: &'static [&'static str],
    /// Mounts that it makes for itself, and takes away when it is stopped: one that is killed leaves them.
    pub own_mounts: &'static [&'static str],
    /// Prefixes of the names of network namespaces that it makes in /run/netns.
    pub namespaces: &'static [&'static str],
    /// Its programs that come with packages of the system; none if the bundle has them.
    pub packaged: &'static [&'static str],
    /// TCP ports on which it listens for its own host.
    pub ports: &'static [u16],
    /// The process that supervises each container.
    pub keeper: Option<Keeper>,
}

/// The process that supervises a container, even while the runtime itself is stopped.
#[derive(Clone, Copy, Debug)]
pub struct Keeper {
    /// Prefix of its program's name.
    pub program: &'static str,
    /// Two consecutive arguments that identify kubelet's containers. None if its containers cannot be distinguished from
    /// others: then no container is stopped, and the runtime cannot be one of [`super::INSTALLED`].
    pub of_kubelet: Option<(&'static str, &'static str)>,
    /// Another engine that uses the same program: its daemon, and its name. If the daemon does not run, the engine is
    /// `otherwise`.
    pub shared_with: (&'static str, &'static str),
    /// The engine if the daemon does not run.
    pub otherwise: &'static str,
}

impl RuntimeTraits {
    /// The path of the endpoint's socket.
    pub fn socket(&self) -> &'static str {
        self.endpoint.trim_start_matches("unix://")
    }

    /// One of its programs, as it is run.
    pub fn program(&self, name: &str) -> String {
        self.programs.map_or_else(|| name.to_owned(), |folder| format!("{folder}/{name}"))
    }

    /// The unit without its suffix, as in `journalctl --unit`.
    pub fn service(&self) -> &'static str {
        self.unit.trim_end_matches(".service")
    }

    /// Every unit of the runtime.
    pub fn units(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.unit).chain(self.other_units.iter().copied())
    }
}
