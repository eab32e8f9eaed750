//! kubelet's client certificate: the file that kubelet's own link names, as kubelet itself keeps it.

use kubexm_plan::op::{KUBELET_CLIENT, KUBELET_CLIENT_RENEWED, KubeletCertificate, KubeletClient};

use crate::fsio::{self, Access};
use crate::path_state::{self, Look, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave, systemd};

const KUBELET: &str = "kubelet.service";

impl Converge for KubeletCertificate {
    fn observe(&self, machine: &Machine) -> Result<KubeletClient, OpError> {
        let real = machine.path(KUBELET_CLIENT);
        let current = match real.is_file() {
            true => Some(fsio::digest(&real)?),
            false => None,
        };
        Ok(KubeletClient {
            link: PathState::look(machine, KUBELET_CLIENT)?,
            file: PathState::look(machine, KUBELET_CLIENT_RENEWED)?,
            current,
        })
    }

    fn satisfied(&self, found: &KubeletClient, _: &Machine) -> bool {
        found.current.is_some_and(|digest| digest != self.was)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![KUBELET_CLIENT.to_owned(), KUBELET_CLIENT_RENEWED.to_owned()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let [slot] = self.slots.as_slice() else {
            return Err(OpError::other("kubelet has one client certificate; this is a fault of the plan"));
        };
        path_state::replaceable(machine, KUBELET_CLIENT)?;
        machine.write_file(KUBELET_CLIENT_RENEWED, machine.slot(slot)?, Access::mode(0o600))?;
        // In a machine that is only a directory, a link to an absolute path would lead out of it.
        let target = KUBELET_CLIENT_RENEWED.rsplit('/').next().unwrap_or(KUBELET_CLIENT_RENEWED);
        path_state::put_link(machine, KUBELET_CLIENT, target)?;
        systemd::start_anew(machine, KUBELET)
    }

    fn restore(&self, machine: &Machine, before: &KubeletClient, wave: Wave) -> Result<(), OpError> {
        match wave {
            Wave::Data => {
                before.link.restore(machine)?;
                before.file.restore(machine)
            }
            Wave::Stop | Wave::Start => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use kubexm_plan::SlotName;
    use kubexm_spec::Digest;

    impl Cases for KubeletCertificate {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("kubelet's certificate", |h| {
            h.with_cluster();
            let folder = "/var/lib/kubelet/pki";
            h.put(&format!("{folder}/kubelet-client-2025.pem"), "ended");
            let link = h.machine.path(format!("{folder}/kubelet-client-current.pem"));
            std::os::unix::fs::symlink("kubelet-client-2025.pem", link).expect("a link");
            let slot = SlotName("kubelet".to_owned());
            h.machine = h.machine.with_slots([(slot.clone(), b"certificate and key".to_vec())].into());
            KubeletCertificate { slots: vec![slot], was: Digest::of("ended") }
        })]);
    }
}
