//! Texts of a form. The functions that parse them are in [`values`], [`addresses`], [`age`] and [`calendar`].

use serde_json::Value;

use super::FieldType;
use crate::Digest;
use crate::cluster::parse::{addresses, age, calendar, values};
use crate::yaml::{At, Shape};

/// A text of a form.
pub(in crate::cluster) trait Text {
    /// What it is made into.
    type Value;

    /// The value, or what is wrong with the text, for people.
    fn parse(text: &str) -> Result<Self::Value, String>;
}

/// `Name(Value) = parse`, with the regular expression of the JSON Schema, and `no_login` for an address in which no login may stand.
macro_rules! texts {
    ($($name:ident($value:ty) = $parse:path $(, form $form:literal $(, $no_login:ident)?)?;)+) => {$(
        #[doc = concat!("See `", stringify!($parse), "`.")]
        pub(in crate::cluster) struct $name;

        impl Text for $name {
            type Value = $value;

            fn parse(text: &str) -> Result<$value, String> {
                $parse(text)
            }
        }

        impl FieldType for $name {
            type Value = $value;

            const SHAPE: Shape = texts!(@shape $($form)?);

            fn read(at: &At<'_>) -> Option<$value> {
                $($(texts!(@$no_login at);)?)?
                at.parsed($parse)
            }

            fn show(value: &$value) -> Option<Value> {
                Some(value.to_string().into())
            }
        }
    )+};
    (@shape) => { Shape::Text };
    (@shape $form:literal) => { Shape::Form($form) };
    (@no_login $at:ident) => {
        if $at.holds_login() {
            return None;
        }
    };
}

texts! {
    AgeRecipient(String) = age::recipient, form "^age1[ac-hj-np-z02-9]{58}$";
    Calendar(String) = calendar::calendar;
    ChartVersion(String) = values::chart_version;
    EtcdEndpoint(String) = addresses::endpoint, form "^https?://[^/@]+:[0-9]+$", no_login;
    EtcdPrefix(String) = values::etcd_prefix, form "^/[A-Za-z0-9._/-]*[A-Za-z0-9._-]$";
    Flag(String) = values::flag;
    Folder(String) = values::folder;
    Gate(String) = values::gate;
    HttpUrl(String) = addresses::url, form "^https?://[^@]+$", no_login;
    HostName(String) = addresses::host;
    Identity(String) = values::identity;
    Image(String) = values::image;
    Interface(String) = values::interface;
    KubernetesVersion(String) = values::kubernetes_version, form "^v?[0-9]+\\.[0-9]+(\\.[0-9]+(-[0-9A-Za-z.+-]+)?)?$";
    Label(String) = values::label;
    Line(String) = values::line;
    LoginName(String) = values::login_name, form "^[^:]+$";
    MountOption(String) = values::mount_option, form "^[a-z]([A-Za-z0-9_.,:=/+-]*[A-Za-z0-9])?$";
    NfsExport(String) = values::nfs_export, form "^/[^:#]*$";
    OciChart(String) = addresses::oci, form "^oci://[^@]+$", no_login;
    OperatingSystem(String) = values::os;
    Package(String) = values::package, form "^[A-Za-z0-9][A-Za-z0-9._+-]*$";
    PrivateRegistry(String) = addresses::registry, form "^[^/@]+(/[^@]+)?$", no_login;
    Quantity(u64) = values::quantity, form "^[0-9]+([KMGT]i)?$";
    RegistryHost(String) = addresses::registry_host;
    Repository(String) = values::repository;
    RepositoryPrefix(String) = addresses::repository_prefix, form "^(\\*|[^/@]+(/[^/@]+)*)$", no_login;
    SecretKey(String) = values::secret_key, form "^[A-Za-z0-9._-]+$";
    SecretType(String) = values::secret_type, form "^[A-Za-z0-9./_-]+$";
    Subdomain(String) = values::subdomain;
    SubjectName(String) = addresses::san;
    Timezone(String) = values::timezone;
    User(String) = values::user;
    Version(String) = values::version, form "^v?[0-9]+\\.[0-9]+\\.[0-9]+([-+].*)?$";
}

/// `sha256:…`, or the digits alone, as which it is shown.
pub(in crate::cluster) struct Sha256;

impl FieldType for Sha256 {
    type Value = Digest;

    const SHAPE: Shape = Shape::Form("^(sha256:)?[0-9a-f]{64}$");

    fn read(at: &At<'_>) -> Option<Digest> {
        at.parsed(|text| {
            Digest::from_hex(text.strip_prefix("sha256:").unwrap_or(text)).map_err(|error| error.to_string())
        })
    }

    fn show(value: &Digest) -> Option<Value> {
        Some(value.hex().into())
    }
}
