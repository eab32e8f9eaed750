//! The operator's kubeconfig, derived from the admin.conf that a control plane sent.
//!
//! kubectl runs programs that a kubeconfig names, uses its proxy, and skips TLS verification if it says so. The file
//! comes from a host that may be hostile and is used on the operator's machine: only the CA, the client certificate and
//! its key are taken from it and written to a new file. Every other field is an error that names the field.
//! Fields: <https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/>.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_spec::Cluster;
use kubexm_spec::cluster::API_PORT;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

/// The maximum size of an admin.conf in bytes; kubeadm's has 5 to 12 KiB.
const MAX_BYTES: usize = 64 << 10;
/// The maximum length of the PEM text of one field in bytes.
const MAX_PEM: usize = 32 << 10;
/// The most certificates in one field: a CA that is being replaced has two.
const MAX_CERTIFICATES: usize = 16;
/// The most YAML values in the file; kubeadm's has 30.
const MAX_NODES: usize = 256;

/// Fields that are dangerous on the operator's machine, and why. All others are refused because kubeadm does not write
/// them.
const DANGEROUS: [(&str, &str); 9] = [
    ("exec", "kubectl would run a program that it names"),
    ("auth-provider", "kubectl would load a plugin that it names"),
    ("insecure-skip-tls-verify", "kubectl would not verify the server"),
    ("proxy-url", "kubectl's traffic would go through a proxy that it names"),
    ("tls-server-name", "kubectl would accept the certificate of another server"),
    ("certificate-authority", "it names a file on the machine where it is used"),
    ("client-certificate", "it names a file on the machine where it is used"),
    ("client-key", "it names a file on the machine where it is used"),
    ("tokenFile", "kubectl would send the content of a file that it names"),
];

/// Why an admin.conf is refused. No variant contains a value of the file, except for a server's URL.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigError {
    /// Longer than kubeadm's ever is.
    #[error("it is {0} bytes long, more than the {MAX_BYTES} bytes that are accepted")]
    TooLong(usize),
    /// Not one YAML document within limits, or a key is repeated.
    #[error("it is not one YAML document without repeated keys")]
    NotYaml,
    /// A field that is not accepted from a host.
    #[error("it contains the field `{field}`: {reason}")]
    Refused {
        /// Path of the field; names from the file are escaped.
        field: String,
        reason: &'static str,
    },
    /// A field that kubeadm writes is missing.
    #[error("the field `{field}` is missing")]
    Missing {
        /// Path of the field.
        field: String,
    },
    /// A field has a value that kubeadm does not write.
    #[error("the field `{field}` is not valid: {reason}")]
    Invalid {
        /// Path of the field.
        field: String,
        /// What is wrong.
        reason: String,
    },
}

/// The credentials from an admin.conf, nothing else.
pub struct AdminKubeconfig {
    authority: Vec<CertificateDer<'static>>,
    certificate: Vec<CertificateDer<'static>>,
    key: Zeroizing<String>,
}

// The key is a secret.
impl std::fmt::Debug for AdminKubeconfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminKubeconfig").finish_non_exhaustive()
    }
}

impl AdminKubeconfig {
    /// Reads the file that the control plane of this cluster at `address` sent.
    pub fn read(bytes: &[u8], cluster: &Cluster, address: &str) -> Result<Self, KubeconfigError> {
        if bytes.len() > MAX_BYTES {
            return Err(KubeconfigError::TooLong(bytes.len()));
        }
        let mut document = object(parse(bytes)?, "the document")?;
        allow(
            &document,
            "",
            &["apiVersion", "kind", "clusters", "contexts", "current-context", "preferences", "users"],
        )?;
        expect_text(&mut document, "", "apiVersion", "v1")?;
        expect_text(&mut document, "", "kind", "Config")?;
        if let Some(preferences) = document.remove("preferences") {
            allow(&object(preferences, "preferences")?, "preferences", &[])?;
        }
        let (cluster_name, mut server) = only(&mut document, "clusters", "cluster")?;
        let place = "clusters[0].cluster";
        allow(&server, place, &["certificate-authority-data", "server"])?;
        check_server(&text(&mut server, place, "server")?, cluster, address)?;
        let authority = certificates(&mut server, place, "certificate-authority-data")?;
        let (user_name, mut user) = only(&mut document, "users", "user")?;
        let place = "users[0].user";
        allow(&user, place, &["client-certificate-data", "client-key-data"])?;
        let certificate = certificates(&mut user, place, "client-certificate-data")?;
        let key = private_key(&mut user, place, &certificate)?;
        let (context_name, mut context) = only(&mut document, "contexts", "context")?;
        let place = "contexts[0].context";
        allow(&context, place, &["cluster", "user"])?;
        expect_text(&mut context, place, "cluster", &cluster_name)?;
        expect_text(&mut context, place, "user", &user_name)?;
        expect_text(&mut document, "", "current-context", &context_name)?;
        Ok(Self { authority, certificate, key })
    }

