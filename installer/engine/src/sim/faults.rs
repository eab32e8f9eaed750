//! What a test wants to be so on the simulated fleet: hosts cut off, blobs in its depots; and what was asked of it.

use kubexm_spec::Digest;

use super::fleet::SimFleet;

impl SimFleet {
    /// Nothing reaches this host any more.
    pub fn cut(&self, host: &str) {
        self.lock().cut.insert(host.to_owned());
    }

    /// The host is reached again.
    pub fn fix(&self, host: &str) {
        self.lock().cut.remove(host);
    }

    /// The depots of the cluster have this blob.
    pub fn put_into_depots(&self, blob: Digest) {
        self.lock().depots.insert(blob);
    }

    /// A depot fails, as every node that asks will tell.
    pub fn depot_fails(&self, trouble: &str) {
        self.lock().depot_troubles.push(trouble.to_owned());
    }

    /// What was made for slots so far, in order: `joinToken`, `caCertHash` …
    pub fn provided(&self) -> Vec<String> {
        self.lock().provided.clone()
    }

    /// Undos of a step in a wave so far.
    pub fn undos(&self) -> u64 {
        self.lock().undos
    }
}
