//! Secrets that are stored on hosts, read from the sources in cluster.yaml and kept for the duration of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use kubexm_engine::link::LinkError;
use kubexm_engine::requests::Requests;
use kubexm_engine::slots::SlotSource;
use kubexm_engine::{ClusterPki, EngineError, OperatorIdentity};
use kubexm_plan::{Plan, SlotName, SlotProvider};
use kubexm_spec::Cluster;
use kubexm_spec::cluster::SecretFrom;
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::{kubeconfig, login};
use crate::error::SessionError;
use crate::fleet::Fleet;
use crate::session::Session;

/// Values that the controller provides to a run: its certificates, and the operator's secrets.
pub(crate) struct ControllerSlots<'a> {
    pub session: &'a Session<'a>,
    pub cluster: &'a Cluster,
    pub fleet: &'a Fleet,
    pub pki: ClusterPki,
    /// By field; each is read once for the whole run, so that all hosts get the same value even if the file is edited
    /// meanwhile.
    pub read: Mutex<BTreeMap<String, Zeroizing<String>>>,
    /// What opens the archive of a backup, if one is restored.
    pub backup_key: Option<Zeroizing<Vec<u8>>>,
    /// Files of that archive, by their path on the host.
    pub backup_files: BTreeMap<String, Zeroizing<Vec<u8>>>,
    /// In whose name the cluster's authorities are sealed, if that was read for this run.
    pub operator: Option<Arc<OperatorIdentity>>,
    /// Whether a control plane sent a kubeconfig that was rejected.
    pub refused: AtomicBool,
}

#[async_trait]
impl SlotSource for ControllerSlots<'_> {
    async fn value(&self, name: &SlotName, provider: &SlotProvider, plan: &Plan) -> Result<Vec<u8>, EngineError> {
        let (field, login) = match provider {
            SlotProvider::Secret { field } => (field, None),
            SlotProvider::RegistryLogin { field, username, form } => (field, Some((*form, username))),
            SlotProvider::AdminKubeconfig { host } => {
                let kubeconfig = kubeconfig::of_host(self.fleet, self.cluster, host).await.inspect_err(|error| {
                    if matches!(error, LinkError::Untrusted { .. }) {
                        self.refused.store(true, Ordering::Relaxed);
                    }
                })?;
                let missing = || EngineError::Slot {
                    slot: name.0.clone(),
                    reason: format!("{host}, which has it, is not reached; run again once it is"),
                };
                return Ok(kubeconfig.ok_or_else(missing)?.as_bytes().to_vec());
            }
            SlotProvider::RequestKey { name: of, public, form } => {
                let key =
                    Requests::view(&self.session.home.cluster(&self.cluster.name).requests()).key(*public, *form)?;
                let missing = || EngineError::Slot { slot: name.0.clone(), reason: no_key(of) };
                return Ok(key.ok_or_else(missing)?.to_vec());
            }
            SlotProvider::BackupKey => {
                let missing = || EngineError::Slot {
                    slot: name.0.clone(),
                    reason: "no backup was given; this is a fault of the program".to_owned(),
                };
                return Ok(self.backup_key.as_ref().ok_or_else(missing)?.to_vec());
            }
            SlotProvider::BackupFile { path } => {
                let missing = || EngineError::Slot {
                    slot: name.0.clone(),
                    reason: format!("the backup has no {path}; this is a fault of the program"),
                };
                return Ok(self.backup_files.get(path).ok_or_else(missing)?.to_vec());
            }
            SlotProvider::SealedAuthorities { recipients, .. } => {
                return self.pki.sealed(name, plan, recipients, &|| self.operator());
            }
            provider => return self.pki.value(name, provider, plan).await,
        };
        let failed = |reason| EngineError::Slot { slot: name.0.clone(), reason };
        let secret = self.secret(field).await.map_err(failed)?;
        match login {
            None => Ok(secret.as_bytes().to_vec()),
            Some((form, username)) => {
                let made = login::in_form(form, username, &secret, plan).map_err(failed)?;
                Ok(made.as_bytes().to_vec())
            }
        }
    }
}

impl ControllerSlots<'_> {
    /// Only what is sealed anew asks for it. A resumed run that cannot read it, since nobody is there to type its passphrase, goes on
    /// without: the document then does not say who made it.
    fn operator(&self) -> Option<Arc<OperatorIdentity>> {
        let read = || self.session.home.operator(self.session.credentials).ok().map(Arc::new);
        self.operator.clone().or_else(read)
    }

    async fn secret(&self, field: &str) -> Result<Zeroizing<String>, String> {
        let mut read = self.read.lock().await;
        if let Some(value) = read.get(field) {
            return Ok(value.clone());
        }
        let value = read_secret(self.session, self.cluster, field)?;
        read.insert(field.to_owned(), value.clone());
        Ok(value)
    }
}

/// Fails if a secret of the run cannot be read, before anything is asked or changed.
pub(super) fn check(session: &Session<'_>, cluster: &Cluster, plan: &Plan) -> Result<(), SessionError> {
    let wanted: BTreeSet<&String> = plan.slots.values().filter_map(SlotProvider::secret_field).collect();
    let mut wrong: Vec<String> =
        wanted.into_iter().filter_map(|field| read_secret(session, cluster, field).err()).collect();
    let made = Requests::view(&session.home.cluster(&cluster.name).requests());
    for provider in plan.slots.values() {
        if let SlotProvider::RequestKey { name, public, .. } = provider
            && !made.has_key(*public)?
        {
            wrong.push(no_key(name));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(SessionError::Secrets(wrong)) }
}

fn no_key(of: &str) -> String {
    format!(
        "the key of {of} is not in this home: it was requested from another one; run this there, or run `kubexm-install certs requests` here and \
         have its request signed"
    )
}

/// The error does not contain the secret.
pub(crate) fn read_secret(session: &Session<'_>, cluster: &Cluster, field: &str) -> Result<Zeroizing<String>, String> {
    let all = cluster.secrets();
    let secret = all.iter().find(|secret| secret.field == field);
    let secret = secret
        .ok_or_else(|| format!("{field}: cluster.yaml has no value there; the plan was made from another one"))?;
    let wrong = |reason: String| format!("{field}: {reason}");
    let text = match &secret.source {
        SecretFrom::Source(source) => session.credentials.secret(source, session.home),
        SecretFrom::Docker(login) => session.credentials.docker_password(login, session.home),
    };
    let text = text.map_err(wrong)?;
    match secret.usage.check(&text) {
        Ok(()) => Ok(text),
        Err(problem) => Err(format!("{field}: its value cannot be used: {problem}")),
    }
}
