//! An authority of kubeadm's that was renewed under its own key: what the cluster publishes of it, and hosts that have another one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_ops::{Wave, dispatch};
use kubexm_plan::SlotName;
use kubexm_plan::kubeadm_certificates::{AUTHORITIES, CLUSTER_CA};
use kubexm_plan::op::{AuthorityPublished, AuthorityRenewed, Op, Published, RenewedFrom};
use kubexm_spec::Digest;
use serde_json::{Value, json};

use crate::common::Host;
use crate::etcd::{init, serve};

const STATE: &str = "/run/kubexm-double/state.json";
/// 2033-05-18.
const ENDS: i64 = 2_000_000_000;

fn plane() -> Host {
    let host = crate::etcd::with_member();
    serve(&host, true);
    dispatch::converge(&init(), &host.machine).expect("init");
    host
}

fn renewal(host: &Host) -> Op {
    let was = Digest::of(host.read(CLUSTER_CA));
    AuthorityRenewed { path: CLUSTER_CA.to_owned(), from: RenewedFrom::Key { was, ends: ENDS } }.into()
}

fn info(host: &Host) -> String {
    let state: Value = serde_json::from_str(&host.read(STATE)).expect("JSON");
    let object: Value =
        serde_json::from_str(state["objects"]["ConfigMap/cluster-info"].as_str().expect("an object")).expect("JSON");
    object["data"]["kubeconfig"].as_str().expect("a kubeconfig").to_owned()
}

#[test]
fn what_the_cluster_publishes_follows_and_goes_back() {
    let (host, published) = (plane(), Op::from(AuthorityPublished {}));
    let before = info(&host);
    assert!(dispatch::observe(&published, &host.machine).expect("a look").satisfied);
    let renewal = renewal(&host);
    let had = dispatch::observe(&renewal, &host.machine).expect("a look");
    dispatch::keep(&renewal, &host.machine).expect("kept");
    dispatch::converge(&renewal, &host.machine).expect("renewed");
    let found = dispatch::observe(&published, &host.machine).expect("a look");
    assert!(!found.satisfied);
    dispatch::converge(&published, &host.machine).expect("published");
    assert!(dispatch::observe(&published, &host.machine).expect("a look").satisfied);
    assert!(info(&host).contains(&BASE64.encode(host.read(CLUSTER_CA))), "{}", info(&host));
    for wave in Wave::ALL {
        dispatch::restore(&published, &host.machine, &found, wave).expect("restored");
        dispatch::restore(&renewal, &host.machine, &had, wave).expect("restored");
    }
    assert_eq!(info(&host), before);
    let back = dispatch::observe(&published, &host.machine).expect("a look");
    assert!(back.satisfied);
    assert!(back.state::<AuthorityPublished>().is_ok_and(|state: Published| state.info.is_some()));
}

#[test]
fn where_nothing_is_published_nothing_is_missing() {
    let host = plane();
    let mut state: Value = serde_json::from_str(&host.read(STATE)).expect("JSON");
    state["objects"].as_object_mut().expect("objects").remove("ConfigMap/cluster-info");
    host.put(STATE, state.to_string());
    let published = Op::from(AuthorityPublished {});
    let found = dispatch::observe(&published, &host.machine).expect("a look");
    assert!(found.satisfied);
    dispatch::converge(&published, &host.machine).expect("nothing to do");
    dispatch::restore(&published, &host.machine, &found, Wave::Stop).expect("nothing to do");
}

#[test]
fn another_authority_that_is_published_is_named_and_left() {
    let host = plane();
    let other = rcgen::generate_simple_self_signed(vec!["other".to_owned()]).expect("a certificate").cert.pem();
    let text = format!("    certificate-authority-data: {}\n", BASE64.encode(other));
    let object = json!({"kind": "ConfigMap", "metadata": {"name": "cluster-info", "namespace": "kube-public"},
                        "data": {"kubeconfig": text}});
    let mut state: Value = serde_json::from_str(&host.read(STATE)).expect("JSON");
    state["objects"]["ConfigMap/cluster-info"] = json!(object.to_string());
    host.put(STATE, state.to_string());
    let error = dispatch::converge(&AuthorityPublished {}.into(), &host.machine).expect_err("refused").full();
    assert!(error.contains("has another authority") && error.contains("edit configmap cluster-info"), "{error}");
    assert_eq!(info(&host), text);
}

#[test]
fn a_host_with_another_authority_keeps_it() {
    let host = plane();
    let other = rcgen::generate_simple_self_signed(vec!["other".to_owned()]).expect("a certificate").cert.pem();
    let (slot, had) = (SlotName("ca".to_owned()), host.read(CLUSTER_CA));
    let machine = host.machine.with_slots([(slot.clone(), other.into_bytes())].into());
    let taken = AuthorityRenewed { path: CLUSTER_CA.to_owned(), from: RenewedFrom::Given { slots: vec![slot] } };
    let error = dispatch::converge(&taken.into(), &machine).expect_err("refused").full();
    assert!(error.contains("it is another authority than the one that was renewed"), "{error}");
    assert_eq!(host.read(CLUSTER_CA), had);
}

#[test]
fn one_that_ends_earlier_or_begins_later_is_not_taken() {
    let host = plane();
    let slot = SlotName("ca".to_owned());
    let given = |ends| {
        let renewed =
            kubexm_ops::authority::renewed(&host.read(CLUSTER_CA), &host.read(&key()), ends).expect("renewed");
        host.machine.with_slots([(slot.clone(), renewed.into_bytes())].into())
    };
    let taken: Op =
        AuthorityRenewed { path: CLUSTER_CA.to_owned(), from: RenewedFrom::Given { slots: vec![slot.clone()] } }.into();
    let had = host.read(CLUSTER_CA);
    // Earlier than that of the fake, which ends in 2036.
    let error = dispatch::converge(&taken, &given(ENDS)).expect_err("refused").full();
    assert!(error.contains("ends earlier than this one"), "{error}");
    assert_eq!(host.read(CLUSTER_CA), had);
    dispatch::converge(&taken, &given(2 * ENDS)).expect("taken");
    assert_ne!(host.read(CLUSTER_CA), had);
}

fn key() -> String {
    CLUSTER_CA.replace(".crt", ".key")
}

#[test]
fn without_its_key_an_authority_is_not_renewed_and_nothing_of_the_key_is_shown() {
    let host = plane();
    let key = key();
    let renewal = renewal(&host);
    host.put(&key, "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n");
    let error = dispatch::converge(&renewal, &host.machine).expect_err("refused").full();
    assert!(error.contains("its key cannot be read") && !error.contains("secret"), "{error}");
    std::fs::remove_file(host.machine.path(&key)).expect("removed");
    let error = dispatch::converge(&renewal, &host.machine).expect_err("refused").full();
    assert!(error.contains(&format!("its key, {key}, is not on this host")), "{error}");
}

#[test]
fn every_authority_of_a_control_plane_can_be_given_to_others() {
    let host = plane();
    for path in AUTHORITIES.iter().filter(|path| host.machine.path(path).is_file()) {
        let provider = kubexm_plan::SlotProvider::SharedFile { host: "node1".to_owned(), path: (*path).to_owned() };
        assert_eq!(kubexm_ops::provide::value(&provider, &host.machine).expect(path), host.read(path).into_bytes());
    }
}
