//! `kubexm-bundle catalogue`.

mod check;
mod refresh;
mod show;

use super::verbs::verbs;

/// Look at the catalogue: versions, digests and origins of everything
///
/// An overlay (--catalogue of other verbs) adds to it: versions, digests, addresses, and Kubernetes minors that came after
/// this program, made like one that is known:
///
///   schema: kubexm.io/catalogue/v2
///   name: mine
///   components:
///     containerd: {default: 2.2.9, versions: {2.2.9: {amd64: {sha256: 1f0e...}}}}
///     # no digest: the one that upstream publishes beside the file
///     kubelet: {versions: {1.37.0: {}}}
///   images: {"registry.k8s.io/pause:3.11": "sha256:a1b2..."}
///   releases:
///     "1.37":
///       like: "1.36"
///       constants: {pause: "3.11", coredns: v1.15.0, etcd: 3.6.9-0}
///
/// Examples:
///   kubexm-bundle catalogue check
///   kubexm-bundle catalogue show
///   kubexm-bundle catalogue refresh -o newer.yaml
///   kubexm-bundle catalogue check mine.yaml   # with an overlay of your own laid over it
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

verbs! { Check(check), Refresh(refresh), Show(show) document }
