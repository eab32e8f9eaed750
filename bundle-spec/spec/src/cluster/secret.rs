//! Secrets that a cluster is made with: cluster.yaml names the source of each, and no bundle and no plan holds one.

use std::borrow::Cow;

use super::{AddonSecret, Cluster, RegistryKind, RegistryLogin, SecretFrom, SecretSource};
use crate::yaml;

/// The field of the webhook's kubeconfig.
pub const AUDIT_WEBHOOK: &str = "spec.kubernetes.audit.webhook.kubeconfigFrom";
/// The field of the key of the site's CA for the cluster.
pub const CLUSTER_CA_KEY: &str = "spec.kubernetes.ca.keyFrom";
/// The field of the CA of the user's registry.
pub const EXTERNAL_CA: &str = "spec.registry.caFile";
/// The field of the password of Harbor's user admin.
pub const HARBOR_ADMIN: &str = "spec.registry.harborConfig.adminPasswordFrom";
/// The field of the password of Harbor's database.
pub const HARBOR_DATABASE: &str = "spec.registry.harborConfig.databasePasswordFrom";

/// The field of the key of the API server's certificate for an etcd of the user's.
pub const EXTERNAL_ETCD_KEY: &str = "spec.etcd.externalConfig.keyFrom";

/// What a secret is for, and so what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretUse {
    /// A kubeconfig by which kube-apiserver sends audit events.
    AuditWebhook,
    /// The key of the site's CA for the cluster.
    ClusterCaKey,
    /// The password of the cluster's own depot and registry.
    DepotLogin,
    /// The password of the user's registry.
    ExternalLogin,
    /// The key of the API server's certificate for the user's etcd.
    EtcdKey,
    /// The CA certificate of the user's registry. It is no secret, but a file that cluster.yaml alone would send to hosts.
    ExternalCa,
    /// The password of Harbor's user admin.
    HarborAdmin,
    /// The password of Harbor's database.
    HarborDatabase,
    /// A value of a Secret of an add-on.
    AddonSecret,
}

/// A secret and the field that names its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretOf<'a> {
    /// `spec.kubernetes.audit.webhook.kubeconfigFrom`: by this name a plan asks for it.
    pub field: String,
    /// What it is for.
    pub usage: SecretUse,
    /// Its source.
    pub source: SecretFrom<'a>,
}

impl Cluster {
    /// Every secret that hosts are given; those for connecting to hosts are the hosts' own.
    pub fn secrets<'a>(&'a self) -> Vec<SecretOf<'a>> {
        let of = |source: &'a SecretSource| SecretFrom::Source(Cow::Borrowed(source));
        let webhook = self.kubernetes.as_ref().and_then(|kubernetes| kubernetes.audit.as_ref()?.webhook.as_ref());
        let webhook = webhook.map(|webhook| SecretOf {
            field: AUDIT_WEBHOOK.to_owned(),
            usage: SecretUse::AuditWebhook,
            source: of(&webhook.kubeconfig),
        });
        let ca_key = self.kubernetes.as_ref().and_then(|kubernetes| kubernetes.ca.as_ref()?.key.as_ref());
        let ca_key = ca_key.map(|key| SecretOf {
            field: CLUSTER_CA_KEY.to_owned(),
            usage: SecretUse::ClusterCaKey,
            source: of(key),
        });
        let login = |login: Option<RegistryLogin<'a>>, usage| {
            login.map(|login| SecretOf { field: login.field(), usage, source: login.source() })
        };
        let depot = login(self.depot_login(), SecretUse::DepotLogin);
        let external = login(self.external_login(), SecretUse::ExternalLogin);
        let ca = self.external_registry().and_then(|registry| registry.ca_file).map(|path| SecretOf {
            field: EXTERNAL_CA.to_owned(),
            usage: SecretUse::ExternalCa,
            source: SecretFrom::Source(Cow::Owned(SecretSource::File(path.to_owned()))),
        });
        let etcd = self.etcd.external.as_ref().and_then(|external| external.key.as_ref()).map(|source| SecretOf {
            field: EXTERNAL_ETCD_KEY.to_owned(),
            usage: SecretUse::EtcdKey,
            source: of(source),
        });
        let harbor = self.registry.harbor.as_ref().filter(|_| self.registry.kind == RegistryKind::Harbor);
        let of_harbor = |field: &str, usage, source: Option<&'a SecretSource>| {
            source.map(|source| SecretOf { field: field.to_owned(), usage, source: of(source) })
        };
        let admin = harbor.and_then(|harbor| harbor.admin_password.as_ref());
        let admin = of_harbor(HARBOR_ADMIN, SecretUse::HarborAdmin, admin);
        let database = harbor.and_then(|harbor| harbor.database_password.as_ref());
        let database = of_harbor(HARBOR_DATABASE, SecretUse::HarborDatabase, database);
        let of_addons = self.addons.iter().flat_map(|addon| {
            let of_secret =
                |secret: &'a AddonSecret| secret.data.iter().map(move |(key, source)| (secret, key, source));
            addon.secrets.iter().flat_map(of_secret).map(|(secret, key, source)| SecretOf {
                field: secret.field(&addon.name, key),
                usage: SecretUse::AddonSecret,
                source: of(source),
            })
        });
        let others = [webhook, ca_key, etcd, depot, external, ca, admin, database];
        others.into_iter().flatten().chain(of_addons).collect()
    }
}

