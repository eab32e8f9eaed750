//! Every sample gives plans that pass the lint; `create` over a grown cluster begins with what it was made with.
#![allow(clippy::panic, reason = "a test that cannot continue has failed")]

use kubexm_tests::samples::{FLEETS, SAMPLES};

#[test]
fn every_sample_can_be_created() {
    for sample in SAMPLES.iter().chain(&FLEETS) {
        let (_, plan) = sample.plan_create();
        for host in sample.hosts() {
            assert!(plan.plan().steps.iter().any(|s| s.host == host), "{}: {host} is forgotten", sample.name);
        }
    }
}

#[test]
fn hosts_can_be_added_to_every_sample_with_steps_of_its_create() {
    for sample in FLEETS {
        let ((_, before), (_, join), (_, create)) =
            (sample.plan_before_add_node(), sample.plan_add_node(), sample.plan_create());
        // A member of etcd joins those that run, where create starts all of them as one.
        let joins_etcd = |id: &str| id.contains("/etcd.") && !id.ends_with("/etcd.client");
        for step in join.plan().steps.iter().filter(|step| !joins_etcd(&step.id.0)) {
            let same =
                create.plan().step(&step.id).is_some_and(|of_create| match step.id.0.ends_with("/balancer.run") {
                    // A proxy that runs keeps its image.
                    true => step.ops.iter().all(|op| of_create.ops.contains(op)),
                    false => of_create.ops == step.ops,
                });
            assert!(same, "{}: {}", sample.name, step.id);
        }
        let cluster = sample.cluster();
        for host in sample.added.iter().filter(|host| cluster.roles(host).in_cluster()) {
            let joins = |plan: &kubexm_plan::Plan| plan.steps.iter().any(|s| s.id.0 == format!("{host}/join.node"));
            assert!(joins(join.plan()) && !joins(before.plan()), "{}: {host}", sample.name);
        }
    }
}
