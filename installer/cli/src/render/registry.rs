//! The bundles of a cluster's registry. Pure.

use kubexm_session::{RegistryBundle, RegistryView, escaped};
use kubexm_spec::cluster::Keyword as _;
use kubexm_spec::{ExitCode, amount};
use serde_json::{Value, json};

use super::table::table;

const SCHEMA: &str = "kubexm.io/registry/v1";

/// For machines. `exit_code`: of the program.
pub fn document(view: &RegistryView, exit_code: ExitCode) -> Value {
    let bundle = |one: &RegistryBundle| {
        let RegistryBundle { name, present, size, own, images, hosts, .. } = one;
        json!({"name": name, "present": present, "size": size, "alone": own, "images": images, "hosts": hosts})
    };
    json!({
        "schema": SCHEMA, "cluster": view.cluster, "type": view.kind.word(),
        "bundles": view.bundles.iter().map(bundle).collect::<Vec<_>>(), "stored": view.stored, "gaps": view.gaps,
        "exitCode": exit_code.code(),
    })
}

/// For people.
pub fn text(view: &RegistryView) -> String {
    let heads = ["BUNDLE", "PRESENT", "IMAGES", "SIZE", "ALONE", "HOSTS"].map(str::to_owned);
    let row = |one: &RegistryBundle| {
        let RegistryBundle { name, present, size, own, images, hosts, .. } = one;
        let present = if *present { "yes" } else { "no" };
        [escaped(name), present.to_owned(), images.to_string(), amount(*size), amount(*own), hosts.join(", ")]
    };
    let mut lines = match view.bundles.is_empty() {
        true => vec![format!("no host of cluster {} has the record of a bundle", view.cluster)],
        false => table(std::iter::once(heads).chain(view.bundles.iter().map(row))),
    };
    let stored = view.stored.iter().map(|(host, bytes)| format!("{host}: {} of blobs in its store", amount(*bytes)));
    lines.extend(stored);
    lines.extend(view.gaps.iter().map(|gap| format!("not read: {}", escaped(gap))));
    lines.join("\n")
}
