//! Secrets that a cluster is made with: cluster.yaml names the source of each, and no bundle and no plan holds one.

use super::{Cluster, SecretSource};
use crate::yaml;

/// The field of the webhook's kubeconfig.
pub const AUDIT_WEBHOOK: &str = "spec.kubernetes.audit.webhook.kubeconfigFrom";

/// What a secret is for, and so what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretUse {
    /// A kubeconfig by which kube-apiserver sends audit events.
    AuditWebhook,
}

/// A secret and the field that names its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretOf<'a> {
    /// `spec.kubernetes.audit.webhook.kubeconfigFrom`: by this name a plan asks for it.
    pub field: &'static str,
    /// What it is for.
    pub usage: SecretUse,
    /// Its source.
    pub source: &'a SecretSource,
}

impl Cluster {
    /// Every secret that hosts are given; those for connecting to hosts are the hosts' own.
    pub fn secrets(&self) -> Vec<SecretOf<'_>> {
        let webhook = self.kubernetes.as_ref().and_then(|kubernetes| kubernetes.audit.as_ref()?.webhook.as_ref());
        let source = webhook.map(|webhook| &webhook.kubeconfig);
        source
            .map(|source| SecretOf { field: AUDIT_WEBHOOK, usage: SecretUse::AuditWebhook, source })
            .into_iter()
            .collect()
    }
}

impl SecretUse {
    /// What it is, for people: `kubeconfig of the audit webhook`.
    pub const fn title(self) -> &'static str {
        match self {
            Self::AuditWebhook => "kubeconfig of the audit webhook",
        }
    }

    /// Whether a text can be used for this.
    ///
    /// # Errors
    /// A sentence for people that shows nothing of the text.
    pub fn check(self, text: &str) -> Result<(), &'static str> {
        match self {
            Self::AuditWebhook => kubeconfig(text),
        }
    }
}

/// Fields of a kubeconfig that name other files or programs, which are not there in a pod.
const ELSEWHERE: [&str; 6] =
    ["certificate-authority", "client-certificate", "client-key", "tokenFile", "exec", "auth-provider"];

/// A kubeconfig that holds all that it needs.
fn kubeconfig(text: &str) -> Result<(), &'static str> {
    // Problems of the parser quote the text.
    let tree = yaml::parse(text).map_err(|_| "it is not YAML that can be read")?;
    let sink = yaml::Sink::default();
    let document = yaml::At::root(&tree, &sink).json();
    let text =
        |value: &serde_json::Value, key: &str| value.get(key).and_then(|value| value.as_str()).map(str::to_owned);
    if text(&document, "kind").as_deref() != Some("Config") || text(&document, "apiVersion").as_deref() != Some("v1") {
        return Err("it is not a kubeconfig (apiVersion v1, kind Config)");
    }
    let list = |key: &str| document.get(key).and_then(|value| value.as_array()).cloned().unwrap_or_default();
    let (clusters, users, contexts) = (list("clusters"), list("users"), list("contexts"));
    let current = text(&document, "current-context");
    let Some(context) = contexts.iter().find(|context| text(context, "name") == current && current.is_some()) else {
        return Err("its current-context is none of its contexts");
    };
    let named = |list: &[serde_json::Value], key: &str| {
        let wanted = context.pointer(&format!("/context/{key}")).and_then(|name| name.as_str()).map(str::to_owned);
        list.iter().find(|one| text(one, "name") == wanted && wanted.is_some()).cloned()
    };
    let Some(cluster) = named(&clusters, "cluster") else {
        return Err("its current context names none of its clusters");
    };
    if !cluster
        .pointer("/cluster/server")
        .and_then(|server| server.as_str())
        .is_some_and(|server| server.contains("://"))
    {
        return Err("its cluster has no server with an address");
    }
    let user = named(&users, "user");
    let parts = [cluster.get("cluster").cloned(), user.and_then(|user| user.get("user").cloned())];
    let elsewhere = |part: &serde_json::Value| ELSEWHERE.iter().any(|key| part.get(key).is_some());
    if parts.iter().flatten().any(elsewhere) {
        return Err(
            "it names files or programs of the machine where it was made; give certificates and keys inside it (`kubectl config view --flatten --raw`)",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- {name: a, context: {cluster: c, user: u}}\n\
                        clusters:\n- {name: c, cluster: {server: https://audit.test/log}}\nusers:\n- {name: u, user: {token: hunter2}}\n";

    #[test]
    fn a_kubeconfig_holds_all_that_it_needs_and_a_refusal_shows_nothing_of_it() {
        assert_eq!(SecretUse::AuditWebhook.check(GOOD), Ok(()));
        for (from, to, said) in [
            ("kind: Config", "kind: Pod", "not a kubeconfig"),
            ("current-context: a", "current-context: b", "current-context"),
            ("{cluster: c, user: u}", "{cluster: d, user: u}", "none of its clusters"),
            ("https://audit.test/log", "audit.test", "no server"),
            ("{token: hunter2}", "{tokenFile: /run/token}", "names files"),
            ("{token: hunter2}", "{exec: {command: hunter2}}", "names files"),
            ("{token: hunter2}", "{token: hunter2", "not YAML"),
        ] {
            let error = SecretUse::AuditWebhook.check(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.contains(said) && !error.contains("hunter2"), "{to}: {error}");
        }
    }
}
