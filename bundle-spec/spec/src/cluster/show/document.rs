//! A cluster as the document it could have been read from, every default written out.

use serde_json::{Value, json};

use super::part::{Part, text};

use crate::cluster::{
    Addon, AddonSource, Bundle, Cluster, Etcd, EtcdKind, ExtraFile, Host, Keyword, Kubernetes, LoadBalancer,
    LoadBalancerMode, Network, Registry, RegistryKind, RoleGroups, Script, Storage, System,
};
use crate::names;

/// The document, with the keys of cluster.yaml. What is not set (no value, no items) is left out; reading it gives the same
/// cluster again.
pub fn document(cluster: &Cluster) -> Value {
    let mut spec = Part::default();
    if let Some(kubernetes) = &cluster.kubernetes {
        spec.each("hosts", &cluster.hosts, host);
        if !cluster.hosts.is_empty() {
            spec.put("roleGroups", roles(&cluster.role_groups));
        }
        spec.put("system", system(&cluster.system));
        let mut extra = Part::default();
        extra.each("hosts", &cluster.extra.hosts, |host| json!({"domain": host.domain, "address": host.address}));
        extra.each("resolves", &cluster.extra.resolves, |server| json!({"address": server}));
        spec.some("extra", extra);
        spec.put("kubernetes", self::kubernetes(kubernetes));
        spec.put("etcd", etcd(&cluster.etcd));
        let mut runtime = Part::default();
        runtime.put("type", cluster.runtime.kind.word());
        runtime.maybe("version", cluster.runtime.version.as_ref());
        runtime.maybe("dataDir", cluster.runtime.data_dir.as_ref());
        runtime.raw("extraConfig", &cluster.runtime.extra_config);
        spec.put("runtime", runtime.0);
        spec.put("network", network(&cluster.network));
        spec.put("loadBalancer", load_balancer(&cluster.load_balancer));
        spec.put("registry", registry(&cluster.registry));
        spec.each("addons", &cluster.addons, |addon| self::addon(addon, true));
        spec.some("storage", storage(&cluster.storage));
    }
    spec.put("bundle", bundle(&cluster.bundle));
    json!({
        "apiVersion": names::CLUSTER_API_VERSION,
        "kind": "Cluster",
        "metadata": {"name": cluster.name},
        "spec": spec.0,
    })
}

fn host(host: &Host) -> Value {
    let mut part = Part::default();
    part.put("name", host.name.as_str());
    part.one_or_two("address", &host.address, &host.more_addresses);
    if let Some(first) = &host.internal_address {
        part.one_or_two("internalAddress", first, &host.more_internal_addresses);
    }
    part.put("port", host.port);
    part.put("user", host.user.as_str());
    part.path("privateKeyPath", host.private_key_path.as_ref());
    part.secret("passwordFrom", host.password.as_ref());
    part.put("agent", host.agent);
    part.secret("sudoPasswordFrom", host.sudo_password.as_ref());
    part.each("via", &host.via, |jump| {
        let mut part = Part::default();
        part.put("address", jump.address.as_str());
        part.put("port", jump.port);
        part.put("user", jump.user.as_str());
        part.path("privateKeyPath", jump.private_key_path.as_ref());
        part.secret("passwordFrom", jump.password.as_ref());
        part.put("agent", jump.agent);
        part.into()
    });
    part.maybe("arch", host.arch);
    part.named("labels", &host.labels);
    part.into()
}

fn roles(roles: &RoleGroups) -> Value {
    let mut part = Part::default();
    part.list("etcd", &roles.etcd);
    part.list("master", &roles.control_plane);
    part.list("worker", &roles.worker);
    part.list("loadbalancer", &roles.load_balancer);
    part.list("registry", &roles.registry);
    part.into()
}

fn system(system: &System) -> Value {
    let script = |script: &Script| {
        let mut part = Part::default();
        part.put("name", script.name.as_str());
        part.put("bash", script.bash.as_str());
        part.each("materials", &script.materials, |file| file.name.as_str().into());
        part.put("timeout", script.timeout);
        part.maybe("undo", script.undo.as_ref());
        part.into()
    };
    let mut part = Part::default();
    part.list("ntpServers", &system.ntp_servers);
    part.maybe("timezone", system.timezone.as_ref());
    part.put("firewall", system.firewall.word());
    part.put("selinux", system.selinux.word());
    part.list("rpms", &system.rpms);
    part.list("debs", &system.debs);
    part.each("preInstall", &system.pre_install, script);
    part.each("postInstall", &system.post_install, script);
    part.put("skipConfigureOS", system.skip_configure_os);
    part.put("osPackages", system.os_packages.word());
    part.into()
}

