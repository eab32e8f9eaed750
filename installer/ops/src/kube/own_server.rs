//! The API server of this very host: by admin.conf a load balancer might ask another one.

use std::time::{Duration, Instant};

use kubexm_spec::cluster::API_PORT;

use super::{API_SERVER, kubectl};
use crate::{Machine, OpError, fsio};

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(2);
/// A flag in its manifest.
const PORT: &str = "- --secure-port=";
/// kubeadm puts this name into the certificate of every API server, and 127.0.0.1 only where its configuration says so.
const NAME: &str = "kubernetes";
/// As Go's `crypto/x509` says that a certificate has other names.
const OTHER_NAMES: &str = "certificate is valid for";

/// Whether it is ready.
pub(crate) fn answers(machine: &Machine) -> Result<bool, OpError> {
    let manifest = fsio::read_text(&machine.path(API_SERVER))?.unwrap_or_default();
    let server = format!("https://127.0.0.1:{}", port(&manifest));
    let asked = machine.try_run(&kubectl(["--server", &server, "get", "--raw", "/readyz"]))?;
    if asked.code != 0 && asked.tail().contains(OTHER_NAMES) {
        let named = ["--server", &server, "--tls-server-name", NAME, "get", "--raw", "/readyz"];
        return Ok(machine.try_run(&kubectl(named))?.code == 0);
    }
    Ok(asked.code == 0)
}

/// Waits until it is ready, and so long at most: after a boot, or a file that was mended, kubelet's pauses between two tries have grown, and it
/// refuses everything until it has read who may do what. Whether it is ready is asked later.
pub(crate) fn wait_for(machine: &Machine, most: Duration) -> Result<(), OpError> {
    let begun = Instant::now();
    while machine.is_real() && begun.elapsed() < most && !answers(machine)? {
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn port(manifest: &str) -> u16 {
    let flag = manifest.lines().find_map(|line| line.trim().strip_prefix(PORT));
    flag.and_then(|port| port.parse().ok()).unwrap_or(API_PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_that_of_the_manifest_or_kubeadms_own() {
        assert_eq!(port("    - kube-apiserver\n    - --secure-port=8443\n"), 8_443);
        assert_eq!(port("kind: Pod\n"), API_PORT);
    }
}
