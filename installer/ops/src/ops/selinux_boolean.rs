//! A boolean of SELinux's policy on, now and at boot.

use kubexm_plan::op::{PolicyBoolean, SelinuxBoolean};

use crate::fsio;
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave};

/// What the loaded policy has: `1 1` is the present value and the one that waits to be committed.
const BOOLEANS: &str = "/sys/fs/selinux/booleans";
/// `-P` rebuilds the policy, which takes long on a slow disk.
const LIMIT_S: u64 = 300;

impl Converge for SelinuxBoolean {
    fn observe(&self, machine: &Machine) -> Result<PolicyBoolean, OpError> {
        let text = fsio::read_text(&machine.path(&format!("{BOOLEANS}/{}", self.name)))?;
        Ok(PolicyBoolean { on: text.map(|text| text.trim_start().starts_with('1')) })
    }

    fn satisfied(&self, found: &PolicyBoolean, _: &Machine) -> bool {
        found.on != Some(false)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        set(machine, &self.name, true)
    }

    fn restore(&self, machine: &Machine, before: &PolicyBoolean, wave: Wave) -> Result<(), OpError> {
        match before.on {
            Some(on) if wave == Wave::Data && self.observe(machine)?.on == Some(!on) => set(machine, &self.name, on),
            _ => Ok(()),
        }
    }
}

/// At boot, too.
fn set(machine: &Machine, name: &str, on: bool) -> Result<(), OpError> {
    let value = format!("{name}={}", if on { "on" } else { "off" });
    machine.run(&Program::new("setsebool").args(["-P", &value]).within(LIMIT_S)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    impl Cases for SelinuxBoolean {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[("off in the policy", |h| {
            h.put("/sys/fs/selinux/booleans/haproxy_connect_any", "0 0");
            SelinuxBoolean { name: "haproxy_connect_any".to_owned() }
        })]);
    }

    #[test]
    fn a_policy_without_it_and_one_that_has_it_on_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::rooted(folder.path());
        let op = SelinuxBoolean { name: "haproxy_connect_any".to_owned() };
        let found = op.observe(&machine).unwrap();
        assert_eq!(found.on, None);
        assert!(op.satisfied(&found, &machine));
        std::fs::create_dir_all(folder.path().join("sys/fs/selinux/booleans")).unwrap();
        std::fs::write(folder.path().join("sys/fs/selinux/booleans/haproxy_connect_any"), "1 1").unwrap();
        let found = op.observe(&machine).unwrap();
        assert_eq!(found.on, Some(true));
        // Somebody has switched it on before: it stays on.
        op.restore(&machine, &found, Wave::Data).unwrap();
        assert_eq!(op.observe(&machine).unwrap().on, Some(true));
    }
}