fn kubernetes(kubernetes: &Kubernetes) -> Value {
    let mut part = Part::default();
    part.put("type", kubernetes.kind.word());
    part.maybe("version", kubernetes.version.as_ref());
    part.put("clusterName", kubernetes.cluster_name.as_str());
    part.put("dnsDomain", kubernetes.dns_domain.as_str());
    part.put("proxyMode", kubernetes.proxy_mode.word());
    part.put("maxPods", kubernetes.max_pods);
    part.named("featureGates", &kubernetes.feature_gates);
    part.named("apiServerArgs", &kubernetes.api_server_args);
    part.named("controllerManagerArgs", &kubernetes.controller_manager_args);
    part.named("schedulerArgs", &kubernetes.scheduler_args);
    part.list("certSANs", &kubernetes.cert_sans);
    part.put("autoRenewCerts", kubernetes.auto_renew_certs);
    part.maybe("nodelocaldns", kubernetes.nodelocaldns.as_ref().map(|dns| json!({"address": dns.address})));
    if let Some(audit) = &kubernetes.audit {
        let mut of = Part::default();
        of.maybe("policyFile", audit.policy_file.as_ref());
        if let Some(webhook) = &audit.webhook {
            let mut to = Part::default();
            to.secret("kubeconfigFrom", Some(&webhook.kubeconfig));
            of.some("webhook", to);
        }
        of.put("maxAge", audit.max_age);
        of.put("maxBackups", audit.max_backups);
        of.put("maxSize", audit.max_size);
        part.some("audit", of);
    }
    part.raw("kubelet", &kubernetes.kubelet);
    part.raw("kubeProxy", &kubernetes.kube_proxy);
    part.into()
}

fn etcd(etcd: &Etcd) -> Value {
    let mut part = Part::default();
    part.put("type", etcd.kind.word());
    if let Some(external) = &etcd.external {
        let mut of = Part::default();
        of.list("endpoints", &external.endpoints);
        of.path("caFile", external.ca_file.as_ref());
        of.path("certFile", external.cert_file.as_ref());
        of.path("keyFile", external.key_file.as_ref());
        part.some("externalConfig", of);
    }
    if etcd.kind != EtcdKind::External {
        part.put("dataDir", etcd.data_dir.as_str());
    }
    // Bytes, as they are counted: a unit would have to be made up.
    part.maybe("quota", etcd.quota.map(|bytes| bytes.to_string()));
    let mut snapshots = Part::default();
    snapshots.maybe("count", etcd.snapshots.count);
    snapshots.maybe("keep", etcd.snapshots.keep);
    part.some("snapshots", snapshots);
    let backup = etcd.backup.as_ref();
    part.maybe("backup", backup.map(|of| json!({"schedule": of.schedule, "dir": of.dir, "keep": of.keep})));
    part.into()
}

fn network(network: &Network) -> Value {
    let mut part = Part::default();
    part.put("plugin", network.plugin.word());
    part.put("multus", network.multus);
    part.one_or_two("podCidr", &network.pod_cidr, &network.more_pod_cidrs);
    part.one_or_two("serviceCidr", &network.service_cidr, &network.more_service_cidrs);
    part.maybe("interface", network.interface.as_ref());
    part.raw("options", &network.options);
    part.into()
}

fn load_balancer(load_balancer: &LoadBalancer) -> Value {
    let mut part = Part::default();
    match &load_balancer.mode {
        LoadBalancerMode::None => part.put("mode", "none"),
        LoadBalancerMode::External { kind, vip, port, interface, virtual_router_id } => {
            part.put("mode", "external");
            let mut of = Part::default();
            of.put("type", kind.word());
            of.maybe("virtualRouterId", *virtual_router_id);
            part.some("external", of);
            part.put("vip", json!(vip));
            part.put("port", *port);
            part.maybe("interface", interface.as_ref());
        }
        LoadBalancerMode::Internal { kind, vip, port, interface } => {
            part.put("mode", "internal");
            part.put("internal", json!({"type": kind.word()}));
            part.maybe("vip", *vip);
            part.put("port", *port);
            part.maybe("interface", interface.as_ref());
        }
    }
    part.maybe("domain", load_balancer.domain.as_ref());
    part.into()
}

