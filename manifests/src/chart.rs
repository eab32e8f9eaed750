//! Charts and YAML add-ons: the values that each is rendered with. One place for both sides: the builder renders with these
//! values to find the images, the installer installs with the same.

use kubexm_spec::cluster::{Addon, AddonKind, AddonSource, Cluster, NetworkPlugin};
use kubexm_spec::{ArtifactKey, Trust};
use serde_json::{Map, Value, json};

use crate::chart_release::ChartRelease;
use crate::component::NodeRole;
use crate::requirements::{ChartSource, Requirement, Source};
use crate::{chart_network, chart_storage};

/// The chart of the catalogue that writes handlers into the configuration of the runtime.
pub const VIRTUAL_MACHINES: &str = "kata-deploy";
/// What users add comes last.
const STAGE: u8 = 6;
/// Where network plugins live.
const SYSTEM: &str = "kube-system";

/// Every chart and YAML add-on of a cluster, in the order in which they are put there; those that are carried only come last.
pub fn releases(cluster: &Cluster) -> Vec<ChartRelease> {
    let mut all = installed(cluster);
    all.extend(cluster.bundle.extra_charts.iter().map(|addon| of_addon(cluster, addon)));
    all
}

/// Keys of the charts that helm installs: `chart/web`.
pub(crate) fn installed_charts(cluster: &Cluster) -> Vec<String> {
    let keys = installed(cluster).into_iter().map(|release| release.key);
    keys.filter(|key| matches!(key, ArtifactKey::Chart(_))).map(|key| key.to_string()).collect()
}

/// The charts and YAML add-ons that are put into the cluster.
pub fn installed(cluster: &Cluster) -> Vec<ChartRelease> {
    let network = match cluster.network.plugin {
        NetworkPlugin::Cilium => Some("cilium"),
        NetworkPlugin::KubeOvn => Some("kube-ovn"),
        NetworkPlugin::Hybridnet => Some("hybridnet"),
        // flannel's objects are made by recipes, Calico's are those of its manifest
        NetworkPlugin::Flannel | NetworkPlugin::Calico | NetworkPlugin::None => None,
    };
    let mut all = Vec::new();
    if let Some(feature) = network {
        let mut release = of_feature(feature, SYSTEM);
        chart_network::fill(cluster, &mut release);
        all.push(release);
    }
    for provisioner in cluster.storage.provisioners() {
        let mut release = of_feature(provisioner.release(), provisioner.release());
        chart_storage::fill(provisioner, &mut release);
        all.push(release);
    }
    all.extend(cluster.addons.iter().map(|addon| of_addon(cluster, addon)));
    all
}

fn of_feature(feature: &str, namespace: &str) -> ChartRelease {
    ChartRelease {
        key: ArtifactKey::Chart(feature.to_owned()),
        name: feature.to_owned(),
        namespace: namespace.to_owned(),
        placeholders: Map::new(),
        defaults: of_catalogue(feature),
        values: Map::new(),
        values_file: None,
    }
}

fn of_addon(cluster: &Cluster, addon: &Addon) -> ChartRelease {
    let mut release = ChartRelease {
        key: key(addon),
        name: addon.name.clone(),
        namespace: addon.namespace.clone(),
        placeholders: Map::new(),
        defaults: Map::new(),
        values: addon.values.clone(),
        values_file: addon.values_file.clone(),
    };
    if let AddonSource::Catalogue { name, .. } = &addon.source {
        release.defaults = of_catalogue(name);
        chart_network::fill_addon(cluster, name, &mut release);
    }
    release
}

/// Values that an air gap requires of a chart of the catalogue; users may override them.
fn of_catalogue(feature: &str) -> Map<String, Value> {
    match feature {
        // It would count its installations over the internet.
        "openebs" => Map::from_iter([("analytics".to_owned(), json!({"enabled": false}))]),
        VIRTUAL_MACHINES => Map::from_iter([
            // Nodes without a registry have the image already.
            ("imagePullPolicy".to_owned(), json!("IfNotPresent")),
            // Of its classes the one that needs nothing else of a host: a snapshotter of its own would stay when the cluster goes.
            ("snapshotter".to_owned(), json!({"setup": []})),
            ("shims".to_owned(), json!({"disableAll": true, "qemu": {"enabled": true}})),
        ]),
        _ => Map::new(),
    }
}

fn key(addon: &Addon) -> ArtifactKey {
    match addon.kind {
        AddonKind::Helm => ArtifactKey::Chart(addon.name.clone()),
        AddonKind::Yaml => ArtifactKey::Yaml(addon.name.clone()),
    }
}

/// The charts and YAML that a user names with a source of their own. (Those of the catalogue come with their feature.)
pub(crate) fn of_users(cluster: &Cluster) -> Vec<Requirement> {
    let of = |field: &'static str| move |addon| of_user(addon, field);
    let addons = cluster.addons.iter().filter_map(of("spec.addons"));
    addons.chain(cluster.bundle.extra_charts.iter().filter_map(of("spec.bundle.extraCharts"))).collect()
}

