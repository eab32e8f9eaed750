//! What the site's CA has signed, where its key stays with the site: certificates, keys and kubeconfigs lie where kubeadm looks for them
//! before it runs (its "external CA mode"). It makes none of them then, starts no signer in the controller manager, and joins a node with
//! the kubelet.conf that is there.
//!
//! kubeadm refuses to upload what control planes share without the CA's key (`upload-certs`), so those that join get it from the first one.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::kubeadm_certificates::{CLUSTER_CA, PKI, SERVICE_ACCOUNT_PUBLIC, SERVICE_ACCOUNT_SECRET, SHARED};
use kubexm_plan::op::{Dir, File, StateDir};
use kubexm_plan::{CertificateRequest, KeyForm, Op, Requested, SlotName, SlotProvider, Step, Undo};
use kubexm_spec::Digest;
use kubexm_spec::cluster::{API_PORT, Cluster, EtcdKind};

use super::cluster_ca;
use crate::context::{PlanContext, PlannedHost};
use crate::draft::Draft;
use crate::error::RecipeError;
use crate::requests;
use crate::signed::SignedCertificate;

const KUBERNETES: &str = "/etc/kubernetes";
const ETCD_PKI: &str = "/etc/kubernetes/pki/etcd";
/// kubeadm's preflight check that no kubelet.conf is there before a join.
pub const IGNORED_BY_JOIN: &str = "FileAvailable--etc-kubernetes-kubelet.conf";
/// The slot and the name of the key that signs tokens of service accounts.
const SERVICE_ACCOUNT: &str = "service-account";

/// A file on a host, and what is in it.
pub struct HostFile {
    /// Absolute.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// What is in it.
    pub content: HostContent,
}

/// What is in such a file.
pub enum HostContent {
    /// A text.
    Text(String),
    /// The value of a slot.
    Slot(SlotName, SlotProvider),
    /// A text with the slot's placeholder.
    Filled(SlotName, SlotProvider, String),
}

/// On the first control plane, before `kubeadm init`; none where it runs already: nothing may be exchanged there in passing.
///
/// # Errors
/// A certificate is missing.
pub fn of_first(draft: &mut Draft<'_>, node: &PlannedHost<'_>) -> Result<Option<Step>, RecipeError> {
    let Some(ca) = given(draft.cx, node)? else { return Ok(None) };
    let signed = draft.cx.signed.and_then(|signed| signed.service_account.as_ref());
    let (public, digest) = signed.cloned().ok_or_else(|| not_signed(vec![SERVICE_ACCOUNT.to_owned()]))?;
    let step = Step::on(node.name(), "control-plane.certificates", "Give kubeadm what your site's CA has signed")
        .ensure_all(folders(true))
        .ensure(draft.file(CLUSTER_CA, 0o644, ca.clone()))
        .ensure(draft.file(SERVICE_ACCOUNT_PUBLIC, 0o600, public))
        .ensure(draft.slot_file(
            SERVICE_ACCOUNT_SECRET,
            0o600,
            SERVICE_ACCOUNT,
            key(SERVICE_ACCOUNT, digest, KeyForm::Pem),
        ));
    let files = of_node(draft.cx, node, &ca)?.into_iter().map(|file| in_draft(draft, file));
    Ok(Some(step.ensure_all(files.collect::<Vec<_>>()).undo(Undo::RestoreBefore).build()))
}

/// On a node, before `kubeadm join`; a control plane gets from the first one what all have alike.
///
/// # Errors
/// A certificate is missing.
pub fn of_joining(
    draft: &mut Draft<'_>,
    first: &PlannedHost<'_>,
    node: &PlannedHost<'_>,
) -> Result<Option<Step>, RecipeError> {
    let Some(ca) = given(draft.cx, node)? else { return Ok(None) };
    let plane = node.roles.control_plane;
    let title = "Give kubeadm what your site's CA has signed";
    let mut step = Step::on(node.name(), "join.certificates", title).ensure_all(folders(plane));
    if plane {
        step = step.ensure(draft.file(CLUSTER_CA, 0o644, ca.clone()));
        let stacked = draft.cx.cluster.etcd.kind == EtcdKind::Kubeadm;
        for path in SHARED.into_iter().filter(|path| stacked || !path.contains("/etcd/")) {
            let mode = if path.ends_with(".crt") { 0o644 } else { 0o600 };
            let slot =
                format!("shared-{}", path.trim_start_matches(PKI).trim_start_matches('/').replace(['/', '.'], "-"));
            let provider = SlotProvider::SharedFile { host: first.name().to_owned(), path: path.to_owned() };
            step = step.ensure(draft.slot_file(path, mode, &slot, provider));
        }
    }
    let files = of_node(draft.cx, node, &ca)?.into_iter().map(|file| in_draft(draft, file));
    Ok(Some(step.ensure_all(files.collect::<Vec<_>>()).undo(Undo::RestoreBefore).build()))
}

