//! `kubexm-bundle zone`.

mod check;
mod show;

use super::verbs::verbs;

/// Show the zone in use, and check it for holes before a long build
///
/// A zone says where to ask instead of the origins: mirrors of a country, or an inside mirror.
/// It is named by --zone, then KMZONE, then spec.bundle.zone; it is `global`, `cn`, or the path of
/// a zone file:
///
///   name: inside
///   rules:                                     # every rule that matches is tried, in this order
///   - match: github.com                        # an origin host, or host and path
///     to: [https://nexus.example/github.com]   # what takes its place, in order
///   - match: registry.k8s.io
///     to: [nexus.example:5000/k8s]
///     only: true                               # the origin itself is not asked
///     plainHttp: false
///     trustUnsigned: false                     # true: unsigned rpm metadata is taken from them over plain http
///     caFile: inside-ca.pem                    # relative to the zone file
///   - match: dl.rockylinux.org/pub/rocky/9     # a DVD that is mounted, or an unpacked ISO
///     to: [file:///mnt/iso]
///     only: true
///   - match: cdn.redhat.com                    # the origin itself, with a subscription's certificate
///     to: [https://cdn.redhat.com]
///     caFile: /etc/rhsm/ca/redhat-uep.pem
///     certFile: /etc/pki/entitlement/123.pem   # shown to this host only, for files and repositories
///     keyFile: /etc/pki/entitlement/123-key.pem
///
/// Packages are read from a medium as its vendor lays it out or as a mirror would be; what it does
/// not have is reported and left out. A lock has the public addresses, wherever the medium is mounted.
///
/// Examples:
///   kubexm-bundle zone show --zone cn
///   kubexm-bundle zone check -f cluster.yaml --zone inside.yaml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

verbs! { Check(check), Show(show) }
