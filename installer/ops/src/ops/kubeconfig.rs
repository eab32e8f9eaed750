//! admin.conf for a user of the node.

use std::os::unix::fs::{DirBuilderExt, chown};

use kubexm_plan::op::Kubeconfig;
use serde::{Deserialize, Serialize};

use crate::fsio::{self, Access};
use crate::place::{Entry, Place};
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave, paths};

/// The user's kubeconfig, and whether it is admin.conf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Copied {
    file: Place,
    settled: bool,
}

struct User {
    uid: u32,
    gid: u32,
    home: String,
}

impl Converge for Kubeconfig {
    type State = Copied;

    fn observe(&self, machine: &Machine) -> Result<Copied, OpError> {
        let user = user(machine, &self.user)?;
        let file = Place::look(machine, &path(&user))?;
        let settled = match (&file.entry, Entry::look(machine, paths::ADMIN_CONF)?.digest()) {
            (Entry::File { digest, mode: 0o600, uid, gid }, Some(admin)) => {
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
        let folder = format!("{}/.kube", user.home);
        match Entry::look(machine, &folder)? {
            Entry::Absent => {
                let real = machine.path(&folder);
                std::fs::DirBuilder::new()
                    .mode(0o700)
                    .create(&real)
                    .map_err(OpError::path("make the folder", &real))?;
                chown(&real, Some(user.uid), Some(user.gid)).map_err(OpError::path("give away", &real))?;
            }
            Entry::Directory { .. } => {}
            // We write as root: a link could lead us anywhere.
            Entry::File { .. } | Entry::Link { .. } | Entry::Special => {
                return Err(OpError::other(format!(
                    "{folder} is not a directory of {}'s own; move it away",
                    self.user
                )));
            }
        }
        let path = path(&user);
        Place::replaceable(machine, &path)?;
        fsio::write(machine, &path, &bytes, Access { mode: 0o600, owner: Some((user.uid, user.gid)) })
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
