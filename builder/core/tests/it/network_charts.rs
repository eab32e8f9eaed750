//! Charts of network plugins are rendered by the real helm (which the lab builds) without a cluster: what upstream's charts do with
//! `lookup`, with the number of nodes and with the version of Kubernetes must not stop a build, nor change an image when the site is
//! known.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use kubexm_builder::charts::helm::{Helm, Job};
use kubexm_builder::charts::{documents, extract};
use kubexm_builder::origins::Origins;
use kubexm_builder::origins::in_place::InPlace;
use kubexm_builder::origins::installer::Installers;
use kubexm_builder::session::SystemClock;
use kubexm_manifests::{Catalogue, ChartRelease, Zone, releases};
use kubexm_spec::Cluster;
use kubexm_spec::cluster::{Addon, AddonKind, AddonSource, NetworkPlugin};
use kubexm_transport::{Credentials, HttpClient, HttpOptions, OciRegistry, Store};
use serde_json::{Map, Value, json};

/// What the charts of Kube-OVN, Hybridnet and Cilium do, in a template each.
const OVN: &str = r#"{{- define "ips" -}}
{{- $ips := list -}}
{{- range $node := (lookup "v1" "Node" "" "").items -}}{{- $ips = append $ips $node.metadata.name -}}{{- end -}}
{{- if and (eq (len $ips) 0) (not $.Values.MASTER_NODES) -}}{{- fail "No nodes found" -}}{{- end -}}
{{- join "," $ips -}}
{{- end -}}
apiVersion: apps/v1
kind: Deployment
metadata: {name: ovn-central, namespace: kube-system}
spec:
  replicas: {{ len (split "," (.Values.MASTER_NODES | default (include "ips" .))) }}
  template: {spec: {containers: [{name: a, image: "docker.io/kubeovn/kube-ovn:v1", args: ["--cidr={{ .Values.ipv4.POD_CIDR }}", "--gateway={{ .Values.ipv4.POD_GATEWAY }}", "--ping={{ .Values.ipv4.PINGER_EXTERNAL_ADDRESS }}"]}]}}
"#;
const HYBRIDNET: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: manager}
spec:
  replicas: {{ .Values.manager.replicas }}
  template:
    spec:
      {{- if .Values.manager.nodeSelector }}
      nodeSelector: {{ toJson .Values.manager.nodeSelector }}
      {{- else }}
      nodeSelector: {node-role.kubernetes.io/master: ""}
      {{- end }}
      containers: [{name: a, image: "docker.io/hybridnetdev/hybridnet:v0", args: [manage]}]
{{- with .Values.init }}
---
apiVersion: networking.alibaba.com/v1
kind: Subnet
metadata: {name: init}
spec: {range: {cidr: {{ .cidr }}}}
{{- end }}
"#;
const CILIUM: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: operator}
spec:
  replicas: {{ .Values.operator.replicas }}
  template:
    spec:
      containers:
      - name: a
        image: "quay.io/cilium/operator-generic:v1"
        args: ["{{ join "," .Values.ipam.operator.clusterPoolIPv4PodCIDRList }}"]
      {{- if semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version }}
      - {name: new, image: "quay.io/cilium/new:v1"}
      {{- else }}
      - {name: old, image: "quay.io/cilium/old:v1"}
      {{- end }}
"#;

fn helm() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || set("XDG_CACHE_HOME").unwrap_or_else(|| set("HOME").unwrap_or_default().join(".cache"));
    let helm = set("KUBEXM_LAB").unwrap_or_else(|| cache().join("kubexm-lab")).join("bin/helm");
    assert!(helm.exists(), "{} is needed: scripts/lab build makes it", helm.display());
    helm
}

fn archive(folder: &Path, template: &str) -> PathBuf {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in
        [("net/Chart.yaml", "apiVersion: v2\nname: net\nversion: 1.0.0\n"), ("net/templates/all.yaml", template)]
    {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    let path = folder.join("net.tgz");
    std::fs::write(&path, tar.into_inner().unwrap().finish().unwrap()).unwrap();
    path
}

fn release(plugin: NetworkPlugin) -> ChartRelease {
    let mut cluster = Cluster::named("x");
    cluster.network.plugin = plugin;
    cluster.network.pod_cidr = "10.20.0.0/16".parse().unwrap();
    releases(&cluster).remove(0)
}

/// The same chart as an add-on of a cluster without a plugin.
fn addon(plugin: NetworkPlugin) -> ChartRelease {
    let mut cluster = Cluster::named("x");
    cluster.network.plugin = NetworkPlugin::None;
    cluster.network.pod_cidr = "10.20.0.0/16".parse().unwrap();
    let source = AddonSource::Catalogue { name: plugin.to_string(), version: None };
    let (name, namespace) = ("net".to_owned(), "kube-system".to_owned());
    let addon = Addon {
        name,
        kind: AddonKind::Helm,
        source,
        namespace,
        values: Map::new(),
        values_file: None,
        after: Vec::new(),
        secrets: Vec::new(),
    };
    cluster.addons = vec![addon];
    releases(&cluster).remove(0)
}

struct Renderer {
    helm: Helm,
    folder: tempfile::TempDir,
}

impl Renderer {
    async fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let http = HttpClient::new(HttpOptions { offline: true, ..HttpOptions::default() }).unwrap();
        let store = Store::open(folder.path().join("cache")).unwrap();
        let registry = OciRegistry::new(http.clone(), Credentials::anonymous());
        let installers = Installers::default();
        let origins = Origins {
            http,
            registry,
            store,
            referrers: false,
            lease: None,
            installers,
            helm: Some(helm()),
            in_place: InPlace::default(),
            clock: Arc::new(SystemClock),
        };
        let zone = Zone::builtin("global").unwrap();
        let helm = Helm::find(&Catalogue::embedded(), &zone, &origins).await.expect("helm runs");
        Self { helm, folder }
    }

    async fn text(
        &self,
        release: &ChartRelease,
        template: &str,
        kubernetes: &str,
        values: &Map<String, Value>,
    ) -> Result<String, String> {
        let archive = archive(self.folder.path(), template);
        let job = Job {
            key: &release.key,
            archive: &archive,
            name: &release.name,
            namespace: &release.namespace,
            kubernetes: Some(kubernetes),
            values,
        };
        self.helm.render(&job, false).await.map_err(|error| error.to_string())
    }
}

