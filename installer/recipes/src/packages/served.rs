//! The repositories that the depot serves, for hosts that an administrator manages by hand: the metadata that the
//! controller signed, and the source files for apt or dnf.

use kubexm_spec::{Family, depot};

use super::carried::{CarriedSet, RepositoryFile};
use crate::modules::packages::source;
use crate::paths;

/// The site's public key in the folder of a repository, ASCII-armored: apt reads it since 1.4, and rpm.
pub const PUBLIC_KEY: &str = "kubexm.asc";
/// The vendor's public keys, with which rpm checks each package; absent if the vendor signs only indexes, or nothing.
pub const VENDOR_KEYS: &str = "vendor.asc";
/// The login in the same folder, as curl reads it.
const NETRC: &str = "netrc";
/// The login as apt reads it, since 1.5 (apt_auth.conf(5)).
const APT_LOGIN: &str = "/etc/apt/auth.conf.d/90kubexm.conf";
/// apt configuration with the CA certificate for this depot.
const APT_SETTINGS: &str = "kubexm.conf";

/// The depot as a host that uses it by hand sees it.
#[derive(Clone, Copy, Debug)]
pub struct DepotUse<'a> {
    /// `metadata.name`.
    pub cluster: &'a str,
    /// User name of the login that it demands. The password is in no file that is served.
    pub username: Option<&'a str>,
}

/// All files of a set's repository at `url` except the packages. The signed files are the same as in a node's own
/// folder.
pub fn served(carried: &CarriedSet, site: DepotUse<'_>, url: &str) -> Vec<RepositoryFile> {
    let family = carried.profile.family;
    // A node's own source file names its own folder.
    let signed = carried.repository.iter().filter(|file| file.path != source(family));
    let file = |path: &str, text: String| RepositoryFile { path: path.to_owned(), text };
    let sources = match family {
        Family::Deb => vec![file(source(family), apt_source(url)), file(APT_SETTINGS, apt_settings(url))],
        Family::Rpm => vec![file(source(family), dnf_source(url, has_vendor_keys(carried)))],
    };
    let how_to = file(depot::HOW_TO, how_to(carried, site, url));
    signed.cloned().chain(sources).chain([how_to]).collect()
}

fn has_vendor_keys(carried: &CarriedSet) -> bool {
    carried.repository.iter().any(|file| file.path == VENDOR_KEYS)
}

fn apt_source(url: &str) -> String {
    format!("deb [signed-by={}/{PUBLIC_KEY}] {url} ./\n", paths::PACKAGE_CLIENT)
}

/// For the depot's host only, so that other trusted CAs and the proxy for other hosts do not change. apt's manual
/// puts the host last; for certificates, apt 2.6 reads it only before the option.
fn apt_settings(url: &str) -> String {
    let host = host_of(url);
    let ca = format!("{}/ca.crt", paths::PACKAGE_CLIENT);
    format!(
        "Acquire::https::{host}::CAInfo \"{ca}\";\nAcquire::https::CAInfo::{host} \"{ca}\";\n\
         Acquire::https::Proxy::{host} \"DIRECT\";\n"
    )
}

fn host_of(url: &str) -> &str {
    url.strip_prefix("https://").unwrap_or(url).split(['/', ':']).next().unwrap_or_default()
}

/// The site's key signs the index alone, and dnf keeps it for that repository. In rpm's own key list it would be
/// trusted for packages of every repository, so only the vendor's keys are imported there, by hand.
fn dnf_source(url: &str, signed_packages: bool) -> String {
    let (folder, check) = (paths::PACKAGE_CLIENT, u8::from(signed_packages));
    format!(
        "[kubexm]\nname=KubeXM\nbaseurl={url}\nenabled=1\ngpgcheck={check}\nrepo_gpgcheck=1\n\
         gpgkey=file://{folder}/{PUBLIC_KEY}\nsslverify=1\nsslcacert={folder}/ca.crt\nproxy=_none_\nmodule_hotfixes=1\n\
         metadata_expire=0\n"
    )
}

