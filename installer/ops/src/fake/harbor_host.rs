//! A host with a Harbor that runs.
#![allow(clippy::expect_used, reason = "helpers of tests: a fault here is a fault of the test")]

use kubexm_plan::SlotName;
use kubexm_plan::op::{HARBOR_UNIT, HarborAccess, HarborProjects, Unit};

use super::host::Host;
use crate::dispatch;

/// Starts it.
pub fn harbor(host: &Host) {
    host.put("/usr/local/lib/kubexm-harbor/start", "#!/bin/true\n");
    host.put("/etc/kubexm/harbor/ca.crt", "a CA");
    let unit = "[Service]\nExecStart=/usr/local/lib/kubexm-harbor/start\n[Install]\nWantedBy=multi-user.target\n";
    host.put(&format!("/etc/systemd/system/{HARBOR_UNIT}"), unit);
    let name = HARBOR_UNIT.to_owned();
    let unit = Unit { name, enabled: true, running: Some(true), loaded: Vec::new(), reloaded: Vec::new() };
    dispatch::converge(&unit.into(), &host.machine).expect("Harbor starts");
}

/// How it is spoken to.
pub fn access() -> HarborAccess {
    HarborAccess {
        registry: "registry.demo.kubexm.internal".into(),
        ca: "/etc/kubexm/harbor/ca.crt".into(),
        admin_password: "/var/lib/kubexm-harbor/admin-password".into(),
    }
}

/// Projects and the nodes' robot, whose secret the host is given.
pub fn projects(host: &mut Host, names: &[&str], public: bool) -> HarborProjects {
    let slot = SlotName("robot".to_owned());
    host.machine = host.machine.with_slots([(slot.clone(), b"Kx1-secret".to_vec())].into());
    HarborProjects {
        harbor: access(),
        projects: names.iter().map(|name| (*name).to_owned()).collect(),
        public,
        quota: Some(1 << 30),
        robot: "kubexm-nodes".into(),
        slots: vec![slot],
    }
}
