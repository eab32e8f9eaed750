//! What differs on a host from a plan, as it is shown before a run.

use std::collections::BTreeMap;

use kubexm_ops::drift::drift;
use kubexm_ops::step::{converge, observe};
use kubexm_plan::op::{Content, File, HostsBlock, Op, Unit};
use kubexm_plan::{Difference, SlotName, Step, Undo};

use crate::common::{Host, same};

fn step(name: &str, op: impl Into<Op>) -> Step {
    Step::on("node1", name, "Hold").ensure(op).undo(Undo::RestoreBefore).build()
}

fn done(host: &Host, step: &Step) {
    let before = observe(step, &host.machine).expect("a look");
    converge(step, &host.machine, "run", 1, &before).expect("done");
}

fn only(host: &Host, step: &Step) -> Difference {
    let found = drift(std::slice::from_ref(step), &host.machine);
    let [one] = found.as_slice() else { panic!("{found:#?}") };
    let [difference] = one.differences.as_slice() else { panic!("{found:#?}") };
    assert_eq!(one.step, step.id);
    difference.clone()
}

#[test]
fn an_edited_file_is_shown_with_its_lines_and_what_holds_is_not_named() {
    let mut host = Host::fresh();
    let (edited, kept) = (host.file("/etc/one", "a\nb\nc\n"), host.file("/etc/two", "x\n"));
    let steps = [step("os.one", edited), step("os.two", kept)];
    steps.iter().for_each(|step| done(&host, step));
    assert!(drift(&steps, &host.machine).is_empty());
    host.put("/etc/one", "a\nB\nc\n");
    let before = host.traces();
    let found = drift(&steps, &host.machine);
    let [one] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!(one.step, steps[0].id);
    let diff = "--- /etc/one (now)\n+++ /etc/one (planned)\n@@ -1,3 +1,3 @@\n a\n-B\n+b\n c";
    assert_eq!(one.differences[0].diff.as_deref(), Some(diff));
    same(&before, &host.traces(), "it only looks");
}

#[test]
fn a_file_with_the_value_of_a_slot_is_never_shown() {
    let slot = SlotName("password".to_owned());
    let mut host = Host::fresh();
    let text = host.text(&format!("password: {}\n", slot.placeholder()));
    host.machine = host.machine.with_slots(BTreeMap::from([(slot.clone(), b"hunter2".to_vec())]));
    for content in [Content::Filled { digest: text, slots: vec![slot.clone()] }, Content::Slot { slot: slot.clone() }] {
        let step = step("os.secret", File { path: "/etc/secret".to_owned(), content, mode: 0o600 });
        done(&host, &step);
        host.put("/etc/secret", "password: other\n");
        let found = only(&host, &step);
        assert_eq!(found.diff, None);
        assert!(found.how.contains("differs"), "{found:?}");
        assert!(!format!("{found:?}").contains("hunter2") && !format!("{found:?}").contains("other"), "{found:?}");
    }
}

#[test]
fn a_missing_file_another_mode_and_a_link_are_named() {
    use std::os::unix::fs::PermissionsExt;
    let mut host = Host::fresh();
    let file = host.file("/etc/one", "a\n");
    let step = step("os.one", file);
    assert_eq!(only(&host, &step).how, "it is missing");
    done(&host, &step);
    let real = host.machine.path("/etc/one");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    assert_eq!(only(&host, &step).how, "its mode is 0600, planned is 0644");
    std::fs::remove_file(&real).expect("was there");
    std::os::unix::fs::symlink("/etc/two", &real).expect("a link");
    assert_eq!(only(&host, &step).how, "it is a link to /etc/two");
}

#[test]
fn an_edit_of_the_hosts_file_is_shown_and_a_stopped_unit_named() {
    let host = Host::fresh();
    let hosts = HostsBlock { lines: vec!["10.0.0.1 node1".to_owned()], own_name: "node1".to_owned() };
    let hosts = step("os.hosts", hosts);
    done(&host, &hosts);
    let text = host.read("/etc/hosts");
    host.put("/etc/hosts", text.replace("10.0.0.1 node1", "10.9.9.9 node1"));
    let diff = only(&host, &hosts).diff.expect("a diff");
    assert!(diff.contains("\n-10.9.9.9 node1") && diff.contains("\n+10.0.0.1 node1"), "{diff}");
    host.unit("demo.service", "/usr/local/bin/demo");
    let unit = |running| Unit {
        name: "demo.service".to_owned(),
        enabled: true,
        running: Some(running),
        loaded: vec![],
        reloaded: vec![],
    };
    done(&host, &step("os.demo", unit(true)));
    let mut stopped = unit(false);
    stopped.enabled = false;
    done(&host, &step("os.demo", stopped));
    assert_eq!(only(&host, &step("os.demo", unit(true))).how, "it is not enabled, it does not run");
}
