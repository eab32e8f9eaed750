//! DNS servers in addition to the node's own, configured in the way that the node's resolver supports.

use kubexm_plan::op::{Resolver, Servers, Way};

use crate::fsio;
use crate::managed_edit::{self, Edit};
use crate::path_state::{self, Look, PathEntry, PathState, PutBack};
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave};

const RESOLV_CONF: &str = "/etc/resolv.conf";
const RESOLVED_DROP_IN: &str = "/etc/systemd/resolved.conf.d/50-kubexm.conf";
const NETWORK_MANAGER_DROP_IN: &str = "/etc/NetworkManager/conf.d/90-kubexm-dns.conf";

impl Converge for Resolver {
    fn observe(&self, machine: &Machine) -> Result<Servers, OpError> {
        let way = way(machine)?;
        let path = file_of(way);
        let found = fsio::read_text(&machine.path(path))?;
        let wanted = self.wanted(machine, way, found.as_deref())?;
        let settled = self.nameservers.is_empty() || found.as_deref() == Some(&wanted);
        Ok(Servers { way, file: PathState::look(machine, path)?, settled })
    }

    fn satisfied(&self, found: &Servers, _: &Machine) -> bool {
        found.settled
    }

    fn overwrites(&self, machine: &Machine) -> Vec<String> {
        way(machine).map(|way| vec![file_of(way).to_owned()]).unwrap_or_default()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        if self.nameservers.is_empty() {
            return Ok(());
        }
        let way = way(machine)?;
        let path = file_of(way);
        let found = fsio::read_text(&machine.path(path))?;
        let wanted = self.wanted(machine, way, found.as_deref())?;
        machine.write_file(path, &fsio::to_bytes(&wanted), path_state::access_like(machine, path, 0o644)?)?;
        reload_resolver(machine, way)
    }

    fn restore(&self, machine: &Machine, before: &Servers, wave: Wave) -> Result<(), OpError> {
        match wave {
            Wave::Stop => Ok(()),
            // Drop-ins are kubexm's own files.
            Wave::Data if before.way != Way::Plain => before.file.restore(machine),
            Wave::Data if matches!(before.file.entry, PathEntry::Link { .. }) => {
                // The link's target may have changed; kubexm's file has replaced the link.
                let text = fsio::read_text(&machine.path(RESOLV_CONF))?.unwrap_or_default();
                let ours = self.nameservers.iter().all(|own| nameservers(&text).any(|server| server == own));
                let replaced = matches!(PathEntry::look(machine, RESOLV_CONF)?, PathEntry::File { .. });
                if replaced && ours { before.file.restore(machine) } else { Ok(()) }
            }
            Wave::Data => managed_edit::restore(machine, &before.file, before.settled, self),
            // A separate wave, since an undo that was interrupted between the file and the reload could not be detected
            // otherwise.
            Wave::Start if before.settled => Ok(()),
            Wave::Start => reload_resolver(machine, before.way),
        }
    }
}

impl Edit for Resolver {
    fn make(&self, text: &str) -> String {
        plain(text, &self.nameservers)
    }

    fn bare(&self, text: &str) -> String {
        without(text, |server| self.nameservers.iter().any(|own| own == server))
    }

    /// Without kubexm's servers that `then` did not have; a file without other servers is left, so that the host can
    /// still resolve names.
    fn toward(&self, now: &str, then: &str) -> String {
        let ours = |server: &str| {
            self.nameservers.iter().any(|own| own == server) && !nameservers(then).any(|had| had == server)
        };
        if nameservers(now).all(ours) { now.to_owned() } else { without(now, ours) }
    }
}

/// The text without the `nameserver` lines for which `gone` is true.
fn without(text: &str, gone: impl Fn(&str) -> bool) -> String {
    text.split_inclusive('\n').filter(|line| !nameservers(line).next().is_some_and(&gone)).collect()
}

trait Wanted {
    fn wanted(&self, machine: &Machine, way: Way, found: Option<&str>) -> Result<String, OpError>;
}

impl Wanted for Resolver {
    fn wanted(&self, machine: &Machine, way: Way, found: Option<&str>) -> Result<String, OpError> {
        Ok(match way {
            Way::Plain => plain(found.unwrap_or_default(), &self.nameservers),
            Way::Resolved => {
                format!("# Managed by KubeXM.\n[Resolve]\nDNS={}\nDomains=~.\n", self.nameservers.join(" "))
            }
            Way::NetworkManager => {
                // A global section replaces the servers of connections, so these are added after kubexm's.
                let own = fsio::read_text(&machine.path(RESOLV_CONF))?.unwrap_or_default();
                let mut servers = self.nameservers.clone();
                servers.extend(
                    nameservers(&own).filter(|server| !self.nameservers.iter().any(|s| s == server)).map(str::to_owned),
                );
                format!("# Managed by KubeXM.\n[global-dns-domain-*]\nservers={}\n", servers.join(","))
            }
        })
    }
}

fn way(machine: &Machine) -> Result<Way, OpError> {
    if let PathEntry::Link { target } = PathEntry::look(machine, RESOLV_CONF)? {
        if target.contains("systemd/resolve") {
            return Ok(Way::Resolved);
        }
        if target.contains("NetworkManager") {
            return Ok(Way::NetworkManager);
        }
    }
    let text = fsio::read_text(&machine.path(RESOLV_CONF))?.unwrap_or_default();
    let managed = text.lines().any(|line| line.starts_with('#') && line.contains("NetworkManager"));
    Ok(if managed { Way::NetworkManager } else { Way::Plain })
}

const fn file_of(way: Way) -> &'static str {
    match way {
        Way::Plain => RESOLV_CONF,
        Way::Resolved => RESOLVED_DROP_IN,
        Way::NetworkManager => NETWORK_MANAGER_DROP_IN,
    }
}

fn reload_resolver(machine: &Machine, way: Way) -> Result<(), OpError> {
    let arguments = match way {
        Way::Plain => return Ok(()),
        Way::Resolved => ["try-restart", "systemd-resolved.service"],
        Way::NetworkManager => ["try-reload-or-restart", "NetworkManager.service"],
    };
    machine.run(&Program::new("systemctl").args(arguments)).map(drop)
}

/// Addresses of `nameserver` lines.
pub(crate) fn nameservers(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        if words.next() == Some("nameserver") { words.next() } else { None }
    })
}

/// kubexm's first, since glibc uses only three servers.
fn plain(text: &str, ours: &[String]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut placed = false;
    let mut place = |lines: &mut Vec<String>| {
        if !placed {
            lines.extend(ours.iter().map(|server| format!("nameserver {server}")));
            placed = true;
        }
    };
    for line in text.lines() {
        if let Some(server) = nameservers(line).next() {
            place(&mut lines);
            if ours.iter().any(|own| own == server) {
                continue;
            }
        }
        lines.push(line.to_owned());
    }
    place(&mut lines);
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for Resolver {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[
            ("a plain resolv.conf", |_| Resolver { nameservers: vec!["10.0.0.2".into()] }),
            ("systemd-resolved", |h| {
                std::fs::remove_file(h.machine.path("/etc/resolv.conf")).expect("gone");
                let link = h.machine.path("/etc/resolv.conf");
                std::os::unix::fs::symlink("../run/systemd/resolve/stub-resolv.conf", link).expect("a link");
                Resolver { nameservers: vec!["10.0.0.2".into()] }
            }),
        ]);
    }
}
