//! What later runs have found, and what they have changed again.

use kubexm_plan::op::{AllInto, Unpacked};

use super::*;

fn reverted_ops(plan: &Plan) -> Vec<Op> {
    let ops = plan.steps.iter().flat_map(|step| &step.ops);
    let mut reverted =
        ops.filter_map(|op| if let Op::Reset(Reset::Reverted { ops, .. }) = op { Some(ops) } else { None });
    reverted.next().expect("something is reverted").clone()
}

/// An upgrade of the runtime has the plugins of the network beside it: they were there, and it has kept no copy of them.
#[test]
fn an_archive_that_a_later_step_has_found_in_place_is_restored_to_what_was_there_before_the_first() {
    let plugins = |version: &str| {
        let all_into = Some(AllInto { folder: String::new(), directory: "/opt/cni/bin".to_owned() });
        Op::from(Unpacked { blob: Digest::of(version), members: BTreeMap::new(), all_into })
    };
    let step = |run: &str, version: &str, satisfied: bool| {
        let mut record = record(run, "runtime.programs", &[(plugins(version), "what was there")], Outcome::Done);
        record.before[0].satisfied = satisfied;
        record
    };
    let plan = one(&[step("create", "1", false), step("upgrade", "1", true)]);
    assert_eq!(reverted_ops(&plan), [plugins("1")]);
    // Another version may have other files, and has kept those that it replaced.
    let plan = one(&[step("create", "1", false), step("upgrade", "2", false)]);
    assert_eq!(reverted_ops(&plan), [plugins("2"), plugins("1")]);
}

/// `upgrade --os-packages`, of what kubexm had installed.
#[test]
fn a_package_is_removed_in_the_version_that_a_later_run_has_brought() {
    let socat = |version: &str, upgrade: bool| {
        let package = WantedPackage {
            version: version.to_owned(),
            arch: "amd64".to_owned(),
            file: "socat.deb".to_owned(),
            blob: Digest::of("socat"),
            upgrade,
        };
        Op::from(Packages {
            family: Family::Deb,
            repository: "/var/lib/kubexm/repos/debian-12-amd64".to_owned(),
            source: "/var/lib/kubexm/repos/debian-12-amd64/kubexm.list".to_owned(),
            packages: [("socat".to_owned(), package)].into(),
            replaced: BTreeMap::new(),
        })
    };
    let run = |run: &str, step: &str, op: Op| record(run, step, &[(op, "what was there")], Outcome::Done);
    let plan = one(&[
        run("create", "packages.install", socat("1", false)),
        run("upgrade", "packages.newer", socat("2", true)),
    ]);
    assert_eq!(reverted_ops(&plan), [socat("2", false)]);
}