impl SecretUse {
    /// What it is, for people: `kubeconfig of the audit webhook`.
    pub const fn title(self) -> &'static str {
        match self {
            Self::AuditWebhook => "kubeconfig of the audit webhook",
            Self::ClusterCaKey => "key of your CA for the cluster",
            Self::DepotLogin => "password of the cluster's registry",
            Self::ExternalLogin => "password of your registry",
            Self::EtcdKey => "key of the API server's certificate for your etcd",
            Self::ExternalCa => "CA certificate of your registry",
            Self::HarborAdmin => "password of Harbor's user admin",
            Self::HarborDatabase => "password of Harbor's database",
            Self::AddonSecret => "value of an add-on's Secret",
        }
    }

    /// Whether a text can be used for this.
    ///
    /// # Errors
    /// A sentence for people that shows nothing of the text.
    pub fn check(self, text: &str) -> Result<(), &'static str> {
        match self {
            Self::AuditWebhook => kubeconfig(text),
            Self::DepotLogin => password(text, Some(BCRYPT_LIMIT)),
            Self::ExternalLogin => password(text, None),
            Self::ClusterCaKey | Self::EtcdKey => private_key(text),
            Self::ExternalCa => certificates(text),
            Self::HarborAdmin | Self::HarborDatabase => harbor_password(text),
            // Whatever the add-on reads.
            Self::AddonSecret if text.is_empty() => Err("it is empty"),
            Self::AddonSecret if text.len() > SECRET_LIMIT => Err("it is longer than 1 MiB, the limit of a Secret"),
            Self::AddonSecret => Ok(()),
        }
    }
}

/// Of all values of a Secret together (core/v1, MaxSecretSize), so that one that is larger is refused before anything changes.
const SECRET_LIMIT: usize = 1 << 20;

/// bcrypt ignores what is beyond, so that two passwords would be one.
const BCRYPT_LIMIT: usize = 72;

/// A password as it is sent: the end of the line, which editors leave in a file, does not belong to it.
pub fn password_line(text: &str) -> &str {
    let line = text.strip_suffix('\n').unwrap_or(text);
    line.strip_suffix('\r').unwrap_or(line)
}

fn password(text: &str, most: Option<usize>) -> Result<(), &'static str> {
    match password_line(text) {
        "" => Err("it is empty"),
        odd if odd.contains(char::is_control) => Err("it has more than one line, or a control character"),
        long if most.is_some_and(|most| long.len() > most) => {
            Err("it is longer than 72 bytes, which is bcrypt's limit")
        }
        _ => Ok(()),
    }
}

/// Harbor's `prepare` writes it without quotes into files of `NAME=value`, in which compose replaces `$NAME`: another, shorter password
/// would be set (goharbor/harbor#16372).
fn harbor_password(text: &str) -> Result<(), &'static str> {
    password(text, None)?;
    let line = password_line(text);
    match line.contains(['$', '\'', '"', '\\', '#', '`']) || line.trim() != line {
        true => {
            Err("it has one of $ ' \" ` \\ # or a space at an end, which Harbor's installer does not keep as it is")
        }
        false => Ok(()),
    }
}

