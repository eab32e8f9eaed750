//! Certificates that the site's CA has signed, where its key stays with the site: newer ones take the place of what hosts have.

use kubexm_plan::cluster_facts::Certificate;
use kubexm_plan::kubeadm_certificates::{AUTHORITIES, authority};
use kubexm_plan::op::{Content, File, Unit};
use kubexm_plan::request::KUBELET_CONF;
use kubexm_plan::{CertificateRequest, Step, Texts, Undo};
use kubexm_spec::Digest;

use super::context::RenewContext;
use crate::modules::issued::Slots;
use crate::modules::site_certificates::{HostContent, HostFile, files_of};
use crate::requests;
use crate::signed::SignedCertificate;

const NO_NEWER: &str = "and your site's CA has signed no newer one";

/// What mends such problems; none where there is none of them.
pub(super) fn mend(problems: &[String]) -> Option<String> {
    let text = "run `kubexm-install certs requests -f cluster.yaml` (with --force for what does not end soon), have the requests signed, and \
                run this again";
    problems.iter().any(|one| one.contains(NO_NEWER)).then(|| text.to_owned())
}

/// Whether kubeadm cannot renew it, since the site's CA has signed it.
pub(super) fn signs(cx: &RenewContext<'_>, path: &str) -> bool {
    cx.cluster.external_ca().is_some() && authority(path) == AUTHORITIES[0]
}

/// The files of a host that are replaced.
///
/// # Errors
/// What is due and has no newer certificate, each by name.
pub(super) fn due(cx: &RenewContext<'_>, host: &str) -> Result<Vec<HostFile>, Vec<String>> {
    let (Some(_), Some(found)) = (cx.cluster.external_ca(), cx.cluster.host(host)) else { return Ok(Vec::new()) };
    let wanted = requests::of_host(cx.cluster, found).map_err(|error| vec![error.to_string()])?;
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for request in wanted {
        let on_host = cx.running.certificates.iter().find(|one| one.host == host && one.path == request.of.path());
        // Only the first of all control planes has one file: kubeadm's super-admin.conf.
        let Some(on_host) = on_host else { continue };
        let signed = cx.signed.and_then(|signed| signed.certificates.get(&request.name));
        match signed.filter(|signed| is_newer(signed, on_host)) {
            Some(signed) => match cx.signed.and_then(|signed| signed.ca.as_deref()) {
                Some(ca) => match files_of(cx.cluster, &request, signed, ca) {
                    Ok(more) => files.extend(more),
                    Err(error) => problems.push(error.to_string()),
                },
                None => problems.push("the certificate of spec.kubernetes.ca.certFile cannot be read".to_owned()),
            },
            None if cx.is_due(on_host) => problems.push(without(cx, on_host, &request)),
            None => {}
        }
    }
    if problems.is_empty() { Ok(files) } else { Err(problems) }
}

/// Whether it was signed later than what the host has: it begins later. Its end says nothing: a site may sign until a fixed date, or for a
/// shorter period than before; only of two that begin at the same moment it decides, so that no two folders exchange theirs in turn.
fn is_newer(signed: &SignedCertificate, on_host: &Certificate) -> bool {
    match &on_host.leaf {
        Some(leaf) if signed.leaf.digest == leaf.digest => false,
        Some(leaf) => (signed.leaf.begins, signed.ends) > (leaf.begins, on_host.ends),
        // What a simulation knows of a host.
        None => {
            let other = on_host.path.ends_with(".crt") && on_host.file != Some(Digest::of(&signed.pem));
            signed.ends > on_host.ends || (other && signed.ends >= on_host.ends)
        }
    }
}

fn without(cx: &RenewContext<'_>, on_host: &Certificate, request: &CertificateRequest) -> String {
    let why = cx.signed.and_then(|signed| signed.faults.get(&request.name)).map(|faults| faults.join("; "));
    let why = why.unwrap_or_else(|| "the one in the folder is the same, or an earlier one".to_owned());
    format!("{}: {} is due, {NO_NEWER} ({}: {why})", on_host.host, on_host.path, request.name)
}

/// kubelet, which reads its kubeconfig when it starts.
pub(super) fn kubelet() -> Unit {
    Unit {
        name: "kubelet.service".to_owned(),
        enabled: true,
        running: Some(true),
        loaded: vec![KUBELET_CONF.to_owned()],
        reloaded: Vec::new(),
    }
}

/// The steps that replace them: what static pods read, and kubelet's credentials with its restart.
pub(super) fn steps(host: &str, files: Vec<HostFile>, slots: &mut Slots, texts: &mut Texts) -> Vec<Step> {
    let mut in_plan = |file: HostFile| {
        let HostFile { path, mode, content } = file;
        let mut text = |text: String| {
            let digest = Digest::of(&text);
            texts.insert(digest, text);
            digest
        };
        let content = match content {
            HostContent::Text(content) => Content::Text { digest: text(content) },
            HostContent::Slot(slot, provider) => {
                slots.insert(slot.clone(), provider);
                Content::Slot { slot }
            }
            HostContent::Filled(slot, provider, content) => {
                slots.insert(slot.clone(), provider);
                Content::Filled { digest: text(content), slots: vec![slot] }
            }
        };
        File { path, content, mode }
    };
    let (of_kubelet, others): (Vec<HostFile>, Vec<HostFile>) =
        files.into_iter().partition(|file| file.path == KUBELET_CONF);
    let mut steps = Vec::new();
    if !others.is_empty() {
        let title = "Take the certificates that your site's CA has signed";
        let others: Vec<File> = others.into_iter().map(&mut in_plan).collect();
        steps.push(Step::on(host, "certs.site", title).ensure_all(others).undo(Undo::RestoreBefore).build());
    }
    for file in of_kubelet {
        steps.push(
            Step::on(
                host,
                "certs.kubelet",
                "Give kubelet the certificate that your site's CA has signed, and restart it",
            )
            .ensure(in_plan(file))
            .ensure(kubelet())
            .timeout_s(300)
            .undo(Undo::RestoreBefore)
            .build(),
        );
    }
    steps
}
