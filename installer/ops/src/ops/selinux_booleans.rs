//! Booleans of SELinux's policy on, now and at boot.

use std::collections::BTreeMap;

use kubexm_plan::op::{PolicyBoolean, PolicyBooleans, SelinuxBooleans};

use crate::fsio;
use crate::system::Program;
use crate::{Converge, Machine, OpError, Wave};

/// What the loaded policy has: `1 1` is the present value and the one that waits to be committed.
const BOOLEANS: &str = "/sys/fs/selinux/booleans";
/// Where `setsebool -P` keeps values for the next boot, by distribution (`store-root` of semanage.conf(5)).
const STORES: [&str; 2] = ["/var/lib/selinux", "/etc/selinux"];
const CONFIG: &str = "/etc/selinux/config";
/// `-P` rebuilds the policy, which takes long on a slow disk.
const LIMIT_S: u64 = 300;

impl Converge for SelinuxBooleans {
    fn observe(&self, machine: &Machine) -> Result<PolicyBooleans, OpError> {
        let kept = kept(machine)?;
        let mut found = BTreeMap::new();
        for name in &self.names {
            if let Some(text) = fsio::read_text(&machine.path(format!("{BOOLEANS}/{name}")))? {
                let on = text.trim_start().starts_with('1');
                found.insert(name.clone(), PolicyBoolean { on, at_boot: kept.get(name).copied() });
            }
        }
        Ok(PolicyBooleans { found })
    }

    fn satisfied(&self, found: &PolicyBooleans, _: &Machine) -> bool {
        found.found.values().all(is_on)
    }

    fn overwrites(&self, _: &Machine) -> Vec<String> {
        Vec::new()
    }

    fn converge(&self, machine: &Machine) -> Result<(), OpError> {
        let found = self.observe(machine)?.found;
        let off: Vec<(&str, bool)> =
            found.iter().filter(|(_, one)| !is_on(one)).map(|(name, _)| (name.as_str(), true)).collect();
        set(machine, &off, true)
    }

    fn restore(&self, machine: &Machine, before: &PolicyBooleans, wave: Wave) -> Result<(), OpError> {
        if wave != Wave::Data {
            return Ok(());
        }
        let now = self.observe(machine)?.found;
        let other: Vec<_> =
            before.found.iter().filter(|(name, was)| now.get(*name).is_some_and(|now| now.on != was.on)).collect();
        // One that was on for the next boot, and off until then, stays so.
        let (until_boot, kept): (Vec<_>, Vec<_>) =
            other.into_iter().partition(|(_, was)| was.at_boot.is_some_and(|at_boot| at_boot != was.on));
        let values = |list: Vec<(&String, &PolicyBoolean)>| -> Vec<(String, bool)> {
            list.into_iter().map(|(name, was)| (name.clone(), was.on)).collect()
        };
        for (list, at_boot) in [(values(kept), true), (values(until_boot), false)] {
            let list: Vec<(&str, bool)> = list.iter().map(|(name, on)| (name.as_str(), *on)).collect();
            set(machine, &list, at_boot)?;
        }
        Ok(())
    }
}

fn is_on(one: &PolicyBoolean) -> bool {
    one.on && one.at_boot != Some(false)
}

/// All at once: the policy is rebuilt once.
fn set(machine: &Machine, values: &[(&str, bool)], at_boot: bool) -> Result<(), OpError> {
    if values.is_empty() {
        return Ok(());
    }
    let values = values.iter().map(|(name, on)| format!("{name}={}", if *on { "on" } else { "off" }));
    let args: Vec<String> = at_boot.then(|| "-P".to_owned()).into_iter().chain(values).collect();
    machine.run(&Program::new("setsebool").args(args).within(LIMIT_S)).map(drop)
}

/// Values for the next boot that are not the policy's own: lines `name=1` of `booleans.local`.
fn kept(machine: &Machine) -> Result<BTreeMap<String, bool>, OpError> {
    let config = fsio::read_text(&machine.path(CONFIG))?.unwrap_or_default();
    let kind = config.lines().rev().find_map(|line| line.trim().strip_prefix("SELINUXTYPE=")).unwrap_or("targeted");
    let mut kept = BTreeMap::new();
    for store in STORES {
        let path = machine.path(format!("{store}/{}/active/booleans.local", kind.trim()));
        let text = fsio::read_text(&path)?.unwrap_or_default();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        kept.extend(lines.filter_map(|line| line.split_once('=')).map(|(name, value)| {
            let value = value.trim();
            (name.trim().to_owned(), value == "1" || value.eq_ignore_ascii_case("true"))
        }));
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, Cases, Tested};

    const NAME: &str = "haproxy_connect_any";

    fn op() -> SelinuxBooleans {
        SelinuxBooleans { names: [NAME.to_owned()].into() }
    }

    impl Cases for SelinuxBooleans {
        const TESTED: Tested<Case<Self>> = Tested::Here(&[
            ("off in the policy", |h| {
                h.put("/sys/fs/selinux/booleans/haproxy_connect_any", "0 0");
                op()
            }),
            ("one of two is off", |h| {
                h.put("/sys/fs/selinux/booleans/haproxy_connect_any", "0 0");
                h.put("/sys/fs/selinux/booleans/keepalived_connect_any", "1 1");
                SelinuxBooleans { names: [NAME, "keepalived_connect_any"].map(str::to_owned).into() }
            }),
        ]);
    }

    /// A host with that value now, and that line for the next boot.
    fn host(now: Option<&str>, at_boot: &str) -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        if let Some(now) = now {
            put("sys/fs/selinux/booleans/haproxy_connect_any", now);
        }
        put("etc/selinux/config", "SELINUX=enforcing\nSELINUXTYPE=default\n");
        put("var/lib/selinux/default/active/booleans.local", &format!("# comment\n{at_boot}"));
        let machine = Machine::rooted(folder.path());
        (folder, machine)
    }

    #[test]
    fn a_policy_without_it_and_one_that_has_it_on_are_left_alone() {
        for (now, at_boot, satisfied) in [
            (None, "", true),
            (Some("1 1"), "", true),
            (Some("1 1"), "haproxy_connect_any=1\n", true),
            // On until the next boot only.
            (Some("1 1"), "haproxy_connect_any=0\n", false),
            (Some("0 0"), "haproxy_connect_any=1\n", false),
        ] {
            let (_folder, machine) = host(now, at_boot);
            let found = op().observe(&machine).unwrap();
            assert_eq!(op().satisfied(&found, &machine), satisfied, "{now:?} {at_boot}");
        }
    }

    #[test]
    fn what_somebody_has_switched_on_stays_on() {
        let (_folder, machine) = host(Some("1 1"), "");
        let before = op().observe(&machine).unwrap();
        op().restore(&machine, &before, Wave::Data).unwrap();
        assert_eq!(op().observe(&machine).unwrap(), before);
    }
}
