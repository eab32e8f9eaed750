//! admin.conf for a user of the node.

use std::ffi::OsStr;
use std::io::Write as _;

use kubexm_plan::op::{Copied, Kubeconfig};

use crate::dirfd::DirFd;
use crate::fsio::{self, Access};
use crate::path_state::{self, Look, PathEntry, PathState, PutBack};
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave, paths};

struct User {
    uid: u32,
    gid: u32,
    home: String,
}

impl Converge for Kubeconfig {
    fn observe(&self, machine: &Machine) -> Result<Copied, OpError> {
        let user = user(machine, &self.user)?;
        let file = PathState::look(machine, &path(&user))?;
        let settled = match (&file.entry, PathEntry::look(machine, paths::ADMIN_CONF)?.digest()) {
            (PathEntry::File { digest, mode: 0o600, uid, gid }, Some(admin)) => {
                *digest == admin && (*uid, *gid) == (user.uid, user.gid)
            }
            _ => false,
        };
        Ok(Copied { file, settled })
    }

    fn satisfied(&self, found: &Copied, _: &Machine) -> bool {
        found.settled
    }

    fn overwrites(&self, machine: &Machine) -> Vec<String> {
        user(machine, &self.user).map(|user| vec![path(&user)]).unwrap_or_default()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let user = user(machine, &self.user)?;
        let bytes = fsio::read(&machine.path(paths::ADMIN_CONF))?.ok_or_else(|| {
            OpError::other(format!("{} is not there: `kubeadm init` has not run on this node", paths::ADMIN_CONF))
        })?;
        let (path, owner) = (path(&user), (user.uid, user.gid));
        path_state::replaceable(machine, &path)?;
        // The folders belong to the user, who may replace them while root writes.
        let folder = DirFd::open(&machine.path(&user.home))?.child(".kube", 0o700, owner)?;
        let access = Access { mode: 0o600, owner: Some(owner) };
        fsio::place_in(&folder, OsStr::new("config"), access, |file| file.write_all(&bytes))?;
        machine.relabel(&path)
    }

    fn restore(&self, machine: &Machine, before: &Copied, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.file.restore(machine) } else { Ok(()) }
    }
}

fn path(user: &User) -> String {
    format!("{}/.kube/config", user.home)
}

/// From /etc/passwd, else from the name service (LDAP and the like).
fn user(machine: &Machine, name: &str) -> Result<User, OpError> {
    let local = fsio::read_text(&machine.path("/etc/passwd"))?.unwrap_or_default();
    if let Some(user) = parse(&local, name) {
        return Ok(user);
    }
    let found = machine.try_run(&Program::new("getent").args(["passwd", name]))?;
    parse(&found.stdout(), name)
        .ok_or_else(|| OpError::other(format!("the user {name} is not known on this node; make the account first")))
}

fn parse(passwd: &str, name: &str) -> Option<User> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let fields: Vec<&str> = line.split(':').collect();
    let home = fields.get(5)?.trim_end_matches('/');
    Some(User { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()?, home: home.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for Kubeconfig {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("a user's kubeconfig", |h| {
            h.with_cluster();
            Kubeconfig { user: "root".into() }
        })]);
    }
}
