//! The materials of a cluster, and what must be in each.

use super::Cluster;
use super::certificates;
use super::material::MaterialFile;
use super::secret;
use crate::credential;
use crate::yaml;

/// What a material is for, and so what must be in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaterialUse {
    /// A Policy of audit.k8s.io/v1.
    AuditPolicy,
    /// A file beside a script.
    Script,
    /// Certificates in PEM.
    Certificates,
    /// One certificate in PEM: of a CA that signs for the cluster.
    Authority,
    /// A public key that images are signed with.
    PublicKey,
    /// A trusted_root.json of Sigstore.
    TrustedRoot,
}

/// A material and the field that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaterialOf<'a> {
    /// `spec.kubernetes.audit.policyFile`.
    pub field: String,
    /// What it is for.
    pub usage: MaterialUse,
    /// The file.
    pub file: &'a MaterialFile,
}

impl Cluster {
    /// Every material, in the order of the format. Two fields may name the same file.
    pub fn materials(&self) -> Vec<MaterialOf<'_>> {
        let policy = self.kubernetes.as_ref().and_then(|kubernetes| kubernetes.audit.as_ref()?.policy_file.as_ref());
        let policy = policy.map(|file| {
            let field = "spec.kubernetes.audit.policyFile".to_owned();
            MaterialOf { field, usage: MaterialUse::AuditPolicy, file }
        });
        let ca = self.kubernetes.as_ref().and_then(|kubernetes| kubernetes.ca.as_ref()).map(|ca| {
            let field = "spec.kubernetes.ca.certFile".to_owned();
            MaterialOf { field, usage: MaterialUse::Authority, file: &ca.cert_file }
        });
        let system = &self.system;
        let scripts = [("preInstall", &system.pre_install), ("postInstall", &system.post_install)];
        let of_scripts = scripts.into_iter().flat_map(|(key, scripts)| {
            scripts.iter().enumerate().flat_map(move |(at, script)| {
                script.materials.iter().enumerate().map(move |(number, file)| {
                    let field = format!("spec.system.{key}[{at}].materials[{number}]");
                    MaterialOf { field, usage: MaterialUse::Script, file }
                })
            })
        });
        let of_signatures = self.bundle.image_signatures.iter().enumerate().flat_map(|(at, rule)| {
            let field = move |key: String| format!("spec.bundle.imageSignatures[{at}].{key}");
            let key = move |(number, file)| {
                let field = field(format!("keys[{number}]"));
                MaterialOf { field, usage: MaterialUse::PublicKey, file }
            };
            let root = move |file| MaterialOf {
                field: field("trustedRoot".to_owned()),
                usage: MaterialUse::TrustedRoot,
                file,
            };
            rule.keys.iter().enumerate().map(key).chain(rule.trusted_root.iter().map(root))
        });
        let of_etcd = self.etcd.external.iter().flat_map(|external| {
            let files = [("caFile", &external.ca_file), ("certFile", &external.cert_file)];
            files.into_iter().filter_map(|(key, file)| {
                let field = format!("spec.etcd.externalConfig.{key}");
                Some(MaterialOf { field, usage: MaterialUse::Certificates, file: file.as_ref()? })
            })
        });
        of_scripts.chain(policy).chain(ca).chain(of_etcd).chain(of_signatures).collect()
    }

    /// The same files, to say where each is read.
    pub fn material_files_mut(&mut self) -> impl Iterator<Item = &mut MaterialFile> {
        let of_kubernetes = self.kubernetes.iter_mut().flat_map(|kubernetes| {
            let policy = kubernetes.audit.as_mut().and_then(|audit| audit.policy_file.as_mut());
            policy.into_iter().chain(kubernetes.ca.as_mut().map(|ca| &mut ca.cert_file))
        });
        let scripts = self.system.pre_install.iter_mut().chain(&mut self.system.post_install);
        let rules = self.bundle.image_signatures.iter_mut();
        let of_signatures = rules.flat_map(|rule| rule.keys.iter_mut().chain(&mut rule.trusted_root));
        let external = self.etcd.external.iter_mut();
        let of_etcd = external.flat_map(|external| external.ca_file.iter_mut().chain(&mut external.cert_file));
        scripts.flat_map(|script| &mut script.materials).chain(of_kubernetes).chain(of_etcd).chain(of_signatures)
    }
}

/// Why a text cannot be a material.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadMaterial {
    /// It holds a credential: `a private key`.
    Credential(&'static str),
    /// It is not what its field requires; a sentence for people.
    Content(String),
}

