//! Values of the charts that make volumes. What `spec.storage` says is the site's own: it changes no image, so that a bundle installs for
//! another server or another folder, too.

use kubexm_spec::cluster::{Cluster, Nfs, OpenEbs, Provisioner, Storage};
use serde_json::{Map, Value, json};

use crate::chart_release::ChartRelease;

/// The server that stands for the site's: one of TEST-NET-1 (RFC 5737).
const SERVER: &str = "192.0.2.1";
/// kubeadm's taint of control planes.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// Gives the release of a provisioner its values.
pub(crate) fn fill(provisioner: Provisioner, release: &mut ChartRelease) {
    let stand_in = Storage {
        open_ebs: Some(OpenEbs::default()),
        nfs: Some(Nfs {
            server: SERVER.to_owned(),
            path: "/".to_owned(),
            mount_options: Vec::new(),
            default_class: false,
        }),
    };
    release.placeholders = values(provisioner, &stand_in);
    release.values = of_cluster(provisioner);
}

/// The values of the site, if the release is one of `spec.storage`.
pub fn site_values(cluster: &Cluster, release: &ChartRelease) -> Option<Map<String, Value>> {
    let provisioner = of_release(cluster, &release.name)?;
    Some(values(provisioner, &cluster.storage))
}

/// The provisioner of `spec.storage` whose release has this name. No add-on has its name then.
pub fn of_release(cluster: &Cluster, release: &str) -> Option<Provisioner> {
    cluster.storage.provisioners().find(|provisioner| provisioner.release() == release)
}

/// What every cluster has of it: a class of a known name, and a program that starts where there are only control planes, too.
fn of_cluster(provisioner: Provisioner) -> Map<String, Value> {
    let class = json!({"name": provisioner.class()});
    let tolerations = json!([{"key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"}]);
    map(match provisioner {
        Provisioner::OpenEbs => json!({"hostpathClass": class, "localpv": {"tolerations": tolerations}}),
        Provisioner::Nfs => json!({"storageClass": class, "tolerations": tolerations}),
    })
}

fn values(provisioner: Provisioner, storage: &Storage) -> Map<String, Value> {
    let values = match provisioner {
        Provisioner::OpenEbs => storage.open_ebs.as_ref().map(|it| {
            let class = json!({"basePath": it.base_path, "isDefaultClass": it.default_class});
            // The folder of classes that name none.
            json!({"hostpathClass": class, "localpv": {"basePath": it.base_path}})
        }),
        Provisioner::Nfs => storage.nfs.as_ref().map(|it| {
            let export = json!({"server": it.server, "path": it.path, "mountOptions": it.mount_options});
            json!({"nfs": export, "storageClass": {"defaultClass": it.default_class}})
        }),
    };
    map(values.unwrap_or_default())
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
