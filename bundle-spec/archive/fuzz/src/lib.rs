//! Every parser of bytes that somebody else wrote, as a function of any bytes that must end, without a panic and without
//! memory that the bytes do not pay for.
//!
//! `tests/short.rs` drives them with a small mutator over `corpus/` in every run of the tests; `libfuzzer/` drives the same
//! functions with coverage (`scripts/fuzz`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a target dies of what it finds")]

#[path = "../../tests/support/mod.rs"]
mod support;

mod bundles;
mod debs;
mod documents;
mod image_signatures;
mod imports;
mod keys;
mod memory;
mod openpgp;
mod registries;
mod releases;
mod rpms;

use kubexm_archive::fuzzing;
use kubexm_engine::fuzzing as hosts;

/// A parser.
pub struct Target {
    /// Name of its folder in `corpus/`.
    pub name: &'static str,
    /// Feeds it.
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// All of them.
pub const TARGETS: &[Target] = &[
    target("open", bundles::open),
    target("stream", bundles::stream),
    target("tail", bundles::tail),
    target("tar", bundles::tar),
    target("volumes", bundles::volumes),
    target("manifest", bundles::manifest),
    target("references", bundles::references),
    target("seek_table", fuzzing::seek_table),
    target("trailer", fuzzing::trailer),
    target("volume_header", fuzzing::volume_header),
    target("tar_header", fuzzing::tar_header),
    target("frame", fuzzing::frame),
    target("sums", documents::sums),
    target("signatures", keys::signatures),
    target("public_key", keys::public_key),
    target("image_signature", image_signatures::signature),
    target("sources", documents::sources),
    target("statement", documents::statement),
    target("inventory", documents::inventory),
    target("artifact", documents::artifact),
    target("referrers", documents::referrers),
    target("cluster", documents::cluster),
    target("chart", documents::chart),
    target("chart_index", documents::chart_index),
    target("rendering", documents::rendering),
    target("helm_release", releases::stored),
    target("lock", documents::lock),
    target("import_cluster", imports::cluster),
    target("import_manifest", imports::manifest),
    target("import_pods", imports::pods),
    target("openpgp_keys", openpgp::keys),
    target("openpgp_signed", openpgp::signed),
    target("openpgp_detached", openpgp::signature),
    target("rpm_documents", rpms::documents),
    target("rpm_primary", rpms::primary),
    target("rpm_modules", rpms::modules),
    target("rpm_header", rpms::header),
    target("rpm_dependency", rpms::dependency),
    target("deb_release", debs::release),
    target("deb_index", debs::index),
    target("deb_relation", debs::relation),
    target("deb_archive", debs::archive),
    target("registry", kubexm_transport::oci::fuzzing::registry),
    target("harbor", registries::harbor),
    target("agent_wire", hosts::wire),
    target("agent_answer", hosts::answer),
    target("known_hosts", hosts::known_hosts),
    target("kubeconfig", hosts::kubeconfig),
    target("sealed_authorities", hosts::sealed),
    target("backup_header", hosts::backup_header),
    target("vrrp", hosts::vrrp),
    target("certificate", hosts::certificate),
    target("s3_answer", kubexm_s3::fuzzing::answer),
];

/// Feeds the target of that name.
pub fn run(name: &str, bytes: &[u8]) {
    (TARGETS.iter().find(|target| target.name == name).unwrap().run)(bytes);
}

/// Inputs of megabytes that are refused, or take little memory: fed once, since mutations of them would take all the time.
pub fn large(name: &str) -> Vec<Vec<u8>> {
    match name {
        "openpgp_signed" => vec![openpgp::empty_lines()],
        _ => Vec::new(),
    }
}

/// Honest inputs for the targets whose inputs are whole files; the others begin with what is in `corpus/`.
pub fn seeds(name: &str) -> Vec<Vec<u8>> {
    let samples: &[&str] = match name {
        "import_cluster" => imports::CLUSTERS,
        "import_manifest" => imports::MANIFESTS,
        "kubeconfig" => &[include_str!("../../../../installer/engine/tests/it/data/admin.conf")],
        "harbor" => return registries::seeds(),
        _ => return bundles::seeds(name),
    };
    samples.iter().map(|text| text.as_bytes().to_vec()).collect()
}
