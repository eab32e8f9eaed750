//! The certificate of an authority, renewed with its own key, or as somebody else has renewed it.

use kubexm_plan::op::{AuthorityRenewed, RenewedFrom};
use kubexm_spec::Digest;
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::fsio::Access;
use crate::path_state::{self, Look, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave, authority, fsio};

/// As kubeadm has it.
const MODE: u32 = 0o644;

impl Converge for AuthorityRenewed {
    fn observe(&self, machine: &Machine) -> Result<PathState, OpError> {
        PathState::look(machine, &self.path)
    }

    fn satisfied(&self, found: &PathState, machine: &Machine) -> bool {
        match &self.from {
            RenewedFrom::Key { was, .. } => found.entry.digest().is_some_and(|digest| digest != *was),
            RenewedFrom::Given { .. } => {
                // A value that could not be read yet is another one.
                let wanted = given(self, machine).map(Digest::of);
                wanted.is_ok_and(|wanted| found.entry.digest() == Some(wanted))
            }
        }
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![self.path.clone()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        path_state::replaceable(machine, &self.path)?;
        let refused = |why: String| OpError::other(format!("{}: {why}; nothing of it was changed", self.path));
        let had = fsio::read_text(&machine.path(&self.path))?.ok_or_else(|| refused("it is not there".to_owned()))?;
        let renewed = match &self.from {
            RenewedFrom::Key { was, .. } if Digest::of(&had) != *was => return Ok(()),
            RenewedFrom::Key { ends, .. } => {
                let path = self.path.replace(".crt", ".key");
                let key = fsio::read_text(&machine.path(&path))?.map(Zeroizing::new).ok_or_else(|| {
                    refused(format!(
                        "its key, {path}, is not on this host: renew it where that is, or bring the key back"
                    ))
                })?;
                authority::renewed(&had, &key, *ends).map_err(refused)?
            }
            RenewedFrom::Given { .. } => {
                let renewed = String::from_utf8_lossy(given(self, machine)?).into_owned();
                authority::same_authority(&had, &renewed).map_err(|why| {
                    refused(format!(
                        "it is another authority than the one that was renewed ({why}): find out who has changed it, and put back what the control planes have"
                    ))
                })?;
                let [(_, had_ends), (begins, ends)] =
                    [&had, &renewed].map(|pem| authority::period(pem).unwrap_or_default());
                if ends < had_ends || begins > OffsetDateTime::now_utc().unix_timestamp() {
                    return Err(refused(
                        "the renewed one ends earlier than this one, or begins later than now: the control plane that it comes from, or its \
                         clock, is not to be trusted with it"
                            .to_owned(),
                    ));
                }
                renewed
            }
        };
        machine.write_file(&self.path, renewed.as_bytes(), Access::mode(MODE))
    }

    fn restore(&self, machine: &Machine, before: &PathState, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.restore(machine) } else { Ok(()) }
    }
}

fn given<'m>(op: &AuthorityRenewed, machine: &'m Machine) -> Result<&'m [u8], OpError> {
    match &op.from {
        RenewedFrom::Given { slots } if slots.len() == 1 => machine.slot(&slots[0]),
        _ => Err(OpError::other("an authority is given by one slot; this is a fault of the plan")),
    }
}

#[cfg(test)]
mod tests {
    use kubexm_plan::SlotName;
    use kubexm_plan::kubeadm_certificates::CLUSTER_CA;

    use super::*;
    use crate::cases::{Case, Cases, Tested};

    /// After that of the fake, which is 2036.
    const ENDS: i64 = 4_000_000_000;

    impl Cases for AuthorityRenewed {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[
            ("an authority, with its key", |h| {
                h.with_cluster();
                let from = RenewedFrom::Key { was: Digest::of(h.read(CLUSTER_CA)), ends: ENDS };
                AuthorityRenewed { path: CLUSTER_CA.to_owned(), from }
            }),
            ("an authority, from another host", |h| {
                h.with_cluster();
                let key = h.read(&CLUSTER_CA.replace(".crt", ".key"));
                let renewed = authority::renewed(&h.read(CLUSTER_CA), &key, ENDS).expect("a certificate");
                let slot = SlotName("ca".to_owned());
                h.machine = h.machine.with_slots([(slot.clone(), renewed.into_bytes())].into());
                AuthorityRenewed { path: CLUSTER_CA.to_owned(), from: RenewedFrom::Given { slots: vec![slot] } }
            }),
        ]);
    }
}
