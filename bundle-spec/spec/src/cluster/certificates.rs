//! `spec.kubernetes.ca`, and how long certificates are valid.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::field::{FieldType, section};
use super::{Cluster, MaterialFile, SecretSource};
use crate::yaml::{At, Mapping, ProblemKind, Shape};

section! {
    /// A CA of your site for the cluster
    ///
    /// `spec.kubernetes.ca`: it signs the cluster's certificates, and kubeadm makes no CA of its own. Those of etcd and of the
    /// front proxy are kubeadm's: nobody but components of the cluster reads them.
    #[check(one_way(certificates))]
    pub struct ClusterCa {
        /// Its certificate, a path beside this file
        #[yaml("certFile", required)]
        pub cert_file: MaterialFile,
        /// Where its key is read from; it never travels in the bundle
        #[serde(rename = "keyFrom", skip_serializing_if = "Option::is_none")]
        #[yaml("keyFrom")]
        pub key: Option<SecretSource>,
        /// On this machine: the folder of the requests that your site signs, and of the signed certificates; instead of keyFrom
        ///
        /// Absolute, or below `~/`. The CA's key stays with the site.
        #[serde(rename = "certificatesFolder", skip_serializing_if = "Option::is_none")]
        #[yaml("certificatesFolder")]
        pub certificates: Option<PathBuf>,
    }
}

/// Who signs: kubeadm with the key, or the site.
fn one_way(map: &Mapping<'_>, certificates: Option<&Option<PathBuf>>) -> Option<()> {
    let hint = "keyFrom: {file: PATH} or {env: NAME}, and kubeadm signs; or certificatesFolder: /PATH, and your site signs requests";
    let at = map.get("certificatesFolder");
    match (map.get("keyFrom").is_some(), &at) {
        (false, None) => {
            map.at().fail(
                ProblemKind::Missing,
                "\"keyFrom\" or \"certificatesFolder\" is missing: nobody would sign",
                hint,
            );
            return None;
        }
        (true, Some(at)) => {
            at.bad("the CA's key and certificates that your site signs exclude each other", hint);
            return None;
        }
        _ => {}
    }
    let folder = certificates.and_then(Option::as_ref);
    if let (Some(at), Some(folder)) = (at, folder)
        && !(folder.is_absolute() || folder.starts_with("~"))
    {
        at.bad(format!("{:?} is not absolute", folder.display().to_string()), "begin it with / or ~/");
        return None;
    }
    Some(())
}

impl ClusterCa {
    /// Whether the CA's key stays with the site, which signs requests.
    pub const fn signs_elsewhere(&self) -> bool {
        self.certificates.is_some()
    }
}

const DAY: u32 = 24;
const HOUR_S: i64 = 3600;
/// A century: what is longer is a mistake.
const MOST: u32 = 36_500 * DAY;

/// How long a certificate is valid: whole hours, at least a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Validity {
    hours: u32,
}

impl Validity {
    /// kubeadm's own, of the certificates of components.
    pub const OF_CERTIFICATES: Self = Self { hours: 365 * DAY };
    /// kubeadm's own, of its CAs.
    pub const OF_AUTHORITIES: Self = Self { hours: 3650 * DAY };
    /// The longest of what the cluster's own authorities sign where cluster.yaml says nothing: half of their ten years, so that each is
    /// renewed once before it can only end with its authority.
    const OF_OWN_CERTIFICATES: Self = Self { hours: 1825 * DAY };

    /// In hours.
    pub const fn hours(self) -> u32 {
        self.hours
    }

    /// A timer renews a certificate that ends within so many seconds: a quarter of its time, and at least two days, since it looks once in
    /// a day, up to three hours later than the day before.
    pub fn renewed_before_s(self) -> i64 {
        (i64::from(self.hours) * HOUR_S / 4).max(48 * HOUR_S)
    }

    /// What counts as soon where nobody says it, in seconds: 90 days, or less where a timer would not have renewed it yet.
    pub fn soon_s(self) -> i64 {
        (90 * 24 * HOUR_S).min(self.renewed_before_s() - 30 * HOUR_S)
    }

    /// `365d` or `8760h`; `8760h0m0s` is how Go writes it.
    fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not a period of whole days or hours from 1d to 36500d, like 365d or 8760h");
        let plain = text.strip_suffix("0s").and_then(|text| text.strip_suffix("0m")).unwrap_or(text);
        let (digits, each) = match (plain.strip_suffix('d'), plain.strip_suffix('h')) {
            (Some(digits), _) if plain == text => (digits, DAY),
            (_, Some(digits)) => (digits, 1),
            _ => return Err(bad()),
        };
        let digits = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let hours = digits.and_then(|digits| digits.parse::<u32>().ok()?.checked_mul(each));
        hours.filter(|hours| (DAY..=MOST).contains(hours)).map(|hours| Self { hours }).ok_or_else(bad)
    }
}

impl Cluster {
    /// How long a certificate is valid that the cluster's own authorities sign: of depot, registry and an etcd of kubexm's.
    pub fn own_certificate_validity(&self) -> Validity {
        let written = self.kubernetes.as_ref().and_then(|one| one.certificate_validity);
        let half = Validity { hours: self.own_authority_validity().hours / 2 };
        written.unwrap_or_else(|| half.min(Validity::OF_OWN_CERTIFICATES))
    }

    /// How long the cluster's own authorities are valid that are made from now on.
    pub fn own_authority_validity(&self) -> Validity {
        let written = self.kubernetes.as_ref().and_then(|one| one.ca_certificate_validity);
        written.unwrap_or(Validity::OF_AUTHORITIES)
    }

