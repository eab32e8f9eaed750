//! Links that the host's own network managers leave alone (NetworkManager.conf(5), networkd.conf(5), systemd.network(5)).

use kubexm_plan::op::{ManagersFiles, UnmanagedLinks};

use crate::fsio::{self, Access};
use crate::path_state::{Look, PathState, PutBack};
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave};

/// Where systems have it. Its folder in /etc other packages make, too.
const NETWORK_MANAGER_PROGRAMS: [&str; 2] = ["/usr/sbin/NetworkManager", "/usr/bin/NetworkManager"];
/// By whether /lib is a link.
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
    if has_any(machine, &NETWORK_MANAGER_PROGRAMS) {
        let names: Vec<String> = links.iter().map(|link| format!("interface-name:{link}")).collect();
        // `+=`: what other files say of other links counts as well.
        let text = format!("{HEAD}[keyfile]\nunmanaged-devices+={}\n", names.join(";"));
        all.push((UnmanagedLinks::NETWORK_MANAGER, text));
    }
    if has_any(machine, &NETWORKD_PROGRAMS) {
        // Read when it starts, which is when it would remove them.
        let text = format!("{HEAD}[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n");
        all.push((UnmanagedLinks::NETWORKD, text));
        let text = format!("{HEAD}[Match]\nName={}\n\n[Link]\nUnmanaged=yes\n", links.join(" "));
        all.push((UnmanagedLinks::NETWORKD_LINKS, text));
    }
    all
}

fn has_any(machine: &Machine, programs: &[&str]) -> bool {
    programs.iter().any(|program| machine.path(program).exists())
}

/// Has NetworkManager read its files, and nothing else of what it does when it is reloaded (1: no DNS, no connection). systemd-networkd reads its
/// own when it starts: asked to do so now, it would also apply what an operator has prepared for its links, and take them down for that.
fn reload(machine: &Machine) -> Result<(), OpError> {
    const NAME: &str = "org.freedesktop.NetworkManager";
    const OBJECT: &str = "/org/freedesktop/NetworkManager";
    let asked = Program::new("systemctl").args(["is-active", "--quiet", "NetworkManager.service"]);
    if has_any(machine, &NETWORK_MANAGER_PROGRAMS) && machine.try_run(&asked)?.code == 0 {
        // Where it cannot, it does when it starts again.
        machine.try_run(&Program::new("busctl").args(["call", NAME, OBJECT, NAME, "Reload", "u", "1"]))?;
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
                h.put("/usr/sbin/NetworkManager", "");
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
                h.put("/usr/bin/NetworkManager", "");
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
        host.put("/etc/NetworkManager/dispatcher.d/20-time", "");
        assert!(op().observe(&host.machine).unwrap().settled, "another package's file is no NetworkManager");
        host.put("/usr/sbin/NetworkManager", "");
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

    /// What a reset takes away is what the first change found, so a file that came with a later one stays until it is named, too.
    #[test]
    fn a_manager_that_is_installed_later_gets_its_file_with_the_next_run_and_both_files_go() {
        let host = Host::fresh();
        host.put("/usr/lib/systemd/systemd-networkd", "");
        let first = op().observe(&host.machine).unwrap();
        op().converge(&host.machine).unwrap();
        host.put("/usr/sbin/NetworkManager", "");
        let second = op().observe(&host.machine).unwrap();
        assert!(!second.settled);
        op().converge(&host.machine).unwrap();
        for before in [&second, &first] {
            for wave in [Wave::Stop, Wave::Data, Wave::Start] {
                op().restore(&host.machine, before, wave).unwrap();
            }
        }
        for path in [UnmanagedLinks::NETWORK_MANAGER, UnmanagedLinks::NETWORKD, UnmanagedLinks::NETWORKD_LINKS] {
            assert!(!host.machine.path(path).exists(), "{path}");
        }
    }
}
