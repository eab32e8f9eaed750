//! A symbolic link.

use kubexm_plan::op::Link;

use crate::path_state::{self, Look, PathEntry, PathState, PutBack};
use crate::{Converge, Machine, OpError, Wave};

impl Converge for Link {
    fn observe(&self, machine: &Machine) -> Result<PathState, OpError> {
        PathState::look(machine, &self.path)
    }

    fn satisfied(&self, found: &PathState, machine: &Machine) -> bool {
        let PathEntry::Link { target } = &found.entry else { return false };
        // One of an earlier cluster may lead to what is not there any more.
        *target == self.target || (self.accepted.contains(target) && machine.path(target).exists())
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        vec![self.path.clone()]
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        path_state::replaceable(machine, &self.path)?;
        path_state::put_link(machine, &self.path, &self.target)
    }

    fn restore(&self, machine: &Machine, before: &PathState, wave: Wave) -> Result<(), OpError> {
        if wave == Wave::Data { before.restore(machine) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};
    use crate::fake::host::Host;

    impl Cases for Link {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("a link", |_| Link {
            path: "/usr/local/bin/k".into(),
            target: "kubectl".into(),
            accepted: Vec::new(),
        })]);
    }

    #[test]
    fn a_link_to_another_target_that_is_accepted_stays_as_long_as_that_exists() {
        let host = Host::fresh();
        let link = |target: &str, accepted: &[&str]| Link {
            path: "/etc/kubexm/x.conf".to_owned(),
            target: target.to_owned(),
            accepted: accepted.iter().map(|one| (*one).to_owned()).collect(),
        };
        let holds = |link: &Link| link.satisfied(&link.observe(&host.machine).expect("a state"), &host.machine);
        link("/etc/late.conf", &[]).converge(&host.machine).expect("a link");
        let early = link("/etc/early.conf", &["/etc/late.conf"]);
        assert!(!holds(&early), "its target is not there: it is left of something else");
        host.put("/etc/late.conf", "late");
        assert!(holds(&early));
        assert!(!holds(&link("/etc/early.conf", &[])) && !holds(&link("/etc/early.conf", &["/etc/other.conf"])));
        early.converge(&host.machine).expect("a link");
        assert!(holds(&early) && !holds(&link("/etc/late.conf", &[])));
    }
}
