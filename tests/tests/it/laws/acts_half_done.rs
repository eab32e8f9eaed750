//! Laws 1 and 2 inside an Act, with the real ops: kubeadm is killed half-way.

use kubexm_plan::Pipeline;
use kubexm_tests::laws::{Case, Rooted};
use kubexm_tests::samples::{FLEETS, SAMPLES, Sample};

/// `file` makes the fake kill kubeadm once on the host.
async fn killed(sample: &Sample, pipeline: Pipeline, host: &str, file: &str) {
    let case = Case::<Rooted>::of(sample, pipeline).await.expect("a case");
    let kill = |fleet: &Rooted| fleet.system(host).put(file, b"").expect("written");
    let held = async {
        case.a_half_done_act_resumes_to_the_same_end(kill).await?;
        case.a_half_done_act_unwinds_to_the_state_before(kill).await
    };
    if let Err(why) = held.await {
        panic!("{} with a kill on {host}: {why}", case.name);
    }
}

#[tokio::test]
async fn a_kill_inside_kubeadm_init_is_cleared_forward_and_back() {
    killed(&SAMPLES[0], Pipeline::Create, "node1", "kill-kubeadm-init").await;
    killed(&FLEETS[0], Pipeline::Create, "node1", "kill-kubeadm-init").await;
}

#[tokio::test]
async fn a_kill_inside_kubeadm_join_is_cleared_forward_and_back() {
    killed(&FLEETS[0], Pipeline::Create, "node2", "kill-kubeadm-join").await;
    killed(&FLEETS[0], Pipeline::AddNode, "node3", "kill-kubeadm-join").await;
}