    /// The kubeconfig for use outside the cluster. The control plane's name may not resolve there, so the server is the
    /// address, and the certificate is checked against the name.
    pub fn render(&self, cluster: &Cluster, address: &str) -> Zeroizing<String> {
        let quote = |text: &str| Value::from(text).to_string();
        let (name, user) = (quote(&cluster.name), quote(&format!("{}-admin", cluster.name)));
        Zeroizing::new(format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: {name}\n  \
               cluster:\n    \
                 certificate-authority-data: {authority}\n    \
                 server: {server}\n    \
                 tls-server-name: {server_name}\n\
             users:\n\
             - name: {user}\n  \
               user:\n    \
                 client-certificate-data: {certificate}\n    \
                 client-key-data: {key}\n\
             contexts:\n\
             - name: {name}\n  \
               context:\n    \
                 cluster: {name}\n    \
                 user: {user}\n\
             current-context: {name}\n",
            authority = certificates_text(&self.authority),
            certificate = certificates_text(&self.certificate),
            key = self.key.as_str(),
            server = quote(&url(address, API_PORT)),
            server_name = quote(&cluster.control_plane_name()),
        ))
    }
}

fn parse(bytes: &[u8]) -> Result<Value, KubeconfigError> {
    // The parser's message may quote the file, which contains a key.
    let text = std::str::from_utf8(bytes).map_err(|_| KubeconfigError::NotYaml)?;
    let budget = serde_saphyr::budget! {
        max_nodes: MAX_NODES, max_events: 4 * MAX_NODES, max_documents: 1, max_depth: 8, max_aliases: 0, max_anchors: 0
    };
    let options = serde_saphyr::options! { budget: budget, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|_| KubeconfigError::NotYaml)
}

/// The URL of an API server.
fn url(host: &str, port: u16) -> String {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => format!("https://[{host}]:{port}"),
        _ => format!("https://{host}:{port}"),
    }
}

/// The server must be a known one: the control plane's name, or the host that sent the file.
fn check_server(server: &str, cluster: &Cluster, address: &str) -> Result<(), KubeconfigError> {
    let name = url(&cluster.control_plane_name(), cluster.control_plane_port());
    if server == name || server == url(address, API_PORT) {
        return Ok(());
    }
    let shown: String = server.escape_default().take(200).collect();
    Err(KubeconfigError::Invalid {
        field: "clusters[0].cluster.server".to_owned(),
        reason: format!("it is {shown}, and the control plane of cluster {} is {name}", cluster.name),
    })
}

fn object(value: Value, field: &str) -> Result<Map<String, Value>, KubeconfigError> {
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err(invalid(field, "it is not a map")),
    }
}

/// Refuses every field that is not allowed.
fn allow(fields: &Map<String, Value>, place: &str, allowed: &[&str]) -> Result<(), KubeconfigError> {
    let Some(field) = fields.keys().find(|field| !allowed.contains(&field.as_str())) else { return Ok(()) };
    let reason = DANGEROUS.iter().find(|(name, _)| name == field).map(|(_, reason)| *reason);
    let shown: String = field.escape_default().take(64).collect();
    Err(KubeconfigError::Refused { field: at(place, &shown), reason: reason.unwrap_or("kubeadm does not write it") })
}

/// Name and content of the only entry of a list.
fn only(
    document: &mut Map<String, Value>,
    list: &'static str,
    content: &'static str,
) -> Result<(String, Map<String, Value>), KubeconfigError> {
    let Some(Value::Array(mut entries)) = document.remove(list) else { return Err(missing("", list)) };
    if entries.len() > 1 {
        let reason = "kubeadm writes one entry";
        return Err(KubeconfigError::Refused { field: format!("{list}[1]"), reason });
    }
    let place = format!("{list}[0]");
    let mut entry = object(entries.pop().ok_or_else(|| missing("", &place))?, &place)?;
    allow(&entry, &place, &["name", content])?;
    let name = text(&mut entry, &place, "name")?;
    let inner = entry.remove(content).ok_or_else(|| missing(&place, content))?;
    Ok((name, object(inner, &at(&place, content))?))
}

fn text(fields: &mut Map<String, Value>, place: &str, field: &str) -> Result<String, KubeconfigError> {
    match fields.remove(field) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(invalid(&at(place, field), "it is not a string")),
        None => Err(missing(place, field)),
    }
}

