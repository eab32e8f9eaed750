//! The host's name, now and at boot.

use kubexm_plan::op::{Hostname, Names};

use crate::fsio::{self, Access};
use crate::path_state::{self, Look, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave};

const FILE: &str = "/etc/hostname";
const CLOUD_INIT: &str = "/etc/cloud";
const PRESERVE: &str = "/etc/cloud/cloud.cfg.d/99-kubexm.cfg";
const PRESERVE_TEXT: &str = "# Managed by KubeXM: a reboot must not change what the cluster knows this host by.\n\
                             preserve_hostname: true\nmanage_etc_hosts: false\n";

impl Converge for Hostname {
    fn observe(&self, machine: &Machine) -> Result<Names, OpError> {
        let cloud_init = machine.path(CLOUD_INIT).is_dir();
        Ok(Names {
            live: machine.system().hostname()?,
            configured: fsio::read_text(&machine.path(FILE))?.map(|text| text.trim().to_owned()),
            file: PathState::look(machine, FILE)?,
            preserve: if cloud_init { Some(PathState::look(machine, PRESERVE)?) } else { None },
            preserved: !cloud_init
                || fsio::read(&machine.path(PRESERVE))?.is_some_and(|text| text == PRESERVE_TEXT.as_bytes()),
        })
    }

    fn satisfied(&self, found: &Names, _: &Machine) -> bool {
        found.live == self.name && found.configured.as_deref() == Some(&self.name) && found.preserved
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![FILE.to_owned(), PRESERVE.to_owned()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let found = self.observe(machine)?;
        if !found.preserved {
            machine.write_file(PRESERVE, PRESERVE_TEXT.as_bytes(), Access::mode(0o644))?;
        }
        if found.configured.as_deref() != Some(&self.name) {
            let access = path_state::access_like(machine, FILE, 0o644)?;
            machine.write_file(FILE, format!("{}\n", self.name).as_bytes(), access)?;
        }
        if found.live != self.name {
            machine.system().set_hostname(&self.name)?;
        }
        Ok(())
    }

    fn restore(&self, machine: &Machine, before: &Names, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Data {
            return Ok(());
        }
        before.file.restore(machine)?;
        if let Some(preserve) = &before.preserve {
            preserve.restore(machine)?;
        }
        if machine.system().hostname()? != before.live {
            machine.system().set_hostname(&before.live)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for Hostname {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("the host's name under cloud-init", |h| {
            h.put("/etc/cloud/cloud.cfg", "preserve_hostname: false\n");
            Hostname { name: "node1".into() }
        })]);
    }
}
