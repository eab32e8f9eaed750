//! Certificates that kubeadm manages, renewed by `kubeadm certs renew`, which needs no API server.

use std::time::Duration;

use kubexm_plan::op::{CertificatesRenewed, Renewal, RenewedFiles};

use crate::path_state::{Look, PathState, PutBack};
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave, paths};

/// kubeadm asks an API server that may not answer for its config first, where none of ours is on the host.
const LIMIT: Duration = Duration::from_secs(90);

impl Converge for CertificatesRenewed {
    fn observe(&self, machine: &Machine) -> Result<RenewedFiles, OpError> {
        let paths = self.certificates.iter().flat_map(Renewal::files);
        Ok(RenewedFiles { files: paths.map(|path| PathState::look(machine, &path)).collect::<Result<_, _>>()? })
    }

    fn satisfied(&self, found: &RenewedFiles, _: &Machine) -> bool {
        self.certificates.iter().all(|one| is_renewed(one, &found.files))
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        self.certificates.iter().flat_map(Renewal::files).collect()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let found = self.observe(machine)?;
        for one in self.certificates.iter().filter(|one| !is_renewed(one, &found.files)) {
            if !machine.path(&one.path).is_file() {
                return Err(OpError::other(format!(
                    "{} is not there any more: it was there when the plan was made; find out who removed it, then run again",
                    one.path
                )));
            }
            machine.run(&renew(&one.name, machine))?;
            let now = PathState::look(machine, &one.path)?;
            if !is_renewed(one, std::slice::from_ref(&now)) {
                return Err(OpError::other(format!(
                    "`kubeadm certs renew {}` succeeded, but {} is unchanged",
                    one.name, one.path
                )));
            }
        }
        Ok(())
    }

    fn restore(&self, machine: &Machine, before: &RenewedFiles, wave: Wave) -> Result<(), OpError> {
        match wave {
            Wave::Data => before.files.iter().try_for_each(|file| file.restore(machine)),
            Wave::Stop | Wave::Start => Ok(()),
        }
    }
}

/// Whether the file is there with another content than the one that was found.
fn is_renewed(one: &Renewal, files: &[PathState]) -> bool {
    let place = files.iter().find(|place| place.path == one.path);
    place.and_then(|place| place.entry.digest()).is_some_and(|digest| digest != one.was)
}

/// Without our config kubeadm takes that of the cluster, or its own defaults where no API server answers: the same folder.
pub(crate) fn renew(name: &str, machine: &Machine) -> Program {
    renew_by(name, machine, paths::KUBEADM_CONFIG)
}

/// The same by another config, if it is there.
pub(crate) fn renew_by(name: &str, machine: &Machine, config: &str) -> Program {
    let program = Program::new("kubeadm").args(["certs", "renew", name]).within(LIMIT.as_secs());
    if machine.path(config).is_file() { program.args(["--config", config]) } else { program }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use kubexm_plan::op::Renewal;
    use kubexm_spec::Digest;

    impl Cases for CertificatesRenewed {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("certificates of kubeadm", |h| {
            h.with_cluster();
            let renewal = |name: &str, path: &str| Renewal {
                name: name.to_owned(),
                path: path.to_owned(),
                was: Digest::of(h.read(path)),
            };
            let certificates = vec![
                renewal("apiserver", "/etc/kubernetes/pki/apiserver.crt"),
                renewal("admin.conf", "/etc/kubernetes/admin.conf"),
            ];
            CertificatesRenewed { certificates }
        })]);
    }
}
