//! kubeadm init as it was found on somebody's site: killed, still running, of another cluster, with a lost file.
#![allow(clippy::expect_used, reason = "the arrangement of a test: a fault here is a fault of the test")]

use std::sync::Mutex;

use kubexm_ops::system::{HttpsAnswer, HttpsRequest, HttpsServer, Kernel, Output, Program, Space, System};

use super::*;

#[test]
fn a_killed_init_is_cleaned_up_and_repeated() {
    let host = Host::fresh();
    host.ready_for_init();
    host.put("/run/kubexm-double/kill-kubeadm-init", "");
    assert!(text_of(dispatch::converge(&init(), &host.machine)).contains("killed half-way"));
    assert!(host.machine.path("/etc/kubernetes/manifests/etcd.yaml").exists());
    dispatch::converge(&init(), &host.machine).expect("the second try");
    assert!(satisfied(&init(), &host.machine));
}

#[test]
fn somebody_elses_cluster_is_never_reset() {
    let host = Host::fresh();
    host.ready_for_init();
    host.put("/etc/kubernetes/admin.conf", "theirs");
    host.put("/var/lib/etcd/member/snap/db", "their data");
    let text = text_of(dispatch::converge(&init(), &host.machine));
    assert!(text.contains("that kubexm did not install (/etc/kubernetes/admin.conf"), "{text}");
    assert_eq!(host.read("/var/lib/etcd/member/snap/db"), "their data");
}

#[test]
fn our_own_cluster_whose_api_server_is_away_is_done_and_not_half_done() {
    let host = Host::fresh();
    host.ready_for_init();
    dispatch::converge(&init(), &host.machine).expect("init");
    // The fake answers no kubectl without a node object, as an API server that is down.
    let state =
        host.read("/run/kubexm-double/state.json").replace("\"nodes\":{\"node1\"", "\"nodes\":{},\"x\":{\"node1\"");
    host.put("/run/kubexm-double/state.json", state);
    assert!(satisfied(&init(), &host.machine));
}

#[test]
fn our_own_cluster_that_lost_a_file_is_never_reset() {
    for lost in ["admin.conf", "manifests/kube-apiserver.yaml"] {
        let host = Host::fresh();
        host.ready_for_init();
        dispatch::converge(&init(), &host.machine).expect("init");
        host.put("/var/lib/etcd/member/snap/db", "what users stored");
        std::fs::remove_file(host.machine.path(format!("/etc/kubernetes/{lost}"))).expect("taken away by hand");
        let text = text_of(dispatch::converge(&init(), &host.machine));
        assert!(text.contains(&format!("/etc/kubernetes/{lost}")), "{text}");
        assert_eq!(host.read("/var/lib/etcd/member/snap/db"), "what users stored");
    }
}

/// A system on which the init of an earlier run still continues.
#[derive(Debug)]
struct Busy {
    inner: Machine,
    waited_for: Mutex<Vec<String>>,
}

impl System for Busy {
    fn run(&self, program: &Program) -> Result<Output, OpError> {
        let is_init = |arg: &String| arg == "kubexm-act-run-node1-test.step.service";
        if program.name == "systemctl" && program.args.iter().any(is_init) {
            return Ok(Output::text("LoadState=loaded\nActiveState=active\nSubState=running\n"));
        }
        self.inner.system().run(program)
    }
    fn run_act(&self, act: &ActContext, _: &Program) -> Result<Output, OpError> {
        self.waited_for.lock().expect("a list").push(act.unit());
        Ok(Output::text("Your Kubernetes control-plane has initialized successfully!\n"))
    }
    fn hostname(&self) -> Result<String, OpError> {
        self.inner.system().hostname()
    }
    fn set_hostname(&self, name: &str) -> Result<(), OpError> {
        self.inner.system().set_hostname(name)
    }
    fn kernel(&self) -> Result<Kernel, OpError> {
        self.inner.system().kernel()
    }
    fn space(&self, path: &str) -> Result<Space, OpError> {
        self.inner.system().space(path)
    }
    fn delete_datapath(&self, name: &str) -> Result<(), OpError> {
        self.inner.system().delete_datapath(name)
    }
    fn write_us(&self, folder: &str) -> Result<Option<u64>, OpError> {
        self.inner.system().write_us(folder)
    }
    fn interfaces(&self) -> Result<Vec<kubexm_plan::facts::Interface>, OpError> {
        self.inner.system().interfaces()
    }
    fn https_get(&self, server: &HttpsServer<'_>) -> Result<u16, OpError> {
        self.inner.system().https_get(server)
    }
    fn https_heads(
        &self,
        server: &HttpsServer<'_>,
        paths: &[String],
    ) -> Result<Vec<kubexm_ops::system::Head>, OpError> {
        self.inner.system().https_heads(server, paths)
    }
    fn http_get(&self, port: u16) -> Result<String, OpError> {
        self.inner.system().http_get(port)
    }
    fn https_request(&self, request: &HttpsRequest<'_>) -> Result<HttpsAnswer, OpError> {
        self.inner.system().https_request(request)
    }
    fn push_images(&self, request: &kubexm_ops::system::PushRequest<'_>) -> Result<String, OpError> {
        self.inner.system().push_images(request)
    }
    fn pod_network(&self, pid: u32, name: &str, dns: &str, service: &str) -> Result<String, OpError> {
        self.inner.system().pod_network(pid, name, dns, service)
    }
    fn host_network(&self, name: &str, dns: &str, service: &str) -> Result<String, OpError> {
        self.inner.system().host_network(name, dns, service)
    }
    fn dns_addresses(
        &self,
        servers: &[std::net::IpAddr],
        names: &[String],
        limit: std::time::Duration,
    ) -> std::collections::BTreeMap<String, (std::net::IpAddr, std::net::IpAddr)> {
        self.inner.system().dns_addresses(servers, names, limit)
    }
    fn signal(&self, pid: u32, kill: bool) -> Result<(), OpError> {
        self.inner.system().signal(pid, kill)
    }
    fn is_real(&self) -> bool {
        true
    }
}

#[test]
fn a_running_init_of_another_run_is_waited_for_and_not_reset() {
    let host = Host::fresh();
    host.ready_for_init();
    host.put("/run/kubexm-double/kill-kubeadm-init", "");
    dispatch::converge(&init(), &host.machine).expect_err("half-way");
    let busy = Arc::new(Busy { inner: host.machine.clone(), waited_for: Mutex::default() });
    let second = Machine::with_system(host.machine.root(), busy.clone())
        .with_act(ActContext { run: "second".into(), step: "node1/test.step".into() });
    dispatch::converge(&init(), &second).expect("the init of the first run");
    assert_eq!(*busy.waited_for.lock().expect("a list"), ["kubexm-act-run-node1-test.step.service"]);
}