/// The CA's certificate, where this node gets what it has signed.
fn given(cx: &PlanContext<'_>, node: &PlannedHost<'_>) -> Result<Option<String>, RecipeError> {
    match cx.cluster.external_ca().filter(|_| !node.facts.joined) {
        Some(ca) => cluster_ca::certificate(cx, ca).map(Some),
        None => Ok(None),
    }
}

/// kubeadm's own folders, as after any other init or join: a reset removes the whole of them.
fn folders(plane: bool) -> Vec<Op> {
    let below = if plane { &[KUBERNETES, PKI, ETCD_PKI][..] } else { &[KUBERNETES] };
    let dirs = below.iter().map(|path| Dir { path: (*path).to_owned(), mode: 0o755 });
    std::iter::once(StateDir::at(KUBERNETES).into()).chain(dirs.map(Op::from)).collect()
}

/// The files of all certificates of a node.
fn of_node(cx: &PlanContext<'_>, node: &PlannedHost<'_>, ca: &str) -> Result<Vec<HostFile>, RecipeError> {
    let (mut files, mut missing) = (Vec::new(), Vec::new());
    for request in requests::of_host(cx.cluster, node.host)? {
        match cx.signed.and_then(|signed| signed.certificates.get(&request.name)) {
            Some(signed) => files.extend(files_of(cx.cluster, &request, signed, ca)?),
            None => missing.push(request.name),
        }
    }
    if missing.is_empty() { Ok(files) } else { Err(not_signed(missing)) }
}

/// The files of a certificate: with its key beside it, or both in a kubeconfig.
///
/// # Errors
/// The host has no address.
pub fn files_of(
    cluster: &Cluster,
    request: &CertificateRequest,
    signed: &SignedCertificate,
    ca: &str,
) -> Result<Vec<HostFile>, RecipeError> {
    let (path, slot) = (request.of.path().to_owned(), SlotName(format!("key-{}", request.name)));
    let key = |form| key(&request.name, signed.public, form);
    if let Some(beside) = request.of.key() {
        return Ok(vec![
            HostFile { path, mode: 0o644, content: HostContent::Text(signed.pem.clone()) },
            HostFile { path: beside, mode: 0o600, content: HostContent::Slot(slot, key(KeyForm::Pem)) },
        ]);
    }
    let text = kubeconfig(cluster, request, signed, (&slot, ca))?;
    Ok(vec![HostFile { path, mode: 0o600, content: HostContent::Filled(slot, key(KeyForm::Base64), text) }])
}

fn key(name: &str, public: Digest, form: KeyForm) -> SlotProvider {
    SlotProvider::RequestKey { name: name.to_owned(), public, form }
}

fn in_draft(draft: &mut Draft<'_>, file: HostFile) -> File {
    let HostFile { path, mode, content } = file;
    match content {
        HostContent::Text(text) => draft.file(path, mode, text),
        HostContent::Slot(slot, provider) => draft.slot_file(&path, mode, &slot.0, provider),
        HostContent::Filled(slot, provider, text) => draft.filled_file(&path, mode, &slot.0, provider, |_| text),
    }
}

/// As kubeadm writes it: components of a control plane use the API server of their own host, and so does its kubelet (kubeadm's
/// `ControlPlaneKubeletLocalMode`, on since 1.33).
fn kubeconfig(
    cluster: &Cluster,
    request: &CertificateRequest,
    signed: &SignedCertificate,
    (slot, ca): (&SlotName, &str),
) -> Result<String, RecipeError> {
    let kubernetes = cluster.kubernetes.as_ref().ok_or(RecipeError::NoCluster)?;
    let (name, user) = (&kubernetes.cluster_name, &request.common_name);
    let everywhere = matches!(request.of, Requested::Admin | Requested::SuperAdmin);
    let server = match everywhere || !cluster.roles(&request.host).control_plane {
        true => format!("https://{}:{}", cluster.control_plane_name(), cluster.control_plane_port()),
        false => {
            let host = cluster.host(&request.host);
            let missing = || RecipeError::NoAddress {
                host: request.host.clone(),
                address: host.map(|host| host.address.clone()).unwrap_or_default(),
            };
            let ip = host.and_then(kubexm_spec::cluster::Host::node_ip).ok_or_else(missing)?;
            format!("https://{}", SocketAddr::from((ip, API_PORT)))
        }
    };
    Ok(format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {}\n    server: {server}\n  name: {name}\ncontexts:\n- \
         context:\n    cluster: {name}\n    user: {user}\n  name: {user}@{name}\ncurrent-context: {user}@{name}\nkind: Config\nusers:\n- \
         name: {user}\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
        BASE64.encode(ca),
        BASE64.encode(&signed.pem),
        slot.placeholder(),
    ))
}

/// Preflight has named what is missing, with what is wrong of each.
fn not_signed(missing: Vec<String>) -> RecipeError {
    RecipeError::NotSigned { missing }
}
