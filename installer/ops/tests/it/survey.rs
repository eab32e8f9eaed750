//! One look at many steps of a host.

#![allow(clippy::expect_used, reason = "a test that cannot set itself up has failed")]

use std::io::Write;
use std::time::Duration;

use crate::common::Host;
use kubexm_ops::dispatch;
use kubexm_ops::step::{converge, observe};
use kubexm_ops::survey::survey;
use kubexm_plan::op::{Binary, ImageLoaded, ImageSource, Op};
use kubexm_plan::{Probe, Step, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::RuntimeKind;

const PROGRAM: &str = "/usr/local/bin/containerd";

fn step(name: &str, op: impl Into<Op>) -> Step {
    Step::on("node1", name, "Hold").ensure(op).undo(Undo::RestoreBefore).build()
}

fn holding(host: &Host, steps: &[Step]) -> Vec<String> {
    let survey = survey(steps, &host.machine).expect("a survey");
    survey.holding.into_iter().map(|id| id.0).collect()
}

#[test]
fn a_byte_of_a_program_that_was_changed_behind_our_back_is_found_though_its_mtime_was_set_back() {
    let host = Host::fresh();
    let blob = host.blob(vec![7; 200 << 10]);
    let program = step("runtime.programs", Binary { path: PROGRAM.to_owned(), blob, mode: 0o755 });
    let before = observe(&program, &host.machine).expect("a look");
    assert!(holding(&host, std::slice::from_ref(&program)).is_empty(), "it is not there yet");
    converge(&program, &host.machine, "run", 1, &before).expect("a program");
    // A file that was written just now is not noted; and none of these looks may be led astray.
    std::thread::sleep(Duration::from_millis(80));
    for _ in 0..2 {
        assert_eq!(holding(&host, std::slice::from_ref(&program)), ["node1/runtime.programs"]);
    }
    assert!(host.read("/run/kubexm/digests.json").contains(&blob.hex()), "nothing was noted: this shows nothing");
    let real = host.machine.path(PROGRAM);
    let was = real.metadata().expect("metadata").modified().expect("a time");
    let mut file = std::fs::OpenOptions::new().write(true).open(&real).expect("a file");
    file.write_all(&[8]).expect("a byte");
    file.set_modified(was).expect("a time");
    drop(file);
    assert!(holding(&host, std::slice::from_ref(&program)).is_empty(), "a changed program passed for ours");
}

#[test]
fn the_hosts_history_fingerprint_differs_after_every_change() {
    let host = Host::fresh();
    let past = || survey(&[], &host.machine).expect("a survey").past;
    let blob = host.blob("program");
    let program = step("runtime.programs", Binary { path: PROGRAM.to_owned(), blob, mode: 0o755 });
    let first = past();
    assert_eq!(past(), first);
    let before = observe(&program, &host.machine).expect("a look");
    converge(&program, &host.machine, "run", 1, &before).expect("a program");
    let second = past();
    assert_ne!(second, first);
    host.put("/proc/sys/kernel/random/boot_id", "another boot\n");
    assert_ne!(past(), second);
}

#[test]
fn what_is_only_probed_is_not_waited_for_on_a_host_where_something_else_does_not_hold() {
    let host = Host::fresh();
    let blob = host.blob("program");
    let program = step("runtime.programs", Binary { path: PROGRAM.to_owned(), blob, mode: 0o755 });
    let text = |text: &str| text.to_owned();
    let (name, dns, service) = (text("kubernetes.default"), text("10.96.0.10"), text("10.96.0.1:443"));
    let probe = Probe::PodNetwork { node: text("node1"), image: text("pause"), name, dns, service };
    let network = Step::on("node1", "check.network", "Ask").probe(probe, 1).undo(Undo::Nothing).build();
    let steps = [network, program];
    assert!(holding(&host, &steps).is_empty());
    let before = observe(&steps[1], &host.machine).expect("a look");
    converge(&steps[1], &host.machine, "run", 1, &before).expect("a program");
    assert_eq!(holding(&host, &steps), ["node1/check.network", "node1/runtime.programs"]);
}

#[test]
fn images_that_are_asked_for_together_hold_as_they_do_alone() {
    let host = Host::fresh();
    host.ready_for_init();
    // Of etcd the registry has the platform's manifest.
    let image = |name: &str| ImageLoaded {
        reference: format!("registry.k8s.io/{name}:1"),
        digest: Digest::of(format!("{name}{}", if name == "etcd" { " of all platforms" } else { "" })),
        manifest: (name == "etcd").then(|| Digest::of(name)),
        platform: "linux/amd64".to_owned(),
        source: ImageSource::Registry,
        runtime: RuntimeKind::Containerd,
    };
    let known = ["pause", "etcd"].map(|name| (image(name).reference, Digest::of(name).to_string()));
    let known: std::collections::BTreeMap<_, _> = known.into_iter().collect();
    host.put("/run/kubexm-double/registry.json", serde_json::to_vec(&known).expect("JSON"));
    let steps = ["pause", "etcd", "coredns"].map(|name| step(&format!("images.{name}"), image(name)));
    assert!(holding(&host, &steps).is_empty());
    for name in ["pause", "etcd"] {
        dispatch::converge(&image(name).into(), &host.machine).expect("an image");
    }
    assert_eq!(holding(&host, &steps), ["node1/images.etcd", "node1/images.pause"]);
    let alone = steps.iter().map(|step| observe(step, &host.machine).expect("a look")[0].satisfied);
    assert_eq!(alone.collect::<Vec<_>>(), [true, true, false]);
}
