//! A volume that cannot be unmounted stops a reset before anything is stopped or unmounted.

use std::os::unix::fs::symlink;

use kubexm_spec::ExitCode;

use super::site::{KEEP, Site};

const MOUNTS: &str = "/proc/self/mountinfo";
/// What the fake services and their processes are like.
const SERVICES: &str = "/run/kubexm-double/state.json";

#[tokio::test(start_paused = true)]
async fn a_volume_that_a_shell_uses_stops_a_reset_and_all_stay_mounted() {
    let site = Site::of(1);
    let created = site.create(false, KEEP).await;
    assert_eq!(created.code, ExitCode::Ok, "{}", created.text);
    let point = |name: &str| format!("/var/lib/kubelet/pods/1/volumes/kubernetes.io~nfs/{name}");
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        site.put(&format!("{}/data", point(name)), "a user's", 0o640, 1001);
        site.mount(&format!("{} 25 0:{number} / {} rw - nfs4 nas:/{name} rw", 200 + number, point(name)));
    }
    // The oldest of them: the others would be unmounted before it.
    site.put("/proc/600/comm", "bash\n", 0o644, 0);
    symlink(point("a"), site.at("node1", "/proc/600/cwd")).unwrap();
    let (host, before) = (site.host("node1"), [MOUNTS, SERVICES].map(|path| site.host("node1").read(path)));
    assert!(before.iter().all(|text| !text.is_empty()), "there is something to compare");

    let refused = site.reset(KEEP).await;
    assert_eq!(refused.code, ExitCode::Preflight, "{}", refused.text);
    for said in ["in use by bash (pid 600)", &point("a"), "nfs4 of nas:/a"] {
        assert!(refused.text.contains(said), "it does not say {said:?}: {}", refused.text);
    }
    assert_eq!([MOUNTS, SERVICES].map(|path| host.read(path)), before, "nothing was stopped or unmounted");
    assert_eq!(host.read(&format!("{}/data", point("b"))), "a user's");

    std::fs::remove_file(site.at("node1", "/proc/600/cwd")).unwrap();
    for name in ["a", "b", "c"] {
        // What is unmounted is not seen below its mount point any more.
        std::fs::remove_dir_all(site.at("node1", &point(name))).unwrap();
        std::fs::create_dir_all(site.at("node1", &point(name))).unwrap();
    }
    let done = site.reset(KEEP).await;
    assert_eq!(done.code, ExitCode::Ok, "{}", done.text);
}
