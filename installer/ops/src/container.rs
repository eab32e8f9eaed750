//! A container of a pod, whatever the runtime.

/// A container that kubelet made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Container {
    /// The runtime's id.
    pub id: String,
    /// Its process runs.
    pub running: bool,
}

/// What a container's first process is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Term,
    Kill,
    /// It reads its files again.
    Hup,
}

impl Signal {
    /// Its name, as kill(1) takes it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Term => "SIGTERM",
            Self::Kill => "SIGKILL",
            Self::Hup => "SIGHUP",
        }
    }
}