fn registry(registry: &Registry) -> Value {
    let mut part = Part::default();
    part.put("type", registry.kind.word());
    if !matches!(registry.kind, RegistryKind::External | RegistryKind::None) {
        part.put("port", registry.port);
    }
    if registry.kind.has_data() {
        part.put("dataDir", registry.data_dir.as_str());
    }
    part.maybe("privateRegistry", registry.private_registry.as_ref());
    let auth = |(host, auth): (&String, &crate::cluster::RegistryAuth)| {
        let mut of = Part::default();
        of.put("username", auth.username.as_str());
        of.secret("passwordFrom", Some(&auth.password));
        (host.clone(), Value::from(of))
    };
    part.some("auths", Part(registry.auths.iter().map(auth).collect()));
    if let Some(harbor) = &registry.harbor {
        let mut of = Part::default();
        of.maybe("version", harbor.version.as_ref());
        of.secret("adminPasswordFrom", harbor.admin_password.as_ref());
        of.secret("databasePasswordFrom", harbor.database_password.as_ref());
        of.raw("config", &harbor.config);
        part.put("harborConfig", of);
    }
    if registry.kind == RegistryKind::External {
        part.put("insecure", registry.insecure);
    }
    part.path("caFile", registry.ca_file.as_ref());
    part.maybe("namespaceOverride", registry.namespace_override.as_ref());
    part.into()
}

fn addon(addon: &Addon, with_type: bool) -> Value {
    let source = match &addon.source {
        AddonSource::Catalogue { name, version } => match version {
            Some(version) => json!({"catalogue": name, "version": version}),
            None => json!({"catalogue": name}),
        },
        AddonSource::Repository { url, chart, version } => json!({"repo": url, "chart": chart, "version": version}),
        AddonSource::Oci { reference, version } => json!({"oci": reference, "version": version}),
        AddonSource::Url { url, sha256 } => json!({"url": url, "sha256": sha256.hex()}),
        AddonSource::Path { path } => json!({"path": text(path)}),
    };
    let mut part = Part::default();
    part.put("name", addon.name.as_str());
    if with_type {
        part.put("type", addon.kind.word());
    }
    part.put("source", source);
    part.put("namespace", addon.namespace.as_str());
    part.raw("values", &addon.values);
    part.path("valuesFile", addon.values_file.as_ref());
    part.into()
}

fn storage(storage: &Storage) -> Part {
    let mut part = Part::default();
    if let Some(open_ebs) = &storage.open_ebs {
        part.put("openebs", json!({"basePath": open_ebs.base_path, "defaultClass": open_ebs.default_class}));
    }
    if let Some(nfs) = &storage.nfs {
        let mut of = Part::default();
        of.put("server", nfs.server.as_str());
        of.put("path", nfs.path.as_str());
        of.list("mountOptions", &nfs.mount_options);
        of.put("defaultClass", nfs.default_class);
        part.put("nfs", of);
    }
    part
}

fn bundle(bundle: &Bundle) -> Value {
    let mut part = Part::default();
    part.each("platforms", &bundle.platforms, |platform| platform.to_string().into());
    part.list("os", &bundle.os);
    part.maybe("zone", bundle.zone.as_ref());
    part.each("extraImages", &bundle.extra_images, |image| match &image.from {
        Some(layout) => json!({"name": image.name, "from": format!("oci:{}", layout.display())}),
        None => json!({"name": image.name}),
    });
    part.each("extraFiles", &bundle.extra_files, |file| match file {
        ExtraFile::Url { url, sha256 } => json!({"url": url, "sha256": sha256.hex()}),
        ExtraFile::Path { path } => json!({"path": text(path)}),
    });
    part.each("extraCharts", &bundle.extra_charts, |chart| addon(chart, false));
    part.list("ignoreImages", &bundle.ignore_images);
    part.list("exclude", &bundle.exclude);
    part.into()
}
