//! The authority that a kubeconfig of the host trusts.

use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::kubeadm_certificates::CLUSTER_CA;
use kubexm_plan::op::KubeconfigAuthority;

use crate::fsio::Access;
use crate::path_state::{self, Look, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave, authority, fsio};

const FIELD: &str = "certificate-authority-data:";

impl Converge for KubeconfigAuthority {
    fn observe(&self, machine: &Machine) -> Result<PathState, OpError> {
        PathState::look(machine, &self.path)
    }

    fn satisfied(&self, _: &PathState, machine: &Machine) -> bool {
        changed(self, machine).is_ok_and(|change| change.is_none())
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![self.path.clone()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let Some(text) = changed(self, machine)? else { return Ok(()) };
        path_state::replaceable(machine, &self.path)?;
        let path = machine.path(&self.path);
        let mode = std::fs::metadata(&path).map_err(OpError::path("look at", &path))?.permissions().mode() & 0o7777;
        machine.write_file(&self.path, text.as_bytes(), Access::mode(mode))
    }

    fn restore(&self, machine: &Machine, before: &PathState, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.restore(machine) } else { Ok(()) }
    }
}

/// The kubeconfig with the host's certificate in place of earlier ones of the same authority; none where nothing changes, as where it names
/// a file instead.
fn changed(op: &KubeconfigAuthority, machine: &Machine) -> Result<Option<String>, OpError> {
    let read = |path: &str| {
        fsio::read_text(&machine.path(path))?
            .ok_or_else(|| OpError::other(format!("{path} is not there: find out who has removed it, then run again")))
    };
    let (ca, text) = (read(CLUSTER_CA)?, read(&op.path)?);
    with_authority(&text, &ca).map_err(|why| {
        OpError::other(format!(
            "{}: the authority that it trusts is not the cluster's ({why}): it would trust nothing of this cluster; find out who has changed it",
            op.path
        ))
    })
}

/// Replaces the authority in each line that has this one; entries of other clusters, which somebody has added, stay.
///
/// # Errors
/// There are only others, or it is not written as kubeadm does.
pub(super) fn with_authority(text: &str, ca: &str) -> Result<Option<String>, String> {
    let wanted = BASE64.encode(ca);
    let (mut lines, mut of_cluster, mut other) = (Vec::new(), false, None);
    for line in text.split_inclusive('\n') {
        let Some((before, value)) = line.split_once(FIELD).filter(|(before, _)| before.trim().is_empty()) else {
            lines.push(line.to_owned());
            continue;
        };
        let found = value.trim().trim_matches(['"', '\'']);
        if found == wanted {
            of_cluster = true;
            lines.push(line.to_owned());
            continue;
        }
        let pem = BASE64.decode(found).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Err(why) = authority::same_authority(pem.as_deref().unwrap_or_default(), ca) {
            other = Some(why);
            lines.push(line.to_owned());
            continue;
        }
        of_cluster = true;
        let end = if line.ends_with('\n') { "\n" } else { "" };
        lines.push(format!("{before}{FIELD} {wanted}{end}"));
    }
    if let Some(why) = other.filter(|_| !of_cluster) {
        return Err(why);
    }
    if !of_cluster && text.contains(FIELD.trim_end_matches(':')) {
        return Err("it has none in a line of its own, as kubeadm writes it".to_owned());
    }
    let changed = lines.concat();
    Ok((changed != text).then_some(changed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    const KUBELET_CONF: &str = "/etc/kubernetes/kubelet.conf";
    const ENDS: i64 = 2_000_000_000;

    impl Cases for KubeconfigAuthority {
        const TESTED: Tested<Case<Self>> =
            Tested::Here(&[("a kubeconfig that trusts the certificate of before", |h| {
                h.with_cluster();
                let (ca, key) = (h.read(CLUSTER_CA), h.read(&CLUSTER_CA.replace(".crt", ".key")));
                let renewed = authority::renewed(&ca, &key, ENDS).expect("a certificate");
                h.put(CLUSTER_CA, &renewed);
                let text =
                    format!("clusters:\n- cluster:\n    {FIELD} {}\n    server: https://a:6443\n", BASE64.encode(ca));
                h.put(KUBELET_CONF, &text);
                KubeconfigAuthority { path: KUBELET_CONF.to_owned() }
            })]);
    }

    #[test]
    fn only_the_same_authority_is_replaced() {
        let (ca, key) = (crate::fake::CA, crate::fake::CA_KEY);
        let renewed = authority::renewed(ca, key, ENDS).expect("a certificate");
        let text = |ca: &str| format!("    {FIELD} {}\n    server: x\n", BASE64.encode(ca));
        assert_eq!(with_authority(&text(ca), &renewed), Ok(Some(text(&renewed))));
        assert_eq!(with_authority(&text(&renewed), &renewed), Ok(None));
        // A file is named instead.
        assert_eq!(with_authority("    certificate-authority: /a/ca.crt\n", &renewed), Ok(None));
        let other = rcgen::generate_simple_self_signed(vec!["other".to_owned()]).expect("a certificate").cert.pem();
        assert_eq!(with_authority(&text(&other), &renewed), Err("their keys are not the same".to_owned()));
        assert!(with_authority(&format!("    {FIELD} AAAA\n"), &renewed).is_err());
        // That of another cluster beside it stays.
        let two = |ca: &str| format!("{}{}", text(&other), text(ca));
        assert_eq!(with_authority(&two(ca), &renewed), Ok(Some(two(&renewed))));
        assert_eq!(with_authority(&two(&renewed), &renewed), Ok(None));
        // One of two in a text would be lost.
        assert!(with_authority(&text(&format!("{ca}{other}")), &renewed).is_err());
        assert!(with_authority("{\"certificate-authority-data\": \"AAAA\"}\n", &renewed).is_err());
    }
}