impl MaterialUse {
    /// Whether a text can be carried for this.
    ///
    /// # Errors
    /// It holds a credential, which a bundle would show to everyone who has it, or is not what the field wants.
    pub fn check(self, text: &str) -> Result<(), BadMaterial> {
        if let Some(what) = credential::in_text(text) {
            return Err(BadMaterial::Credential(what));
        }
        match self {
            Self::AuditPolicy => audit_policy(text).map_err(BadMaterial::Content),
            Self::Script => Ok(()),
            Self::Certificates => secret::certificates(text).map_err(|why| BadMaterial::Content(why.to_owned())),
            Self::Authority => {
                certificates::one_certificate(text).map(drop).map_err(|why| BadMaterial::Content(why.to_owned()))
            }
            Self::PublicKey => public_key(text).map_err(BadMaterial::Content),
            Self::TrustedRoot => trusted_root(text).map_err(BadMaterial::Content),
        }
    }
}

/// As far as that can be seen without reading the key.
fn public_key(text: &str) -> Result<(), String> {
    match text.starts_with("-----BEGIN PUBLIC KEY-----") {
        true => Ok(()),
        false => Err("it does not begin with a public key (-----BEGIN PUBLIC KEY-----), as cosign.pub does".to_owned()),
    }
}

/// The same of a trusted root, by what it says of itself.
fn trusted_root(text: &str) -> Result<(), String> {
    let document: serde_json::Value =
        serde_json::from_str(text).map_err(|error| format!("it is not JSON that can be read: {error}"))?;
    let media_type = document.get("mediaType").and_then(serde_json::Value::as_str).unwrap_or("nothing");
    match media_type.starts_with("application/vnd.dev.sigstore.trustedroot") {
        true => Ok(()),
        false => Err(format!("a trusted root of Sigstore says so as its mediaType, and this says {media_type}")),
    }
}

const API: &str = "audit.k8s.io/v1";
const LEVELS: [&str; 4] = ["None", "Metadata", "Request", "RequestResponse"];

/// What kube-apiserver does not start without (apiserver/pkg/audit/policy/reader.go): kind, version and one rule, each with a level.
fn audit_policy(text: &str) -> Result<(), String> {
    let tree = yaml::parse(text).map_err(|problems| format!("it is not YAML that can be read:\n{problems}"))?;
    let sink = yaml::Sink::default();
    let document = yaml::At::root(&tree, &sink).json();
    let field = |name: &str| document.get(name).and_then(serde_json::Value::as_str).unwrap_or("nothing");
    if field("apiVersion") != API || field("kind") != "Policy" {
        let (version, kind) = (field("apiVersion"), field("kind"));
        return Err(format!("an audit policy has apiVersion {API} and kind Policy, and this has {version} and {kind}"));
    }
    let Some(rules) = document.get("rules").and_then(serde_json::Value::as_array).filter(|rules| !rules.is_empty())
    else {
        return Err(
            "an audit policy has a list of rules with at least one; kube-apiserver starts with no other".to_owned()
        );
    };
    for (number, rule) in rules.iter().enumerate() {
        let level = rule.get("level").and_then(serde_json::Value::as_str);
        if !level.is_some_and(|level| LEVELS.contains(&level)) {
            let found = level.unwrap_or("nothing");
            return Err(format!("rules[{number}].level is {found}, expected one of {}", LEVELS.join(", ")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_the_api_server_would_not_start_with_is_refused() {
        let good = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n";
        assert_eq!(MaterialUse::AuditPolicy.check(good), Ok(()));
        for (from, to, said) in [
            ("audit.k8s.io/v1", "audit.k8s.io/v1beta1", "v1beta1"),
            ("kind: Policy", "kind: Pod", "Pod"),
            ("rules:\n- level: Metadata\n", "rules: []\n", "at least one"),
            ("level: Metadata", "level: metadata", "rules[0].level"),
            ("level: Metadata", "users: [a]", "rules[0].level is nothing"),
            ("kind: Policy", "kind: {", "YAML"),
        ] {
            let Err(BadMaterial::Content(problem)) = MaterialUse::AuditPolicy.check(&good.replace(from, to)) else {
                panic!("{to} was taken");
            };
            assert!(problem.contains(said), "{problem}");
        }
    }

    #[test]
    fn a_credential_is_no_material_whatever_it_is_for() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\n";
        for usage in [MaterialUse::AuditPolicy, MaterialUse::Script] {
            assert_eq!(usage.check(key), Err(BadMaterial::Credential("a private key")));
            let secret = usage.check("apiVersion: v1\nkind: Secret\ndata: {}\n");
            assert!(matches!(secret, Err(BadMaterial::Credential(_))), "{secret:?}");
        }
    }
}
