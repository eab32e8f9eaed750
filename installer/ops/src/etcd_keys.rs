//! The keys of a cluster in an etcd of the user's, through its JSON gateway: nothing outside of the cluster's prefix is read or deleted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kubexm_plan::ClusterId;
use kubexm_plan::cluster_facts::applied;
use kubexm_plan::etcd;
use kubexm_plan::etcd_check::KeysOf;
use serde_json::{Value, json};

use crate::ops::act::members::{Client, range_of};
use crate::{Machine, OpError};

/// Folders below a prefix that are looked at: a cluster has one for each kind of object.
const MOST_FOLDERS: usize = 10_000;

/// With the certificate of this host's API server: the first endpoint that answers.
pub(crate) fn reach(machine: &Machine, endpoints: &[String]) -> Result<(Client, String), OpError> {
    let files = [etcd::CLIENT_CA, etcd::CLIENT_CERT, etcd::CLIENT_KEY].map(str::to_owned);
    let client = Client::of_files(machine, &files)?.ok_or_else(|| {
        OpError::other(format!("{} has no certificate for that etcd and its key any more", etcd::CLIENT))
    })?;
    let mut why = Vec::new();
    for endpoint in endpoints {
        match client.status(machine, endpoint) {
            Ok(_) => return Ok((client, endpoint.clone())),
            Err(error) => why.push(error.full()),
        }
    }
    Err(OpError::other(format!("no member of that etcd answers: {}", why.join("; "))))
}

/// The keys below one prefix.
pub(crate) struct Keys<'a> {
    client: &'a Client,
    machine: &'a Machine,
    endpoint: &'a str,
    /// With its last slash.
    prefix: String,
}

impl<'a> Keys<'a> {
    /// Those that begin with a prefix and a slash.
    pub(crate) fn below(
        client: &'a Client,
        machine: &'a Machine,
        endpoint: &'a str,
        prefix: &str,
    ) -> Result<Self, OpError> {
        // An empty one would be everybody's keys.
        let good = prefix.len() > 1 && prefix.starts_with('/') && !prefix.ends_with('/');
        match good {
            true => Ok(Self { client, machine, endpoint, prefix: format!("{prefix}/") }),
            false => Err(OpError::other(format!("{prefix:?} is no prefix of a cluster's keys"))),
        }
    }

    fn call(&self, verb: &str, body: &Value) -> Result<Value, OpError> {
        self.client.call(self.machine, self.endpoint, verb, &body.to_string())
    }

    pub(crate) fn count(&self) -> Result<u64, OpError> {
        self.client.count(self.machine, self.endpoint, &self.prefix)
    }

    /// Deletes all of them, in one transaction.
    pub(crate) fn delete(&self) -> Result<(), OpError> {
        let (key, range_end) = range_of(&self.prefix);
        self.call("kv/deleterange", &json!({"key": key, "range_end": range_end})).map(drop)
    }

    /// Whose they are, as far as they say.
    pub(crate) fn of(&self, cluster: ClusterId) -> Result<KeysOf, OpError> {
        for folder in self.folders()? {
            // Every cluster has this namespace; a kind of object has it only as somebody's odd name.
            for below in ["namespaces", "registry/namespaces"] {
                if self.value(&format!("{}{folder}/{below}/kube-system", self.prefix))?.is_some() {
                    return Ok(KeysOf::Shared(folder));
                }
            }
        }
        let record = format!("{}configmaps/{}/{}", self.prefix, applied::NAMESPACE, applied::CONFIG_MAP);
        let Some(record) = self.value(&record)? else { return Ok(KeysOf::Unknown) };
        // Objects are in protobuf, in which texts are as they are; where the site encrypts them nothing can be read.
        let has = |text: &str| record.windows(text.len()).any(|window| window == text.as_bytes());
        Ok(match () {
            () if !has(applied::SCHEMA) => KeysOf::Unknown,
            () if has(&cluster.to_string()) => KeysOf::This,
            () => KeysOf::Other,
        })
    }

    fn value(&self, key: &str) -> Result<Option<Vec<u8>>, OpError> {
        let answer = self.call("kv/range", &json!({"key": BASE64.encode(key)}))?;
        let bad = |_| OpError::other(format!("{}/v3/kv/range answers with a value that cannot be read", self.endpoint));
        let value = answer["kvs"].as_array().and_then(|all| all.first());
        value.map(|one| BASE64.decode(one["value"].as_str().unwrap_or_default()).map_err(bad)).transpose()
    }

    /// The first parts of the keys, one request for each.
    fn folders(&self) -> Result<Vec<String>, OpError> {
        let (mut from, end) = range_of(&self.prefix);
        let mut found = Vec::new();
        while found.len() < MOST_FOLDERS {
            let body = json!({"key": from, "range_end": end, "limit": "1", "keys_only": true});
            let answer = self.call("kv/range", &body)?;
            let Some(first) = answer["kvs"].as_array().and_then(|all| all.first()) else { return Ok(found) };
            let bad =
                || OpError::other(format!("{}/v3/kv/range answers with a key that cannot be read", self.endpoint));
            let key = BASE64.decode(first["key"].as_str().unwrap_or_default()).ok();
            let key = key.and_then(|key| String::from_utf8(key).ok()).ok_or_else(bad)?;
            let rest = key.strip_prefix(&self.prefix).ok_or_else(bad)?;
            let folder = rest.split('/').next().unwrap_or(rest).to_owned();
            from = match rest.contains('/') {
                true => range_of(&format!("{}{folder}/", self.prefix)).1,
                // A key of its own: the next one is after it.
                false => BASE64.encode(format!("{key}\0")),
            };
            found.push(folder);
        }
        Err(OpError::other(format!("more than {MOST_FOLDERS} kinds of objects are below {}", self.prefix)))
    }
}
