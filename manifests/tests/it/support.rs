//! The support matrix: programs that do not go with a Kubernetes are refused, whoever names them.

#![expect(clippy::panic, reason = "helpers of tests may fail the test")]

use kubexm_manifests::{Catalogue, RequireError, require};
use kubexm_spec::cluster::{EtcdKind, KubernetesKind, RuntimeKind, for_version};
use kubexm_spec::{Digest, ExitCode};

const HEAD: &str = "schema: kubexm.io/catalogue/v1\nname: old\n";

fn overlaid(text: &str) -> Catalogue {
    Catalogue::embedded().overlaid(&format!("{HEAD}{text}")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn cri_o_of_another_minor_is_refused_with_those_that_go_with_it() {
    let with = |kubernetes: &str, version: &str| {
        let mut cluster = for_version(Some(kubernetes));
        (cluster.runtime.kind, cluster.runtime.version) = (RuntimeKind::CriO, Some(version.to_owned()));
        require(&cluster, &Catalogue::embedded())
    };
    assert_eq!(with("1.34.4", "1.34.1").unwrap().versions.unwrap().runtime, "cri-o 1.34.1");
    let error = with("1.34.4", "1.33.2").unwrap_err();
    assert!(
        matches!(&error, RequireError::MinorMismatch { known, .. } if known.contains(&"1.34.1".to_owned())),
        "{error}"
    );
    assert_eq!(error.exit_code(), ExitCode::Config);
}

#[test]
fn an_etcd_of_an_overlay_that_is_older_than_kubeadm_takes_is_refused_and_kubeadms_own_never() {
    let sum = Digest::of("x").hex();
    let catalogue = overlaid(&format!(
        "components: {{etcd: {{default: 3.5.23, versions: {{3.5.23: {{amd64: {{sha256: {sum}}}}}}}}}}}\n"
    ));
    let mut cluster = for_version(Some("1.34.4"));
    cluster.etcd.kind = EtcdKind::Kubexm;
    let error = require(&cluster, &catalogue).unwrap_err();
    assert!(matches!(&error, RequireError::EtcdTooOld { minimum, .. } if minimum == "3.5.24"), "{error}");
    assert!(error.to_string().contains("components.etcd.default"), "{error}");
    // 1.33.0 runs an etcd that the newest patch of 1.33 would not take from others
    let mut old = for_version(Some("1.33.0"));
    old.etcd.kind = EtcdKind::Kubexm;
    old.kubernetes.as_mut().unwrap().kind = KubernetesKind::Kubexm;
    assert_eq!(require(&old, &Catalogue::embedded()).unwrap().versions.unwrap().programs["etcd"], "3.5.21");
}
