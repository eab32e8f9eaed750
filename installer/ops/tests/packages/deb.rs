//! apt and dpkg.

use kubexm_ops::{Wave, dispatch};
use kubexm_plan::Op;

use crate::debs::{Deb, left_of_work, op};
use crate::private::{Root, bare};

const UNIT: &str = "[Service]\nExecStart=/usr/bin/tool-daemon\n[Install]\nWantedBy=multi-user.target\n";

/// A tool with a library and a service that starts by itself, as Debian's do.
fn tool() -> [Deb; 2] {
    let postinst = "deb-systemd-helper enable tool.service\n\
                    if [ -x /usr/sbin/policy-rc.d ]; then /usr/sbin/policy-rc.d tool start || exit 0; fi\ntouch /tmp/started";
    [
        Deb::new("kubexm-tool", "1:1.0-1")
            .control("Depends: kubexm-library (>= 1)\nRecommends: kubexm-nowhere\n")
            .file("/usr/bin/tool", "#!/bin/sh\n")
            .file("/lib/systemd/system/tool.service", UNIT)
            .file("/etc/tool.conf", "a=1\n")
            .script("postinst", postinst)
            .script("postrm", "[ \"$1\" != purge ] || deb-systemd-helper purge tool.service"),
        Deb::new("kubexm-library", "1.0").file("/usr/lib/kubexm-library", "x"),
    ]
}

const TOOL: [&str; 2] = ["kubexm-tool", "kubexm-library"];

fn satisfied(root: &Root, op: &Op) -> bool {
    dispatch::observe(op, &root.machine).expect("a look").satisfied
}

fn take_back(root: &Root, op: &Op, before: &kubexm_plan::Found) {
    for wave in Wave::ALL {
        dispatch::restore(op, &root.machine, &before.state, wave).expect("taken back");
    }
}

#[test]
fn what_apt_installed_is_there_and_quiet_and_goes_without_a_trace() {
    let root = Root::over(&bare());
    let op = op(&root, &tool(), &TOOL, &[]);
    let listed = root.says("dpkg", &["-l"]);
    let before = dispatch::observe(&op, &root.machine).expect("a look");
    assert!(!before.satisfied);

    dispatch::converge(&op, &root.machine).expect("installed");
    assert!(satisfied(&root, &op));
    assert!(root.has("/usr/bin/tool") && root.has("/usr/lib/kubexm-library"));
    assert!(!root.has("/tmp/started"), "a service was started");
    assert!(!root.has("/usr/sbin/policy-rc.d") && !root.has("/var/lib/kubexm/packages.json"));
    assert_eq!(root.tells("systemctl", &["is-enabled", "tool.service"]).trim(), "disabled");
    assert_eq!(left_of_work(&root), ["kubexm-library_1.0_amd64.deb", "kubexm-tool_1%3a1.0-1_amd64.deb"]);

    take_back(&root, &op, &before);
    assert_eq!(root.says("dpkg", &["-l"]), listed);
    assert!(!root.has("/etc/tool.conf") && !root.has("/usr/bin/tool"));
    assert!(!root.has("/usr/sbin/policy-rc.d") && !root.has("/var/lib/kubexm/packages.json"));
    assert_eq!(left_of_work(&root), Vec::<String>::new());
    assert_eq!(root.says("dpkg", &["--audit"]), "");
}