/// Most hosts had the vendor's keys before, so the text does not ask to remove all of them.
const KEYS_STAY: &str =
    "\nrpm still trusts the keys from `rpm --import`: `rpm -q gpg-pubkey` lists them, `rpm --erase` removes one.\n";

/// Writes the login where curl reads it. apt reads the same form; printf is the shell's own, so that the password is no
/// argument of a program.
fn netrc(username: &str, url: &str) -> String {
    let (host, user) = (host_of(url), quoted(username));
    format!(
        "\x20 password=$(cat password)\n\
         \x20 install -m 600 /dev/null {folder}/{NETRC}\n\
         \x20 printf 'machine %s login %s password %s\\n' {host} {user} \"$password\" > {folder}/{NETRC}\n",
        folder = paths::PACKAGE_CLIENT,
    )
}

/// dnf reads the login from the repository's own file.
fn dnf_login(username: &str, list: &str) -> String {
    let user = quoted(username);
    format!(
        "\x20 chmod 600 {list}\n\
         \x20 printf 'username=%s\\npassword=%s\\n' {user} \"$password\" >> {list}\n"
    )
}

/// A word for a POSIX shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn how_to(carried: &CarriedSet, site: DepotUse<'_>, url: &str) -> String {
    let (family, set, folder) = (carried.profile.family, &carried.set, paths::PACKAGE_CLIENT);
    let manager = match family {
        Family::Deb => "apt",
        Family::Rpm => "dnf and yum",
    };
    let login = if site.username.is_some() { " --netrc-file netrc" } else { "" };
    let get =
        |from: &str, to: &str| format!("  curl --fail --noproxy '*' --cacert ca.crt{login} -o {to} {url}/{from}\n");
    let (commands, added) = match family {
        Family::Deb => {
            let (list, settings) = ("/etc/apt/sources.list.d/kubexm.list", "/etc/apt/apt.conf.d/90kubexm");
            let (of_apt, added) = match site.username {
                Some(_) => (format!("  install -D -m 600 {NETRC} {APT_LOGIN}\n"), format!(" {APT_LOGIN}")),
                None => Default::default(),
            };
            let files = get(source(family), list) + &get(APT_SETTINGS, settings);
            (format!("{files}{of_apt}  apt-get update\n"), format!("{list} {settings}{added}"))
        }
        Family::Rpm => {
            let list = "/etc/yum.repos.d/kubexm.repo";
            let vendor = match has_vendor_keys(carried) {
                true => format!("{}  rpm --import {VENDOR_KEYS}\n", get(VENDOR_KEYS, VENDOR_KEYS)),
                false => String::new(),
            };
            let of_dnf = site.username.map(|user| dnf_login(user, list)).unwrap_or_default();
            (format!("{vendor}{}{of_dnf}  yum -y makecache\n", get(source(family), list)), list.to_owned())
        }
    };
    format!(
        "Packages of {os} ({arch}) for {manager}, signed by the key of cluster {cluster}.\n\
         \n\
         Trust starts with the cluster's registry CA: {registry_ca} on the cluster's nodes, {depot_ca} on\n\
         this depot's own host. Copy it over a trusted channel. On a host of that system, as root, with the CA as ca.crt in\n\
         the current folder{and_password}:\n\
         \n\
         \x20 umask 022\n\
         \x20 install -D -m 644 ca.crt {folder}/ca.crt\n\
{netrc}\
         \x20 cd {folder}\n\
         {key}{commands}\
         \n\
         The cluster's own hosts do not need this: kubexm-install installs their packages. To undo it:\n\
         \n\
         \x20 rm -r {folder} {added}\n{keys}",
        keys = if family == Family::Rpm && has_vendor_keys(carried) { KEYS_STAY } else { "" },
        and_password = site
            .username
            .map(|user| format!(", and the password of {user} as a file named password"))
            .unwrap_or_default(),
        netrc = site.username.map(|user| netrc(user, url)).unwrap_or_default(),
        cluster = site.cluster,
        os = set.os,
        arch = set.platform.arch.as_str(),
        registry_ca = paths::REGISTRY_CA,
        depot_ca = paths::DEPOT_CA,
        key = get(PUBLIC_KEY, PUBLIC_KEY),
    )
}