/// PEM with certificates alone: whoever wrote cluster.yaml may name any file of this machine, a key too.
pub(super) fn certificates(text: &str) -> Result<(), &'static str> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    let begins = text.matches("-----BEGIN ").count();
    match text.matches(BEGIN).count() {
        0 => Err("it has no certificate in PEM"),
        found if found == begins && text.matches("-----END CERTIFICATE-----").count() == found => Ok(()),
        _ => Err("it has something else than certificates"),
    }
}

/// One key in PEM that a program reads without a passphrase.
fn private_key(text: &str) -> Result<(), &'static str> {
    const KINDS: [&str; 3] = ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"];
    let found: usize = KINDS.iter().map(|kind| text.matches(&format!("-----BEGIN {kind}-----")).count()).sum();
    match found {
        _ if text.contains("ENCRYPTED") => Err("it is encrypted with a passphrase, which nobody can type on a host"),
        1 => Ok(()),
        0 => Err("it has no private key in PEM"),
        _ => Err("it has more than one key"),
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
    fn a_password_is_one_line_that_its_verifier_reads_whole() {
        for good in ["hunter2", "hunter2\n", "hunter2\r\n", " a b ", &"x".repeat(72)] {
            assert_eq!(SecretUse::DepotLogin.check(good), Ok(()), "{good:?}");
            assert_eq!(SecretUse::ExternalLogin.check(good), Ok(()), "{good:?}");
        }
        for bad in ["", "\n", "hunter2\nhunter3", "hunter2\0", "hunter2\n\n"] {
            let error = SecretUse::DepotLogin.check(bad).unwrap_err();
            assert!(!error.contains("hunter"), "{error}");
            assert_eq!(SecretUse::ExternalLogin.check(bad), Err(error));
        }
        let long = "x".repeat(73);
        assert!(SecretUse::DepotLogin.check(&long).unwrap_err().contains("72 bytes"));
        assert_eq!(SecretUse::ExternalLogin.check(&long), Ok(()));
        assert_eq!(["a\n", "a\r\n", "a\n\n", "a"].map(password_line), ["a", "a", "a\n", "a"]);
    }

    #[test]
    fn a_ca_file_is_certificates_and_never_a_key() {
        let part = |what: &str| format!("-----BEGIN {what}-----\nMIIB\n-----END {what}-----\n");
        let certificate = part("CERTIFICATE");
        assert_eq!(SecretUse::ExternalCa.check(&certificate.repeat(2)), Ok(()));
        for bad in ["", "hunter2", &part("PRIVATE KEY"), &(certificate.clone() + &part("EC PRIVATE KEY"))] {
            assert!(SecretUse::ExternalCa.check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_of_harbor_is_one_that_its_installer_keeps_as_it_is() {
        assert_eq!(SecretUse::HarborAdmin.check("Kx1-a/b+c=%&!\n"), Ok(()));
        for bad in ["Kx$secret1", " Kx1", "Kx1 ", "Kx'1", "Kx\"1", "Kx\\1", "Kx#1", "K`1"] {
            let error = SecretUse::HarborDatabase.check(bad).unwrap_err();
            assert!(!error.contains(bad), "{error}");
        }
    }

    #[test]
    fn a_key_of_etcd_is_one_that_needs_no_passphrase() {
        let part = |what: &str| format!("-----BEGIN {what}-----\nMIIB\n-----END {what}-----\n");
        for good in ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"] {
            assert_eq!(SecretUse::EtcdKey.check(&part(good)), Ok(()));
        }
        let two = part("PRIVATE KEY").repeat(2);
        for bad in ["", "hunter2", &part("CERTIFICATE"), &part("ENCRYPTED PRIVATE KEY"), &two] {
            let error = SecretUse::EtcdKey.check(bad).unwrap_err();
            assert!(!error.contains("hunter2"), "{bad}: {error}");
        }
    }

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