    /// The site's CA, if its key stays with the site, which signs requests for certificates.
    pub fn external_ca(&self) -> Option<&ClusterCa> {
        self.kubernetes.as_ref()?.ca.as_ref().filter(|ca| ca.signs_elsewhere())
    }

    /// How long certificates of kubeadm's are valid.
    pub fn certificate_validity(&self) -> Validity {
        let written = self.kubernetes.as_ref().and_then(|one| one.certificate_validity);
        written.unwrap_or(Validity::OF_CERTIFICATES)
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hours % DAY {
            0 => write!(f, "{}d", self.hours / DAY),
            _ => write!(f, "{}h", self.hours),
        }
    }
}

impl Serialize for Validity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FieldType for Validity {
    type Value = Self;

    const SHAPE: Shape = Shape::Form("^[0-9]+(d|h(0m0s)?)$");

    fn read(at: &At<'_>) -> Option<Self> {
        at.parsed(Self::parse)
    }

    fn show(value: &Self) -> Option<Value> {
        Some(value.to_string().into())
    }
}

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// Characters of a line of PEM, as Go writes it.
const LINE: usize = 64;

/// The one certificate of a text as kubeadm writes certificates: without what stands around it, in lines of 64 characters. kubeadm
/// writes it so on every host that joins, and hosts of a cluster are distinguished from others by these bytes.
///
/// # Errors
/// A sentence for people.
pub fn one_certificate(text: &str) -> Result<String, &'static str> {
    super::secret::certificates(text)?;
    if text.matches(BEGIN).count() > 1 {
        return Err(
            "it has more than one certificate: give the CA alone that signs, since whatever another one here has \
                    signed would be a login of this cluster",
        );
    }
    let body = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map(|(body, _)| body);
    let body: String = body.unwrap_or_default().split_whitespace().collect();
    if body.is_empty() || !body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)) {
        return Err("its certificate is not base64");
    }
    let mut lines = format!("{BEGIN}\n");
    for (at, character) in body.chars().enumerate() {
        if at > 0 && at % LINE == 0 {
            lines.push('\n');
        }
        lines.push(character);
    }
    Ok(lines + "\n" + END + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_days_or_hours_and_is_shown_as_the_shorter() {
        for (text, shown) in
            [("365d", "365d"), ("8760h", "365d"), ("8760h0m0s", "365d"), ("100h", "100h"), ("1d", "1d")]
        {
            assert_eq!(Validity::parse(text).map(|period| period.to_string()), Ok(shown.to_owned()), "{text}");
        }
        for text in
            ["", "d", "365", "1y", "23h", "0d", "36501d", "-1d", "365d0m0s", "1.5d", "99999999999d", "+9d", "8760h0m"]
        {
            assert!(Validity::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_timer_renews_a_certificate_before_it_is_shown_as_one_that_ends_soon() {
        let day = 24 * HOUR_S;
        assert_eq!(Validity::OF_CERTIFICATES.soon_s(), 90 * day);
        assert_eq!(Validity::OF_AUTHORITIES.soon_s(), 90 * day);
        for text in ["1d", "5d", "20d", "200d", "365d", "4000d"] {
            let period = Validity::parse(text).unwrap();
            let (renewed, soon) = (period.renewed_before_s(), period.soon_s());
            assert!(
                soon > 0 && renewed - soon >= 27 * HOUR_S,
                "{text}: the timer looks once in a day, up to 3 h later"
            );
            assert!(text == "1d" || soon < i64::from(period.hours()) * HOUR_S / 4, "{text}");
        }
        assert_eq!(Validity::parse("200d").unwrap().soon_s(), 50 * day - 30 * HOUR_S);
    }

    #[test]
    fn what_is_signed_without_a_period_lasts_half_as_long_as_its_authority_and_at_most_five_years() {
        for (leaf, authority, wanted) in [
            (None, None, ["1825d", "3650d", "365d"]),
            (None, Some("1000d"), ["500d", "1000d", "365d"]),
            (None, Some("7300d"), ["1825d", "7300d", "365d"]),
            (Some("200d"), None, ["200d", "3650d", "200d"]),
        ] {
            let period = |text: Option<&str>| text.map(|text| Validity::parse(text).unwrap());
            let mut cluster = super::super::parse(super::super::sample()).unwrap();
            let kubernetes = cluster.kubernetes.as_mut().unwrap();
            (kubernetes.certificate_validity, kubernetes.ca_certificate_validity) = (period(leaf), period(authority));
            let found =
                [cluster.own_certificate_validity(), cluster.own_authority_validity(), cluster.certificate_validity()];
            assert_eq!(found.map(|period| period.to_string()), wanted, "{leaf:?} {authority:?}");
        }
    }

    #[test]
    fn one_certificate_has_the_bytes_that_kubeadm_writes() {
        let body = "M".repeat(100);
        let wanted = format!("{BEGIN}\n{}\n{}\n{END}\n", &body[..64], &body[64..]);
        for text in [
            format!("{BEGIN}\n{body}\n{END}"),
            format!("subject=CN = site\r\n{BEGIN}\r\n{}\r\n{}\r\n{END}\r\n\r\n", &body[..76], &body[76..]),
            wanted.clone(),
        ] {
            assert_eq!(one_certificate(&text), Ok(wanted.clone()), "{text}");
        }
        assert!(one_certificate(&wanted.repeat(2)).unwrap_err().contains("more than one"));
        for bad in ["", "hunter2", &format!("{BEGIN}\n{END}\n"), &format!("{BEGIN}\n%%\n{END}\n")] {
            assert!(one_certificate(bad).is_err(), "{bad}");
        }
        let key = format!("{wanted}-----BEGIN PRIVATE KEY-----\nM\n-----END PRIVATE KEY-----\n");
        assert!(one_certificate(&key).is_err());
    }
}
