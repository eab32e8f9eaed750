//! How single parts of cluster.yaml are read: secrets, scripts, addresses, roles.

use kubexm_spec::ExitCode;
use kubexm_spec::cluster::{
    AddonSource, EtcdKind, ExtraFile, InternalKind, LoadBalancerMode, NetworkPlugin, ProblemKind, RegistryPassword,
    SecretSource, parse,
};

use crate::cluster_rules::{cluster, file, refused};

#[test]
fn secrets_are_refused_wherever_a_bundle_would_carry_them_and_never_shown() {
    for spec in [
        "  registry: {auths: {r.example.com: {username: me, password: hunter2}}}\n",
        "  registry: {type: harbor, harborConfig: {adminPassword: hunter2}}\n",
        "  registry: {type: harbor, harborConfig: {config: {harbor_admin_password: hunter2}}}\n",
        "  registry: {type: harbor, harborConfig: {config: {a: [{db: {password: hunter2}}]}}}\n",
        "  registry: {type: external, privateRegistry: \"me:hunter2@r.example.com\"}\n",
        "  etcd: {type: external, externalConfig: {endpoints: [\"http://me:hunter2@10.0.0.5:2379\"]}}\n",
        "  addons: [{name: a, type: helm, source: {repo: \"https://me:hunter2@a.test\", chart: a, version: \"1\"}}]\n",
        "  bundle: {extraCharts: [{name: a, source: {oci: \"oci://me:hunter2@a.test/b\", version: \"1\"}}]}\n",
        "  bundle: {extraFiles: [{url: \"https://a.test/f?raw=1&private_token=hunter2\", sha256: HEX}]}\n",
        "  bundle: {extraFiles: [{url: \"https://a.test/f?X-Amz-Signature=hunter2#x\", sha256: HEX}]}\n",
        "  bundle: {extraFiles: [{url: \"https://a.test/f?AWSAccessKeyId=hunter2\", sha256: HEX}]}\n",
        "  addons: [{name: a, type: yaml, source: {url: \"https://a.test/f?sv=1&sig=hunter2\", sha256: HEX}}]\n",
        "  system: {preInstall: [{name: a, bash: \"cat > f <<E\\ntoken: hunter2\\nE\\n\"}]}\n",
        "  system: {postInstall: [{name: a, bash: \"true\", undo: \"echo 'kind: Secret' hunter2\"}]}\n",
    ] {
        let spec = &spec.replace("HEX", &"ab".repeat(32));
        let problems = refused(spec);
        assert_eq!(problems.exit_code(), ExitCode::InlineSecret, "{spec}{problems}");
        assert!(!problems.to_string().contains("hunter2"), "{problems}");
        assert_eq!(problems.0.iter().filter(|p| p.kind == ProblemKind::InlineSecret).count(), 1, "{spec}{problems}");
    }
}

