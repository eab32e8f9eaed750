//! kubectl with the admin kubeconfig.

use serde_json::Value;

use crate::system::Program;
use crate::{Machine, OpError, paths};

/// kubectl with these arguments.
pub(crate) fn kubectl<S: Into<String>>(args: impl IntoIterator<Item = S>) -> Program {
    Program::new("kubectl").args(["--kubeconfig", paths::ADMIN_CONF, "--request-timeout=30s"]).args(args).within(120)
}

/// Whether there is a cluster to talk to at all.
pub(crate) fn has_admin_conf(machine: &Machine) -> bool {
    machine.path(paths::ADMIN_CONF).is_file()
}

/// `kubectl get … -o json`.
pub(crate) fn get<S: Into<String>>(machine: &Machine, args: impl IntoIterator<Item = S>) -> Result<Value, OpError> {
    let program = kubectl(["get", "-o", "json"]).args(args);
    let output = machine.run(&program)?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| OpError::other(format!("`{program}` did not answer JSON: {error}")))
}

/// A node object; none when the cluster does not know it or does not answer.
pub(crate) fn node(machine: &Machine, name: &str) -> Result<Option<Value>, OpError> {
    if !has_admin_conf(machine) {
        return Ok(None);
    }
    let output = machine.try_run(&kubectl(["get", "-o", "json", "node", name]))?;
    Ok(if output.code == 0 { serde_json::from_slice(&output.stdout).ok() } else { None })
}
