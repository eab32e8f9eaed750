//! `spec.hosts`: the ways in to a host.

#![expect(clippy::unwrap_used, reason = "tests")]

use kubexm_spec::ExitCode;
use kubexm_spec::cluster::{Host, Jump, ProblemKind, Problems, SecretSource, parse};

fn read(host: &str) -> Result<Host, Problems> {
    let text = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: c}}\nspec:\n  hosts: [{{name: a, address: \
         10.0.0.9, {host}}}]\n  roleGroups: {{master: [a]}}\n"
    );
    parse(&text).map(|cluster| cluster.hosts.into_iter().next().unwrap())
}

#[test]
fn secrets_are_named_by_where_they_come_from() {
    let host = read("passwordFrom: {env: NODE_PASSWORD}, sudoPasswordFrom: {file: ~/sudo}, agent: true").unwrap();
    assert_eq!(host.password, Some(SecretSource::Env("NODE_PASSWORD".into())));
    assert_eq!(host.sudo_password, Some(SecretSource::File("~/sudo".into())));
    assert!(host.agent);
}

#[test]
fn a_secret_in_the_file_is_refused_also_where_its_source_should_stand_and_never_shown() {
    for host in ["password: hunter2", "sudoPassword: hunter2", "via: [{address: b, password: hunter2}]"] {
        let problems = read(host).unwrap_err();
        assert_eq!(problems.exit_code(), ExitCode::InlineSecret, "{host}");
        assert!(!problems.to_string().contains("hunter2"), "{problems}");
    }
    let refused = [
        "passwordFrom: {env: \"hunter2!\"}",
        "passwordFrom: {}",
        "passwordFrom: {env: A, file: b}",
        "via: [\"root:hunter2@b\"]",
    ];
    for host in refused {
        let problems = read(host).unwrap_err();
        assert_eq!(problems.0.len(), 1, "{problems}");
        assert_eq!(problems.0[0].kind, ProblemKind::BadValue, "{host}");
        assert!(!problems.to_string().contains("hunter2"), "{problems}");
    }
}

#[test]
fn a_file_of_dockers_is_no_source_of_a_hosts_password_and_is_refused_by_name() {
    for host in [
        "passwordFrom: {dockerConfig: ~/.docker/config.json}",
        "passwordFrom: {env: A, dockerConfig: b}",
        "sudoPasswordFrom: {dockerConfig: b}",
        "via: [{address: b, passwordFrom: {dockerConfig: b}}]",
    ] {
        let problems = read(host).unwrap_err();
        assert_eq!(problems.0.len(), 1, "{problems}");
        assert!(problems.0[0].path.ends_with("asswordFrom.dockerConfig"), "{problems}");
        assert!(problems.to_string().contains("only spec.registry.auths takes dockerConfig"), "{problems}");
    }
}

#[test]
fn jumps_are_read_in_their_order_in_the_long_and_the_short_form() {
    let via = "via: [\"ops@bastion.example.com:2222\", {address: 10.0.0.2, user: jump, privateKeyPath: /k, \
               passwordFrom: {env: P}, agent: true}, inner]";
    let jump = |address: &str, port, user: &str| Jump {
        address: address.into(),
        port,
        user: user.into(),
        private_key_path: None,
        password: None,
        agent: false,
    };
    let middle = Jump {
        private_key_path: Some("/k".into()),
        password: Some(SecretSource::Env("P".into())),
        agent: true,
        ..jump("10.0.0.2", 22, "jump")
    };
    let wanted = [jump("bastion.example.com", 2222, "ops"), middle, jump("inner", 22, "root")];
    assert_eq!(read(via).unwrap().via, wanted);
    let jumps = |count: usize| format!("via: [{}]", "b, ".repeat(count));
    assert_eq!(read(&jumps(8)).unwrap().via.len(), 8);
    let problems = read(&jumps(9)).unwrap_err().to_string();
    assert!(problems.contains("9 hosts are on the way, and 8 may be"), "{problems}");
    for bad in ["via: bastion", "via: [\"a:0\"]", "via: [\"a:x\"]", "via: [\"@a\"]", "via: [{user: a}]"] {
        if let Ok(host) = read(bad) {
            panic!("{bad}: {:?}", host.via);
        }
    }
}

#[test]
fn a_path_that_the_kernel_does_not_take_is_refused() {
    let key = |length: usize| read(&format!("privateKeyPath: /{}", "k".repeat(length - 1)));
    assert!(key(4096).unwrap().private_key_path.is_some());
    let problems = key(4097).unwrap_err().to_string();
    assert!(problems.contains("has 4097 bytes, and Linux takes 4096 at most"), "{problems}");
}
