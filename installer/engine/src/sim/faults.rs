//! What tests set on the simulated fleet (unreachable hosts, blobs in depots), and counters that they read.

use kubexm_spec::Digest;

use super::fleet::SimFleet;

impl SimFleet {
    /// Makes a host unreachable.
    pub fn disconnect(&self, host: &str) {
        self.lock().cut.insert(host.to_owned());
    }

    /// Makes a host reachable again.
    pub fn reconnect(&self, host: &str) {
        self.lock().cut.remove(host);
    }

    /// Puts a blob into the cluster's depots.
    pub fn put_into_depots(&self, blob: Digest) {
        self.lock().depots.insert(blob);
    }

    /// Something in the cluster uses this image from now on.
    pub fn use_image(&self, image: &str) {
        self.lock().used_images.insert(image.to_owned());
    }

    /// Nothing in the cluster uses an image from now on.
    pub fn use_no_image(&self) {
        self.lock().used_images.clear();
    }

    /// Adds a problem of a depot, which every node that fetches from it reports.
    pub fn depot_fails(&self, trouble: &str) {
        self.lock().depot_troubles.push(trouble.to_owned());
    }

    /// What this host serves to others is wrong from now on.
    pub fn serves_wrong_bytes(&self, host: &str) {
        self.lock().bad_hosts.insert(host.to_owned());
    }

    /// This host takes requests for what it serves, and never answers them.
    pub fn serves_for_ever(&self, host: &str) {
        self.lock().silent.insert(host.to_owned());
    }

    /// This host says from now on that others lack whatever it wants from them.
    pub fn lies_about_others(&self, host: &str) {
        self.lock().liars.insert(host.to_owned());
    }

    /// Each blob that a host took from another so far: the one, the other.
    pub fn taken(&self) -> Vec<(String, String)> {
        self.lock().taken.clone()
    }

    /// Kinds of the values made for slots so far, in order: `joinToken`, `caCertHash` …
    pub fn provided(&self) -> Vec<String> {
        self.lock().provided.clone()
    }

    /// Undos of a step in a wave so far.
    pub fn undos(&self) -> u64 {
        self.lock().undos
    }
}