fn of_user(addon: &Addon, field: &str) -> Option<Requirement> {
    let (version, trust, source) = match &addon.source {
        AddonSource::Catalogue { .. } => return None,
        AddonSource::Repository { url, chart, version } => {
            let (url, chart) = (url.clone(), chart.clone());
            let chart = ChartSource::Repository { url, chart, version: version.clone() };
            (version.clone(), Trust::UpstreamChecksum, Source::Chart { chart })
        }
        AddonSource::Oci { reference, version } => {
            let chart = ChartSource::Oci { reference: reference.clone(), version: version.clone() };
            (version.clone(), Trust::OciDigest, Source::Chart { chart })
        }
        AddonSource::Url { url, sha256 } => {
            let (url, sha256) = (url.clone(), Some(*sha256));
            let file_name = file_name(&key(addon));
            let file = Source::File { file_name, url, sha256, size: None, checksum_url: None };
            (String::new(), Trust::User, file)
        }
        AddonSource::Path { path } => {
            let path = path.clone();
            let source = match addon.kind {
                AddonKind::Helm => Source::Chart { chart: ChartSource::Path { path } },
                AddonKind::Yaml => Source::LocalYaml { path },
            };
            (String::new(), Trust::User, source)
        }
    };
    Some(Requirement {
        key: key(addon),
        platform: None,
        version,
        because: format!("{field} {}", addon.name),
        role: Some(NodeRole::ControlPlane),
        optional: false,
        stage: STAGE,
        trust,
        source,
    })
}

/// The name of the file in the bundle: that of the add-on, so that two releases of one chart do not meet.
pub fn file_name(key: &ArtifactKey) -> String {
    let extension = if matches!(key, ArtifactKey::Yaml(_)) { "yaml" } else { "tgz" };
    format!("{}.{extension}", key.name())
}

#[cfg(test)]
mod tests {
    use kubexm_spec::cluster::{Nfs, OpenEbs, Storage};

    use super::*;

    fn addon(name: &str, kind: AddonKind, source: AddonSource) -> Addon {
        let (namespace, values) = ("apps".to_owned(), Map::from_iter([("a".to_owned(), json!(1))]));
        Addon {
            name: name.to_owned(),
            kind,
            source,
            namespace,
            values,
            values_file: None,
            after: Vec::new(),
            secrets: Vec::new(),
        }
    }

    #[test]
    fn every_release_has_the_key_of_its_requirement() {
        let mut cluster = Cluster::named("x");
        let (url, chart, version) = ("https://charts.example".to_owned(), "web".to_owned(), "1.2.3".to_owned());
        let path = AddonSource::Path { path: "objects".into() };
        cluster.addons = vec![
            addon("front", AddonKind::Helm, AddonSource::Repository { url, chart, version }),
            addon("objects", AddonKind::Yaml, path),
            addon("metrics", AddonKind::Helm, AddonSource::Catalogue { name: "metrics-server".into(), version: None }),
        ];
        cluster.network.plugin = NetworkPlugin::Cilium;
        cluster.storage.open_ebs = Some(OpenEbs::default());
        let needed = crate::require(&cluster, &crate::Catalogue::embedded()).unwrap();
        let mut needed: Vec<String> = needed
            .items
            .iter()
            .filter(|item| matches!(item.key, ArtifactKey::Chart(_) | ArtifactKey::Yaml(_)))
            .map(|item| item.key.to_string())
            .collect();
        let mut releases: Vec<String> = releases(&cluster).iter().map(|release| release.key.to_string()).collect();
        needed.sort();
        releases.sort();
        assert_eq!(releases, needed);
    }

    #[test]
    fn a_bundle_is_the_same_for_every_server_and_folder_and_the_site_gets_its_own() {
        let (server, path) = ("10.0.0.9".to_owned(), "/export".to_owned());
        let nfs = Nfs { server, path, mount_options: vec!["hard".into()], default_class: true };
        let open_ebs = OpenEbs { base_path: "/data/volumes".to_owned(), default_class: false };
        let mut cluster = Cluster::named("x");
        cluster.storage = Storage { open_ebs: Some(open_ebs), nfs: Some(nfs) };
        let mut other = cluster.clone();
        other.storage.open_ebs = Some(OpenEbs::default());
        other.storage.nfs.iter_mut().for_each(|nfs| nfs.server = "nfs.example".to_owned());
        let rendered = |cluster: &Cluster| -> Vec<Value> {
            releases(cluster).iter().map(|release| Value::Object(release.rendered(Map::new()))).collect()
        };
        assert_eq!(rendered(&cluster), rendered(&other));
        let all = releases(&cluster);
        let installed = |release: &ChartRelease| {
            let site = chart_storage::site_values(&cluster, release).unwrap();
            Value::Object(release.installed(&site, Map::new()))
        };
        let tolerations =
            json!([{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}]);
        assert_eq!(
            installed(&all[0]),
            json!({
                "hostpathClass": {"name": "openebs-hostpath", "basePath": "/data/volumes", "isDefaultClass": false},
                "localpv": {"basePath": "/data/volumes", "tolerations": tolerations},
                "analytics": {"enabled": false},
            })
        );
        assert_eq!(
            installed(&all[1]),
            json!({
                "nfs": {"server": "10.0.0.9", "path": "/export", "mountOptions": ["hard"]},
                "storageClass": {"name": "nfs-client", "defaultClass": true},
                "tolerations": tolerations,
            })
        );
    }
}
