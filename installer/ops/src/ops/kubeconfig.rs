//! admin.conf for a user of the node.

use std::ffi::OsStr;
use std::io::Write as _;

use kubexm_plan::op::{Copied, Kubeconfig};
use kubexm_spec::Digest;

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
        let path = path(&user);
        let file = match PathState::look(machine, &path) {
            // What cannot be looked at, below a link of the user's for example, is no copy that is replaced.
            Err(_) if self.replaces.is_some() => {
                PathState { path, entry: PathEntry::Special, missing: Vec::new(), held: None }
            }
            found => found?,
        };
        let admin = PathEntry::look(machine, paths::ADMIN_CONF)?.digest();
        let settled = match (self.replaces, &file.entry) {
            (Some(was), entry) => !is_copy(entry, was) || admin == Some(was),
            (None, PathEntry::File { digest, mode: 0o600, uid, gid }) => {
                admin == Some(*digest) && (*uid, *gid) == (user.uid, user.gid)
            }
            (None, _) => false,
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
        let access = match (self.replaces, PathEntry::look(machine, &path)?) {
            (Some(was), entry) if !is_copy(&entry, was) => return Ok(()),
            (Some(_), PathEntry::File { mode, uid, gid, .. }) => Access { mode, owner: Some((uid, gid)) },
            _ => Access { mode: 0o600, owner: Some(owner) },
        };
        // The folders belong to the user, who may replace them while root writes.
        let folder = DirFd::open(&machine.path(&user.home))?.child(".kube", 0o700, owner)?;
        fsio::place_in(&folder, OsStr::new("config"), access, |file| file.write_all(&bytes))?;
        machine.relabel(&path)
    }

    fn restore(&self, machine: &Machine, before: &Copied, wave: Wave) -> Result<(), OpError> {
        // One that was left alone may be another by now.
        let was_replaced = self.replaces.is_none_or(|was| is_copy(&before.file.entry, was));
        if wave == Wave::Data && was_replaced { before.file.restore(machine) } else { Ok(()) }
    }
}

fn is_copy(entry: &PathEntry, was: Digest) -> bool {
    entry.digest() == Some(was)
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
        const TESTED: Tested<Case<Self>> = Tested::Here(&[
            ("a user's kubeconfig", |h| {
                h.with_cluster();
                Kubeconfig { user: "root".into(), replaces: None }
            }),
            ("a copy of an earlier admin.conf", |h| {
                h.with_cluster();
                h.put("/root/.kube/config", "an earlier one");
                Kubeconfig { user: "root".into(), replaces: Some(Digest::of("an earlier one")) }
            }),
        ]);
    }
}
