//! Links that the host's own network managers leave alone (NetworkManager.conf(5), networkd.conf(5), systemd.network(5)).

use kubexm_plan::op::{ManagersFiles, UnmanagedLinks};

use crate::fsio::{self, Access};
use crate::path_state::{Look, PathState, PutBack};
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave};

const NETWORK_MANAGER_FOLDER: &str = "/etc/NetworkManager";
/// Where systems have it, by whether /lib is a link.
const NETWORKD_PROGRAMS: [&str; 2] = ["/usr/lib/systemd/systemd-networkd", "/lib/systemd/systemd-networkd"];

impl Converge for UnmanagedLinks {
    fn observe(&self, machine: &Machine) -> Result<ManagersFiles, OpError> {
        let mut found = ManagersFiles { files: Vec::new(), settled: true };
        for (path, wanted) in wanted(machine, &self.links) {
            found.settled &= fsio::read_text(&machine.path(path))?.as_ref() == Some(&wanted);
            found.files.push(PathState::look(machine, path)?);
        }
        Ok(found)
    }

    fn satisfied(&self, found: &ManagersFiles, _: &Machine) -> bool {
        found.settled
    }

    fn overwrites(&self, machine: &Machine) -> Vec<String> {
        wanted(machine, &self.links).into_iter().map(|(path, _)| path.to_owned()).collect()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        for (path, text) in wanted(machine, &self.links) {
            machine.write_file(path, text.as_bytes(), Access { mode: 0o644, owner: None })?;
        }
        reload(machine)
    }

    fn restore(&self, machine: &Machine, before: &ManagersFiles, wave: Wave) -> Result<(), OpError> {
        match wave {
            Wave::Stop => Ok(()),
            Wave::Data => before.files.iter().try_for_each(|file| file.restore(machine)),
            // A wave of its own, so that a rollback which was interrupted in between is repeated.
            Wave::Start => reload(machine),
        }
    }
}

/// The files for this host, with their content.
fn wanted(machine: &Machine, links: &[String]) -> Vec<(&'static str, String)> {
    const HEAD: &str = "# Managed by KubeXM.\n";
    let mut all = Vec::new();
    if machine.path(NETWORK_MANAGER_FOLDER).is_dir() {
        let names: Vec<String> = links.iter().map(|link| format!("interface-name:{link}")).collect();
        // `+=`: what other files say of other links counts as well.
        let text = format!("{HEAD}[keyfile]\nunmanaged-devices+={}\n", names.join(";"));
        all.push((UnmanagedLinks::NETWORK_MANAGER, text));
    }
    if has_networkd(machine) {
        // Read when it starts, which is when it would remove them.
        let text = format!("{HEAD}[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n");
        all.push((UnmanagedLinks::NETWORKD, text));
        let text = format!("{HEAD}[Match]\nName={}\n\n[Link]\nUnmanaged=yes\n", links.join(" "));
        all.push((UnmanagedLinks::NETWORKD_LINKS, text));
    }
    all
}

fn has_networkd(machine: &Machine) -> bool {
    NETWORKD_PROGRAMS.iter().any(|program| machine.path(program).exists())
}

/// Asks those that run to read their files; one that does not will when it starts. Neither ends a connection for it.
fn reload(machine: &Machine) -> Result<(), OpError> {
    if machine.path(NETWORK_MANAGER_FOLDER).is_dir() {
        machine.try_run(&Program::new("systemctl").args(["try-reload-or-restart", "NetworkManager.service"]))?;
    }
    if has_networkd(machine) {
        machine.try_run(&Program::new("networkctl").arg("reload"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use crate::fake::host::Host;

    fn op() -> UnmanagedLinks {
        UnmanagedLinks { links: vec!["cni0".to_owned(), "veth????????".to_owned()] }
    }

    impl Cases for UnmanagedLinks {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[
            ("NetworkManager", |h| {
                h.put("/etc/NetworkManager/NetworkManager.conf", "[main]\n");
                op()
            }),
            ("systemd-networkd", |h| {
                h.put("/usr/lib/systemd/systemd-networkd", "");
                op()
            }),
            ("both, and a file of the host's in each folder", |h| {
                h.put(
                    "/etc/NetworkManager/conf.d/10-theirs.conf",
                    "[keyfile]\nunmanaged-devices=interface-name:theirs0\n",
                );
                h.put("/lib/systemd/systemd-networkd", "");
                h.put("/etc/systemd/network/10-host0.network", "[Match]\nName=host0\n");
                op()
            }),
        ]);
    }

    #[test]
    fn each_manager_that_a_host_has_is_given_its_own_file_and_others_nothing() {
        let host = Host::fresh();
        assert!(op().observe(&host.machine).unwrap().settled, "a host without any has nothing to change");
        op().converge(&host.machine).unwrap();
        assert!(!host.machine.path(UnmanagedLinks::NETWORKD).exists());
        host.put("/etc/NetworkManager/NetworkManager.conf", "[main]\n");
        host.put("/usr/lib/systemd/systemd-networkd", "");
        assert!(!op().observe(&host.machine).unwrap().settled);
        op().converge(&host.machine).unwrap();
        assert!(op().observe(&host.machine).unwrap().settled);
        assert_eq!(
            host.read(UnmanagedLinks::NETWORK_MANAGER),
            "# Managed by KubeXM.\n[keyfile]\nunmanaged-devices+=interface-name:cni0;interface-name:veth????????\n"
        );
        assert_eq!(
            host.read(UnmanagedLinks::NETWORKD_LINKS),
            "# Managed by KubeXM.\n[Match]\nName=cni0 veth????????\n\n[Link]\nUnmanaged=yes\n"
        );
        assert_eq!(
            host.read(UnmanagedLinks::NETWORKD),
            "# Managed by KubeXM.\n[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n"
        );
    }
}
