//! How to log in to a host. The same value is shown before confirmation and used after it.

use std::path::Path;
use std::sync::Arc;

use kubexm_engine::link::LinkError;
use kubexm_engine::link::ssh::{Hop, KeySource, Login, SshTarget};
use kubexm_plan::facts::DataFolders;
use kubexm_spec::Cluster;
use kubexm_spec::cluster::{DockerLogin, Host, SecretFrom, SecretSource};

use crate::credentials::Credentials;
use crate::escaped::escaped;
use crate::home::Home;

/// A host, the route to it, and the sources of the secrets that logging in needs.
#[derive(Debug)]
pub struct Approach {
    name: String,
    way: Vec<Stop>,
    end: Stop,
    sudo_password: Option<SecretSource>,
    folders: DataFolders,
}

/// One login: on the host itself or on a bastion.
#[derive(Debug)]
struct Stop {
    address: String,
    port: u16,
    user: String,
    keys: Vec<KeySource>,
    password: Option<SecretSource>,
}

/// A secret, described by its source, and who receives it.
#[derive(Debug, PartialEq, Eq)]
pub struct Use {
    /// A description of the source, never the secret itself.
    pub secret: String,
    /// User, address and bastions; or the hosts that keep it, one text for all secrets that they keep.
    pub goes_to: Arc<str>,
}

impl Approach {
    /// From a host of cluster.yaml. Nothing that it names is read.
    pub fn of(cluster: &Cluster, host: &Host, home: &Home) -> Self {
        let end = Stop {
            address: host.address.clone(),
            port: host.port,
            user: host.user.clone(),
            keys: keys(host.private_key_path.as_deref(), host.agent, host.password.is_some(), home),
            password: host.password.clone(),
        };
        let way = host.via.iter().map(|jump| {
            let own = jump.private_key_path.as_deref().or(host.private_key_path.as_deref());
            Stop {
                address: jump.address.clone(),
                port: jump.port,
                user: jump.user.clone(),
                keys: keys(own, jump.agent || host.agent, jump.password.is_some(), home),
                password: jump.password.clone(),
            }
        });
        let folders = DataFolders::of(cluster, cluster.roles(&host.name));
        Self { name: host.name.clone(), way: way.collect(), end, sudo_password: host.sudo_password.clone(), folders }
    }

    /// The host's name in cluster.yaml.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the secrets.
    pub fn resolve(&self, credentials: &dyn Credentials, home: &Home) -> Result<SshTarget, LinkError> {
        let denied = |reason: String| LinkError::Denied {
            host: self.name.clone(),
            address: format!("{}:{}", self.end.address, self.end.port),
            reason,
        };
        let secret = |key: &str, source: &Option<SecretSource>| {
            let read = source.as_ref().map(|source| credentials.password(source, home)).transpose();
            read.map_err(|reason| denied(format!("{key}: {reason}")))
        };
        let login = |stop: &Stop, key: &str| {
            let password = secret(key, &stop.password)?;
            Ok(Login { user: stop.user.clone(), keys: stop.keys.clone(), password })
        };
        let end = login(&self.end, "passwordFrom")?;
        if end.keys.is_empty() && end.password.is_none() {
            return Err(denied(
                "no key to log in with: name one with `privateKeyPath` in cluster.yaml, or make ~/.ssh/id_ed25519; or use \
                 `agent: true` or `passwordFrom`"
                    .to_owned(),
            ));
        }
        let via = self.way.iter().map(|stop| {
            let login = login(stop, "via: passwordFrom")?;
            Ok(Hop { address: stop.address.clone(), port: stop.port, login })
        });
        Ok(SshTarget {
            name: self.name.clone(),
            address: self.end.address.clone(),
            port: self.end.port,
            login: end,
            sudo_password: secret("sudoPasswordFrom", &self.sudo_password)?,
            via: via.collect::<Result<_, LinkError>>()?,
            folders: self.folders.clone(),
        })
    }

    /// The host and the route to it, for people: `root@10.0.0.2:22 via jump@198.51.100.7:22`.
    pub fn route(&self) -> String {
        route(&self.end, &self.way)
    }

    /// Every secret that [`Self::resolve`] reads or the connection uses, for the bastions and the host.
    pub fn uses(&self) -> Vec<Use> {
        let mut uses = Vec::new();
        for (number, stop) in self.way.iter().chain([&self.end]).enumerate() {
            let goes_to: Arc<str> = route(stop, self.way.get(..number).unwrap_or_default()).into();
            let keys = stop.keys.iter().map(|key| match key {
                KeySource::File(path) => format!("private key {}", shown(path)),
                KeySource::Agent(path) => format!("keys of the ssh-agent at {}", shown(path)),
            });
            let password =
                stop.password.as_ref().map(|source| format!("SSH password from {}", describe_source(source)));
            uses.extend(keys.chain(password).map(|secret| Use { secret, goes_to: Arc::clone(&goes_to) }));
        }
        if let Some(source) = &self.sudo_password {
            let secret = format!("sudo password from {}", describe_source(source));
            uses.push(Use { secret, goes_to: self.route().into() });
        }
        uses
    }
}

fn route(stop: &Stop, way: &[Stop]) -> String {
    let mut text = stop.login();
    if !way.is_empty() {
        text.push_str(" via ");
        text.push_str(&way.iter().map(Stop::login).collect::<Vec<_>>().join(", "));
    }
    text
}

impl Stop {
    fn login(&self) -> String {
        let (user, address) = (escaped(&self.user), escaped(&self.address));
        match address.contains(':') {
            true => format!("{user}@[{address}]:{}", self.port),
            false => format!("{user}@{address}:{}", self.port),
        }
    }
}

/// The source of a secret, for people.
pub fn describe_source(source: &SecretSource) -> String {
    match source {
        SecretSource::Env(name) => format!("the environment variable {}", escaped(name)),
        SecretSource::File(path) => format!("the file {}", shown(path)),
    }
}

/// The same of a secret that hosts are given.
pub fn describe_from(source: &SecretFrom<'_>) -> String {
    match source {
        SecretFrom::Source(source) => describe_source(source),
        SecretFrom::Docker(DockerLogin { path, registry, username }) => format!(
            "the login of {} for {} in the docker configuration {}, by the credential helper if that names one",
            escaped(username),
            escaped(registry),
            shown(path)
        ),
    }
}

fn shown(path: &Path) -> String {
    escaped(&path.to_string_lossy())
}

/// A named key comes first, then those of the ssh-agent. If no key is named, the agent's come before the user's default
/// key, so that its passphrase is not asked for; if a password is given, nothing else is tried.
fn keys(named: Option<&Path>, agent: bool, password: bool, home: &Home) -> Vec<KeySource> {
    let unnamed = named.is_none() && !password;
    let mut keys: Vec<KeySource> = named.map(|path| KeySource::File(home.expand(path))).into_iter().collect();
    keys.extend(home.ssh_agent().filter(|_| agent || unnamed).map(KeySource::Agent));
    keys.extend(home.default_key().filter(|_| unnamed && !agent).map(KeySource::File));
    keys
}
