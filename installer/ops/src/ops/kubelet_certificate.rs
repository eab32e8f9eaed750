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
