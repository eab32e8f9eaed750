//! Hosts behind other hosts.

use kubexm_engine::link::ssh::{KeySource, SshLink, SshOptions, SshTarget};
use kubexm_engine::link::{Link as _, LinkError, SlotValues};

use super::server::{Server, Setup};
use super::{CHANGE, denied, plan_with_a_file};

/// The last server behind the others; every key is known.
fn chain(servers: &[Server]) -> (SshTarget, SshOptions, &Server) {
    let (last, before) = servers.split_last().unwrap();
    let mut target = last.target();
    target.via = before.iter().map(Server::hop).collect();
    let options = last.options("run 1");
    for server in before {
        server.make_known(&options.known_hosts[0]);
    }
    (target, options, last)
}

fn servers(configs: &[&'static str]) -> Vec<Server> {
    configs.iter().map(|config| Server::start(&Setup { config, ..Setup::default() })).collect()
}

#[tokio::test]
async fn a_host_behind_two_bastions_is_reached_and_reached_again_when_one_of_them_drops_the_line() {
    let servers = servers(&["", "", ""]);
    let (target, options, last) = chain(&servers);
    let (plan, step) = plan_with_a_file();
    let link = SshLink::connect(target, options, last.agent()).await.unwrap();
    link.converge(&plan, &step, &SlotValues::new(), CHANGE).await.unwrap();
    for server in &servers[..2] {
        server.kill_sessions();
        assert!(link.observe(&plan, &step, &SlotValues::new()).await.unwrap()[0].satisfied);
    }
}

#[tokio::test]
async fn a_bastion_that_forbids_forwarding_is_named_with_the_setting() {
    let servers = servers(&["AllowTcpForwarding no", ""]);
    let (target, options, last) = chain(&servers);
    let refused = denied(SshLink::connect(target, options, last.agent()).await);
    assert!(refused.contains("bastion of node1") && refused.contains("AllowTcpForwarding"), "{refused}");
    assert!(refused.contains(&format!("127.0.0.1:{}", servers[0].port)), "{refused}");
}

#[tokio::test]
async fn each_hop_has_its_own_known_key() {
    let servers = servers(&["", ""]);
    let (target, options, last) = chain(&servers);
    let only_last = last.path("only_last");
    last.make_known(&only_last);
    let unknown = SshOptions { known_hosts: vec![only_last.clone()], ..options.clone() };
    let refused = denied(SshLink::connect(target.clone(), unknown, last.agent()).await);
    assert!(refused.contains("bastion of node1") && refused.contains("not known"), "{refused}");

    let key = std::fs::read_to_string(servers[0].path("host_key.pub")).unwrap();
    let file = &options.known_hosts[0];
    std::fs::write(file, format!("{}@revoked * {key}", std::fs::read_to_string(file).unwrap())).unwrap();
    let refused = denied(SshLink::connect(target.clone(), options, last.agent()).await);
    assert!(refused.contains("bastion of node1") && refused.contains("revoked"), "{refused}");

    // Several links learn the same bastion at the same time, once.
    let learning = SshOptions { known_hosts: vec![only_last.clone()], accept_new: true, ..last.options("run 1") };
    let links = (0..4).map(|_| SshLink::connect(target.clone(), learning.clone(), last.agent()));
    for link in futures::future::join_all(links).await {
        link.unwrap().close().await;
    }
    assert_eq!(std::fs::read_to_string(only_last).unwrap().lines().count(), 2);
}

#[tokio::test]
async fn a_host_that_the_bastion_cannot_reach_is_distinguished_from_a_refused_key() {
    let servers = servers(&["", ""]);
    let (mut target, options, last) = chain(&servers);
    let agent = last.agent();
    target.via[0].login.keys = vec![KeySource::File(last.path("other_key"))];
    let refused = denied(SshLink::connect(target.clone(), options.clone(), agent.clone()).await);
    assert!(refused.contains("bastion of node1") && refused.contains("other_key"), "{refused}");

    target.via = vec![servers[0].hop()];
    target.port = 1;
    match SshLink::connect(target, options, agent).await {
        Err(LinkError::Unreachable { host, reason, .. }) => {
            assert_eq!(host, "node1");
            assert!(reason.contains("bastion"), "{reason}");
        }
        other => panic!("{:?}", other.err()),
    }
}

#[tokio::test]
async fn more_hosts_than_max_startups_of_one_bastion_are_all_reached() {
    // Drops every connection from the tenth on that has not logged in yet.
    let servers = servers(&["MaxStartups 9:100:9", "MaxStartups 100"]);
    let (target, options, last) = chain(&servers);
    let links = (0..24).map(|_| SshLink::connect(target.clone(), options.clone(), last.agent()));
    for link in futures::future::join_all(links).await {
        link.unwrap();
    }
}