fn expect_text(fields: &mut Map<String, Value>, place: &str, field: &str, wanted: &str) -> Result<(), KubeconfigError> {
    if text(fields, place, field)? == wanted {
        return Ok(());
    }
    Err(invalid(&at(place, field), "it does not name what kubeadm writes there"))
}

/// The PEM blocks of a base64 field.
fn blocks(fields: &mut Map<String, Value>, place: &str, field: &str) -> Result<Vec<::pem::Pem>, KubeconfigError> {
    let encoded = Zeroizing::new(text(fields, place, field)?);
    let decoded = BASE64.decode(encoded.as_bytes()).map(Zeroizing::new);
    let decoded = decoded.map_err(|_| invalid(&at(place, field), "it is not base64"))?;
    if decoded.len() > MAX_PEM {
        return Err(invalid(&at(place, field), &format!("it is longer than {MAX_PEM} bytes")));
    }
    ::pem::parse_many(decoded.as_slice()).map_err(|_| invalid(&at(place, field), "it is not PEM"))
}

fn certificates(
    fields: &mut Map<String, Value>,
    place: &str,
    field: &str,
) -> Result<Vec<CertificateDer<'static>>, KubeconfigError> {
    let blocks = blocks(fields, place, field)?;
    if blocks.is_empty() || blocks.len() > MAX_CERTIFICATES {
        let reason = format!("it holds {} certificates, and 1 to {MAX_CERTIFICATES} are accepted", blocks.len());
        return Err(invalid(&at(place, field), &reason));
    }
    let certificate = |block: ::pem::Pem| {
        let whole = x509_parser::parse_x509_certificate(block.contents()).is_ok_and(|(rest, _)| rest.is_empty());
        if block.tag() != "CERTIFICATE" || !whole {
            return Err(invalid(&at(place, field), "it contains something other than X.509 certificates"));
        }
        Ok(CertificateDer::from(block.into_contents()))
    };
    blocks.into_iter().map(certificate).collect()
}

/// The key as base64 of PEM; it must belong to the first certificate.
fn private_key(
    user: &mut Map<String, Value>,
    place: &str,
    certificates: &[CertificateDer<'static>],
) -> Result<Zeroizing<String>, KubeconfigError> {
    const FIELD: &str = "client-key-data";
    let refused = |reason: &str| Err(invalid(&at(place, FIELD), reason));
    let blocks = blocks(user, place, FIELD)?;
    let [block] = blocks.as_slice() else { return refused("it does not hold exactly one key") };
    let der = Zeroizing::new(block.contents().to_vec());
    let key: PrivateKeyDer<'_> = match block.tag() {
        "RSA PRIVATE KEY" => PrivateKeyDer::Pkcs1(der.as_slice().into()),
        "EC PRIVATE KEY" => PrivateKeyDer::Sec1(der.as_slice().into()),
        "PRIVATE KEY" => PrivateKeyDer::Pkcs8(der.as_slice().into()),
        _ => return refused("it contains something other than a private key"),
    };
    let provider = rustls::crypto::ring::default_provider();
    let Ok(signer) = provider.key_provider.load_private_key(key.clone_key()) else {
        return refused(
            "it is not a key that this program supports (RSA from 2048 bits, ECDSA P-256 or P-384, \
                        Ed25519)",
        );
    };
    let certificate = certificates.first().and_then(|der| x509_parser::parse_x509_certificate(der).ok());
    let certified = certificate.as_ref().map(|(_, certificate)| certificate.tbs_certificate.subject_pki.raw);
    if signer.public_key().is_none_or(|public| Some(public.as_ref()) != certified) {
        return refused("it does not belong to client-certificate-data");
    }
    let text = Zeroizing::new(to_pem(block.tag(), &der));
    Ok(Zeroizing::new(BASE64.encode(text.as_bytes())))
}

fn certificates_text(certificates: &[CertificateDer<'_>]) -> String {
    let blocks: String = certificates.iter().map(|certificate| to_pem("CERTIFICATE", certificate)).collect();
    BASE64.encode(blocks)
}

/// A PEM block without the headers that the original may have had.
fn to_pem(tag: &str, der: &[u8]) -> String {
    let config = ::pem::EncodeConfig::new().set_line_ending(::pem::LineEnding::LF);
    ::pem::encode_config(&::pem::Pem::new(tag, der), config)
}

fn at(place: &str, field: &str) -> String {
    if place.is_empty() { field.to_owned() } else { format!("{place}.{field}") }
}

fn missing(place: &str, field: &str) -> KubeconfigError {
    KubeconfigError::Missing { field: at(place, field) }
}

fn invalid(field: &str, reason: &str) -> KubeconfigError {
    KubeconfigError::Invalid { field: field.to_owned(), reason: reason.to_owned() }
}
