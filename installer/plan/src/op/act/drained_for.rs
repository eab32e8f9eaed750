//! For what a node is drained.

/// For what a node is drained: one that has all of it need not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainedFor<'a> {
    /// Version of its kubelet.
    pub kubelet: Option<&'a str>,
    /// What the node says of its packages ([`super::PACKAGES`]).
    pub packages: Option<&'a str>,
}

impl DrainedFor<'_> {
    /// Whether a node with this kubelet and these packages has it. A drain that is for nothing of the kind is never done by that.
    pub fn is_there(&self, kubelet: &str, packages: Option<&str>) -> bool {
        (self.kubelet.is_some() || self.packages.is_some())
            && self.kubelet.is_none_or(|wanted| wanted == kubelet)
            && (self.packages.is_none() || self.packages == packages)
    }
}