fn images(text: &str) -> BTreeSet<String> {
    let documents = documents::read(text).unwrap_or_else(|error| panic!("{}: {}", error.place, error.problem));
    extract::images(&documents).pods.into_keys().collect()
}

#[tokio::test]
async fn charts_that_look_for_nodes_are_rendered_for_every_minor_and_the_real_site_has_the_same_images() {
    let renderer = Renderer::new().await;
    // three control planes and many nodes, in the place of placeholders
    let (three, nodes) = (json!({"replicas": 3}), "10.0.0.1,10.0.0.2,10.0.0.3");
    let plugins = [
        (NetworkPlugin::KubeOvn, OVN, json!({"MASTER_NODES": nodes, "replicaCount": 3})),
        (NetworkPlugin::Hybridnet, HYBRIDNET, json!({"manager": three, "webhook": three, "typha": three})),
        (NetworkPlugin::Cilium, CILIUM, json!({"operator": {"replicas": 2}})),
    ];
    for minor in Catalogue::embedded().releases.keys() {
        for (plugin, template, site) in &plugins {
            let (plugin, template) = (*plugin, *template);
            let release = release(plugin);
            let kubernetes = format!("v{minor}.0");
            let values = release.rendered(Map::new());
            let rendered = renderer.text(&release, template, &kubernetes, &values).await;
            let rendered = rendered.unwrap_or_else(|error| panic!("{plugin} for {minor}: {error}"));
            // Hybridnet's network of pods is made by a recipe, after its chart.
            let is_named = plugin != NetworkPlugin::Hybridnet;
            assert_eq!(rendered.contains("10.20.0.0/16"), is_named, "{plugin}: {rendered}");
            let real = release.rendered(site.as_object().unwrap().clone());
            let installed = renderer.text(&release, template, &kubernetes, &real).await.unwrap();
            assert_eq!(images(&rendered), images(&installed), "{plugin} for {minor}");
            assert_ne!(rendered, installed, "{plugin}: the site's own values are not there");
        }
        let cilium = release(NetworkPlugin::Cilium);
        let text = renderer.text(&cilium, CILIUM, &format!("v{minor}.0"), &cilium.rendered(Map::new())).await.unwrap();
        let new = kubexm_manifests::version::compare(minor, "1.30").is_ge();
        assert_eq!(images(&text).contains("quay.io/cilium/new:v1"), new, "{minor}");
    }
}

#[tokio::test]
async fn without_site_values_such_a_chart_fails_and_with_them_it_selects_kubeadms_nodes() {
    let renderer = Renderer::new().await;
    let ovn = release(NetworkPlugin::KubeOvn);
    let mut values = ovn.rendered(Map::new());
    let text = renderer.text(&ovn, OVN, "v1.34.0", &values).await.unwrap();
    assert!(
        text.contains("replicas: 1") && text.contains("--gateway=10.20.0.1") && text.contains("--ping=\""),
        "{text}"
    );
    values.remove("MASTER_NODES");
    let error = renderer.text(&ovn, OVN, "v1.34.0", &values).await.unwrap_err();
    assert!(error.contains("No nodes found"), "{error}");
    let hybridnet = release(NetworkPlugin::Hybridnet);
    let text = renderer.text(&hybridnet, HYBRIDNET, "v1.34.0", &hybridnet.rendered(Map::new())).await.unwrap();
    assert!(
        text.contains("node-role.kubernetes.io/control-plane") && !text.contains("role.kubernetes.io/master"),
        "{text}"
    );
    assert!(text.contains("replicas: 1"), "{text}");
}

#[tokio::test]
async fn a_chart_that_looks_for_nodes_is_rendered_as_an_addon_with_the_clusters_networks_too() {
    let renderer = Renderer::new().await;
    let plugins =
        [(NetworkPlugin::KubeOvn, OVN), (NetworkPlugin::Hybridnet, HYBRIDNET), (NetworkPlugin::Cilium, CILIUM)];
    for (plugin, template) in plugins {
        let (addon, release) = (addon(plugin), release(plugin));
        let of = async |release: &ChartRelease| {
            let rendered = renderer.text(release, template, "v1.34.0", &release.rendered(Map::new())).await;
            rendered.unwrap_or_else(|error| panic!("{plugin}: {error}"))
        };
        let text = of(&addon).await;
        assert!(text.contains("10.20.0.0/16"), "{plugin}: {text}");
        assert_eq!(images(&text), images(&of(&release).await), "{plugin}");
    }
}
