//! What a reset that deletes keys in an etcd of the user's demands before it contacts a host.

use kubexm_session::{ClusterOptions, LocalBackup};
use kubexm_spec::{ExitCode, ExitError as _};

#[test]
fn keys_in_an_etcd_are_deleted_only_where_it_is_the_users_and_with_a_backup_that_is_whole() {
    let (site, backup, _) = crate::restore::site();
    let file = site.folder.path().join("cluster.yaml");
    let refused = || {
        let (session, own) = (site.session(), ClusterOptions { file: Some(file.clone()), ..ClusterOptions::default() });
        let source = session.cluster(&own).unwrap();
        let error = session.etcd_backup(&source, LocalBackup::of_folder(backup.clone())).err().unwrap();
        (error.exit_code(), error.to_string())
    };
    let (code, said) = refused();
    assert!(code == ExitCode::Preflight && said.contains("spec.etcd.type of cluster red is kubeadm"), "{said}");
    let external = "  etcd: {type: external, externalConfig: {endpoints: [\"https://10.0.0.5:2379\"], caFile: a, certFile: b, keyFrom: {env: KEY}}}\n";
    let yaml = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, yaml + external).unwrap();
    let (code, said) = refused();
    assert!(code == ExitCode::BackupUnusable && said.contains("archive.age"), "{said}");
}
