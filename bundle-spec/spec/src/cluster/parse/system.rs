//! `spec.system` and `spec.extra`: what is done to every machine.

use super::take::{each, maybe, or, text};
use super::{addresses, values};
use crate::cluster::{Extra, ExtraHost, Firewall, Keyword, MaterialFile, OsPackages, Script, Selinux, System};
use crate::credential;
use crate::yaml::{At, Field, Object, ProblemKind, Shape};

const PACKAGES: Shape = Shape::List(&Shape::Form("^[A-Za-z0-9][A-Za-z0-9._+-]*$"));
const SCRIPTS: Shape = Shape::List(&Shape::Mapping(&SCRIPT));

/// `spec.system`.
pub(super) const SYSTEM: Object = Object::new(
    "Preparation of every node",
    &[
        Field::new(
            "ntpServers",
            Shape::List(&Shape::Text),
            "Time servers; a host of the cluster among them becomes the others' server",
        ),
        Field::new("timezone", Shape::Text, "Time zone, like Asia/Shanghai; left as it is when left out"),
        Field::new("firewall", Shape::Words(Firewall::WORDS), "Whether firewalld and ufw are kept or stopped"),
        Field::new("selinux", Shape::Words(Selinux::WORDS), "Whether SELinux is kept or made permissive"),
        Field::new("rpms", PACKAGES, "Further RPM packages for every node; services that they bring are not started"),
        Field::new(
            "debs",
            PACKAGES,
            "Further Debian packages for every node; services that they bring are not started",
        ),
        Field::new("preInstall", SCRIPTS, "Run on every node before anything else is done to it"),
        Field::new("postInstall", SCRIPTS, "Run on every node after everything else"),
        Field::new("skipConfigureOS", Shape::Bool, "Do not change name, swap, modules and kernel parameters"),
        Field::new(
            "osPackages",
            Shape::Words(OsPackages::WORDS),
            "Install packages that are missing on a node, none, or the whole set",
        ),
    ],
);

/// One of `preInstall` and `postInstall`.
pub(super) const SCRIPT: Object = Object::new(
    "Something of your own to run on every node",
    &[
        Field::needed("name", Shape::Text, "What it does, in a few words"),
        Field::needed("bash", Shape::Text, "What bash runs, in the folder that has the materials"),
        Field::new(
            "materials",
            Shape::List(&Shape::Text),
            "Texts that it needs, beside this file; they travel in the bundle",
        ),
        Field::new("timeout", Shape::Number(1, 86400), "Seconds after which it is stopped and counts as failed"),
        Field::new(
            "undo",
            Shape::Text,
            "What bash runs to undo it, also when half done and more than once; without it there is no rollback",
        ),
    ],
);

/// `spec.extra`.
pub(super) const EXTRA: Object = Object::new(
    "Entries that are added to every node and removed on delete",
    &[
        Field::new("hosts", Shape::List(&Shape::Mapping(&EXTRA_HOST)), "Lines for /etc/hosts"),
        Field::new("resolves", Shape::List(&Shape::Mapping(&RESOLVE)), "DNS servers put before the node's own"),
    ],
);

/// One of `spec.extra.hosts`.
pub(super) const EXTRA_HOST: Object = Object::new(
    "A line for /etc/hosts",
    &[Field::needed("domain", Shape::Text, "DNS name"), Field::needed("address", Shape::Text, "Its IP address")],
);

/// One of `spec.extra.resolves`.
pub(super) const RESOLVE: Object =
    Object::new("A DNS server", &[Field::needed("address", Shape::Text, "Its IP address")]);

pub(super) fn system(at: &At<'_>) -> Option<System> {
    let map = at.mapping(&SYSTEM)?;
    let packages = |key: &str| or(map.get(key), Vec::new(), |at| each(at, |item| item.parsed(values::package)));
    let scripts = |key: &str| or(map.get(key), Vec::new(), |at| each(at, script));
    let ntp_servers = or(map.get("ntpServers"), Vec::new(), |at| each(at, |item| item.parsed(addresses::host)));
    let timezone = maybe(map.get("timezone"), |at| at.parsed(values::timezone));
    let firewall = or(map.get("firewall"), Firewall::default(), |at| at.word());
    let selinux = or(map.get("selinux"), Selinux::default(), |at| at.word());
    let (rpms, debs) = (packages("rpms"), packages("debs"));
    let (pre_install, post_install) = (scripts("preInstall"), scripts("postInstall"));
    let skip_configure_os = or(map.get("skipConfigureOS"), false, |at| at.boolean());
    let os_packages = or(map.get("osPackages"), OsPackages::default(), |at| at.word());
    Some(System {
        firewall: firewall?,
        selinux: selinux?,
        ntp_servers: ntp_servers?,
        timezone: timezone?,
        rpms: rpms?,
        debs: debs?,
        pre_install: pre_install?,
        post_install: post_install?,
        skip_configure_os: skip_configure_os?,
        os_packages: os_packages?,
    })
}

fn script(at: &At<'_>) -> Option<Script> {
    let map = at.mapping(&SCRIPT)?;
    let name = map.need("name").and_then(|at| text(&at));
    let bash_text = map.need("bash").and_then(|at| bash(&at));
    let timeout = or(map.get("timeout"), Script::TIMEOUT, |at| at.number(1..=86400));
    let undo = maybe(map.get("undo"), bash);
    let materials = or(map.get("materials"), Vec::new(), |at| each(at, |item| item.parsed(MaterialFile::parse)));
    Some(Script { name: name?, bash: bash_text?, materials: materials?, timeout: timeout?, undo: undo? })
}

/// What bash is given to run. It travels in the bundle and is in the plan.
fn bash(at: &At<'_>) -> Option<String> {
    let text = at.parsed(|text| {
        let good = !text.trim().is_empty() && !text.contains('\0');
        if good { Ok(text.to_owned()) } else { Err("there is nothing to run here".to_owned()) }
    })?;
    if let Some(what) = credential::in_text(&text) {
        let instead = "read it on the host, from a file that the script does not bring";
        at.fail(
            ProblemKind::InlineSecret,
            format!("the script holds {what}, in a file that travels in the bundle"),
            instead,
        );
        return None;
    }
    Some(text)
}

pub(super) fn extra(at: &At<'_>) -> Option<Extra> {
    let map = at.mapping(&EXTRA)?;
    let hosts = or(map.get("hosts"), Vec::new(), |at| each(at, extra_host));
    let resolves = or(map.get("resolves"), Vec::new(), |at| {
        each(at, |item| item.mapping(&RESOLVE)?.need("address").and_then(|at| at.parsed(addresses::ip)))
    });
    Some(Extra { hosts: hosts?, resolves: resolves? })
}

fn extra_host(at: &At<'_>) -> Option<ExtraHost> {
    let map = at.mapping(&EXTRA_HOST)?;
    let domain = map.need("domain").and_then(|at| at.parsed(values::subdomain));
    let address = map.need("address").and_then(|at| at.parsed(addresses::ip));
    Some(ExtraHost { domain: domain?, address: address? })
}
