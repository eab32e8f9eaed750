//! A client certificate for a node's kubelet, signed by the cluster's CA on a control plane (`kubeadm kubeconfig user`),
//! as kubeadm's documentation renews one that has ended. No API server is needed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::system::Program;
use crate::{Machine, OpError, paths};

/// Certificate and key as one PEM, as kubelet keeps them.
pub(super) fn make(machine: &Machine, node: &str) -> Result<String, OpError> {
    let name = format!("system:node:{node}");
    let mut program = Program::new("kubeadm")
        .args(["kubeconfig", "user", "--org", "system:nodes", "--client-name", &name])
        .within(90);
    if machine.path(paths::KUBEADM_CONFIG).is_file() {
        program = program.args(["--config", paths::KUBEADM_CONFIG]);
    }
    // Only the output has the key, which is quoted in no error: a failure has none.
    let text = machine.run(&program)?.stdout();
    let field = |key: &str| {
        let encoded = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "))?;
        String::from_utf8(BASE64.decode(encoded.trim()).ok()?).ok()
    };
    match (field("client-certificate-data"), field("client-key-data")) {
        (Some(certificate), Some(key)) => Ok(format!("{}\n{key}", certificate.trim_end())),
        _ => Err(OpError::other(format!("`{program}` wrote no kubeconfig with a client certificate"))),
    }
}
