//! Deletes what a cluster has in an etcd of the user's.

use kubexm_plan::op::{EtcdKeysDelete, Progress};

use super::perform::Perform;
use crate::etcd_keys::{self, Keys};
use crate::{Machine, OpError};

impl Perform for EtcdKeysDelete {
    fn progress(&self, machine: &Machine) -> Result<Progress, OpError> {
        let (client, endpoint) = etcd_keys::reach(machine, &self.endpoints)?;
        Ok(match Keys::below(&client, machine, &endpoint, &self.prefix)?.count()? {
            0 => Progress::Done,
            _ => Progress::NotBegun,
        })
    }

    fn perform(&self, machine: &Machine) -> Result<(), OpError> {
        let (client, endpoint) = etcd_keys::reach(machine, &self.endpoints)?;
        let keys = Keys::below(&client, machine, &endpoint, &self.prefix)?;
        let answered = keys.delete();
        match keys.count()? {
            0 => Ok(()),
            // An answer that came too late says nothing about the transaction.
            left => Err(answered.err().unwrap_or_else(|| {
                OpError::other(format!(
                    "{left} keys are below {}/ of {endpoint} although they were deleted: an API server still writes them; stop it, and run \
                     again",
                    self.prefix
                ))
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ActCase, ActCases, Tested};

    impl ActCases for EtcdKeysDelete {
        const TESTED: Tested<ActCase<Self>> = Tested::In("external_etcd.rs");
    }
}