#[test]
fn a_script_names_the_hosts_that_it_runs_on_by_role_and_by_name() {
    let scripts = |scripts: &str| {
        let hosts =
            "  hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2}, {name: c, address: 10.0.0.3}]\n";
        format!("{hosts}  roleGroups: {{master: [a], worker: [b, c]}}\n  system:\n    preInstall:\n{scripts}")
    };
    let runs_on = |script: &str| {
        let cluster = cluster(&scripts(&format!("    - {{name: x, bash: \"true\"{script}}}\n")));
        let chosen =
            cluster.hosts.iter().filter(|host| cluster.system.pre_install[0].runs_on(&cluster.role_groups, &host.name));
        chosen.map(|host| host.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(runs_on(""), "a b c");
    assert_eq!(runs_on(", roles: [], hosts: []"), "a b c");
    assert_eq!(runs_on(", roles: [control-plane]"), "a");
    assert_eq!(runs_on(", roles: [master], hosts: [c]"), "a c");
    // etcd of kubeadm, and the registry that nobody named.
    assert_eq!(runs_on(", roles: [etcd, registry]"), "a");
    assert_eq!(runs_on(", roles: [loadbalancer]"), "");

    let problems = refused(&scripts(
        "    - {name: x, bash: \"true\", roles: [worker, wroker]}\n    - {name: y, bash: \"true\", hosts: [b, d]}\n",
    ));
    let text = problems.to_string();
    assert_eq!(problems.0.len(), 2, "{text}");
    for part in ["spec.system.preInstall[0].roles[1]", "wroker", "spec.system.preInstall[1].hosts[1]", "no host \"d\""]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let places: Vec<_> = problems.0.iter().map(|problem| (problem.line, problem.column > 1)).collect();
    assert_eq!(places, [(9, true), (10, true)], "{text}");
}

#[test]
fn a_script_that_selects_no_hosts_is_the_same_document_as_before_there_was_a_selection() {
    let cluster = cluster("  system: {postInstall: [{name: x, bash: \"true\"}]}\n");
    let script = serde_json::to_value(&cluster.system.post_install[0]).unwrap();
    let fields: Vec<&String> = script.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["bash", "materials", "name", "timeout"]);
}

#[test]
fn a_query_without_credentials_is_allowed_in_an_address() {
    for query in ["raw=true", "version=1.2&os=linux", "monkey=1", "x"] {
        let url = format!("https://a.test/f?{query}");
        let hex = "ab".repeat(32);
        let files =
            cluster(&format!("  bundle: {{extraFiles: [{{url: \"{url}\", sha256: {hex}}}]}}\n")).bundle.extra_files;
        assert!(matches!(&files[0], ExtraFile::Url { url: read, .. } if *read == url), "{files:?}");
    }
}

#[test]
fn an_image_of_docker_hub_has_one_name_whichever_of_its_hosts_it_is_written_with() {
    for name in
        ["busybox:1", "docker.io/busybox:1", "index.docker.io/library/busybox:1", "registry-1.docker.io/busybox:1"]
    {
        let images = cluster(&format!("  bundle: {{extraImages: [{{name: \"{name}\"}}]}}\n")).bundle.extra_images;
        assert_eq!(images[0].name, "docker.io/library/busybox:1", "{name}");
    }
}

#[test]
fn a_source_that_is_a_name_alone_says_how_the_catalogue_is_named() {
    let problems = refused("  addons: [{name: a, type: helm, source: metrics-server}]\n");
    let text = problems.to_string();
    assert!(text.contains("{catalogue: metrics-server}") && text.contains("spec.addons[0].source"), "{text}");
}

#[test]
fn an_address_where_a_path_is_wanted_is_refused_and_not_shown() {
    let address = "https://me:hunter2@a.test/x.yaml";
    for (place, spec) in [
        ("spec.addons[0].source.path", format!("addons: [{{name: a, type: yaml, source: {{path: \"{address}\"}}}}]")),
        (
            "spec.addons[0].valuesFile",
            format!("addons: [{{name: a, type: helm, source: {{path: a}}, valuesFile: \"{address}\"}}]"),
        ),
        ("spec.bundle.extraFiles[0].path", format!("bundle: {{extraFiles: [{{path: \"{address}\"}}]}}")),
    ] {
        let text = refused(&format!("  {spec}\n")).to_string();
        assert!(text.contains(place) && text.contains("address") && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn roles_of_hosts_and_of_groups_are_one() {
    let all = cluster(
        "  hosts:\n  - {name: a, address: 10.0.0.1, roles: [control-plane, worker]}\n  - {name: b, address: 10.0.0.2, roles: \
         [worker]}\n",
    );
    assert_eq!(
        (all.role_groups.control_plane, all.role_groups.worker),
        (vec!["a".to_owned()], vec!["a".into(), "b".into()])
    );
    assert_eq!((all.role_groups.etcd, all.role_groups.registry), (vec!["a".to_owned()], vec!["a".to_owned()]));
    let both = cluster(
        "  hosts:\n  - {name: a, address: 10.0.0.1}\n  - {name: b, address: 10.0.0.2, roles: [worker]}\n  roleGroups: {master: \
         [a], worker: [a, b]}\n",
    );
    assert_eq!(both.role_groups.worker, ["a", "b"]);
}

#[test]
fn each_type_of_a_part_is_read_with_what_it_needs() {
    let etcd = cluster("  kubernetes: {type: kubexm}\n  etcd: {type: kubexm, quota: 8Gi, backup: {}}\n").etcd;
    assert_eq!((etcd.kind, etcd.quota), (EtcdKind::Kubexm, Some(8 << 30)));
    assert_eq!(etcd.backup.map(|backup| backup.schedule).as_deref(), Some("daily"));
    let multus = cluster("  network: {plugin: multus}\n").network;
    assert_eq!((multus.plugin, multus.multus), (NetworkPlugin::Flannel, true));
    let proxy = cluster("  loadBalancer: {mode: internal, internal: {type: haproxy}, port: 7443}\n").load_balancer.mode;
    let wanted = LoadBalancerMode::Internal { kind: InternalKind::Haproxy, vip: None, port: 7443, interface: None };
    assert_eq!(proxy, wanted);
    let dual =
        cluster("  network: {podCidr: [10.1.0.0/16, \"fd00:1::/56\"], serviceCidr: [10.2.0.0/16, \"fd00:2::/112\"]}\n");
    assert_eq!(dual.network.more_pod_cidrs, ["fd00:1::/56".parse().unwrap()]);
    let addons = cluster("  addons: [{name: a, type: helm, source: {catalogue: metrics-server}}]\n").addons;
    assert_eq!(addons[0].source, AddonSource::Catalogue { name: "metrics-server".into(), version: None });
}

#[test]
fn a_secret_key_given_for_a_recipient_is_refused_and_not_shown() {
    let with = |recipient: &str| file(&format!("  operators: [{{name: alice, recipient: {recipient}}}]\n"));
    let secret = "AGE-SECRET-KEY-1J59TJ7NCP8QKV02YQXEXASFA54P3YC5K94MA674LWPWUHFEYQLJQRVVM63";
    let backup = |recipient: &str| file(&format!("  etcd: {{backup: {{recipients: [{recipient}]}}}}\n"));
    for (recipient, said) in [(secret, "secret key"), ("ssh-ed25519", "no recipient"), ("age1abc", "no recipient")] {
        for spec in [with(recipient), backup(recipient)] {
            let problems = parse(&spec).unwrap_err().to_string();
            assert!(problems.contains(said) && !problems.contains("1J59TJ7"), "{problems}");
        }
    }
    let twice = with("a").replace("recipient: a}", "recipient: a}, {name: alice, recipient: b}");
    assert!(parse(&twice).unwrap_err().to_string().contains("given twice"), "{twice}");
}

#[test]
fn the_password_of_a_registry_has_one_source_of_three() {
    let spec = |source: &str| {
        format!("  registry: {{auths: {{registry.c.kubexm.internal: {{username: a, passwordFrom: {source}}}}}}}\n")
    };
    let login = |source: &str| cluster(&spec(source)).registry.auths.into_values().next().unwrap().password;
    assert_eq!(login("{env: A}"), SecretSource::Env("A".into()).into());
    assert_eq!(login("{file: ~/a}"), SecretSource::File("~/a".into()).into());
    assert_eq!(login("{dockerConfig: ~/a.json}"), RegistryPassword::DockerConfig("~/a.json".into()));
    for source in ["{dockerConfig: a, file: b}", "{dockerConfig: a, env: B}", "{env: A, file: b}", "{}"] {
        let problems = refused(&spec(source)).to_string();
        assert!(
            problems.contains("a secret has one source") && problems.contains("or {dockerConfig: PATH}"),
            "{problems}"
        );
    }
    let inline = refused(&spec("hunter2"));
    assert_eq!(inline.exit_code(), ExitCode::InlineSecret);
    assert!(!inline.to_string().contains("hunter2"), "{inline}");
}

/// The first mistake that everybody makes with such a field.
#[test]
fn a_secret_where_its_source_is_wanted_is_refused_and_not_shown() {
    for spec in [
        "  hosts: [{name: a, address: 10.0.0.1, passwordFrom: hunter2}]\n",
        "  hosts: [{name: a, address: 10.0.0.1, user: \"ops:hunter2\"}]\n",
        "  registry: {auths: {registry.corp: \"ops:hunter2\"}}\n",
        "  registry: {auths: {registry.corp: {username: ops, passwordFrom: hunter2}}}\n",
        "  registry: {type: harbor, harborConfig: {adminPasswordFrom: hunter2}}\n",
    ] {
        let said = refused(spec).to_string();
        assert!(!said.contains("hunter2"), "{said}");
    }
    let problems = refused("  hosts: [{name: a, address: 10.0.0.1, passwordFrom: hunter2}]\n");
    assert_eq!(problems.exit_code(), ExitCode::InlineSecret);
    assert!(problems.to_string().contains("give {env: NAME} or {file: PATH}"), "{problems}");
}

#[test]
fn a_key_where_the_path_of_its_file_is_wanted_is_refused_and_not_shown() {
    let body = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz";
    let key =
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n        {body}\n        -----END OPENSSH PRIVATE KEY-----\n");
    let said = refused(&format!("  hosts:\n  - name: a\n    address: 10.0.0.1\n    privateKeyPath: |\n        {key}"))
        .to_string();
    assert!(said.contains("expected a path, got several lines") && !said.contains(body), "{said}");
}

#[test]
fn a_field_in_the_wrong_place_is_told_where_it_belongs() {
    let said = refused("  podCidr: 10.244.0.0/16\n").to_string();
    assert!(said.contains("unknown field \"podCidr\" (it belongs below spec.network)"), "{said}");
    let said = refused("  weather: sunny\n").to_string();
    assert!(!said.contains("did you mean"), "{said}");
}

#[test]
fn flags_that_nothing_else_sets_are_taken() {
    let flags =
        "{etcd-prefix: /registry, oidc-ca-file: /etc/ssl/certs/oidc.pem, event-ttl: 2h, audit-log-maxage: \"3\"}";
    let cluster = cluster(&format!("  kubernetes: {{apiServerArgs: {flags}}}\n"));
    assert_eq!(cluster.kubernetes.map(|kubernetes| kubernetes.api_server_args.len()), Some(4));
}
