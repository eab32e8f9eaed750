//! An etcd of the user's, with keys of others. `/run/kubexm-double/external-etcd.json` has its endpoints and its keys; without the file no
//! host has one.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::rooted::RootedSystem;
use crate::OpError;
use crate::system::HttpsRequest;

const FILE: &str = "/run/kubexm-double/external-etcd.json";

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct External {
    endpoints: Vec<String>,
    keys: BTreeMap<String, String>,
    /// An API server that still runs writes this key again after each deletion.
    #[serde(default)]
    written: Option<String>,
}

/// None if nobody of it is at the request's address.
pub(super) fn answer(system: &RootedSystem, request: &HttpsRequest<'_>) -> Result<Option<(u16, Vec<u8>)>, OpError> {
    let Ok(bytes) = std::fs::read(system.at(FILE)) else { return Ok(None) };
    let mut etcd: External = serde_json::from_slice(&bytes).map_err(|error| OpError::other(error.to_string()))?;
    let of_it = |endpoint: &String| request.url.strip_prefix(&format!("{endpoint}/")).map(str::to_owned);
    let Some((id, path)) = (1..).zip(&etcd.endpoints).find_map(|(id, one)| Some((id, of_it(one)?))) else {
        return Ok(None);
    };
    let body: Value = serde_json::from_str(request.body).unwrap_or_default();
    let bytes = |name: &str| body[name].as_str().and_then(|text| BASE64.decode(text).ok()).unwrap_or_default();
    let (key, end) = (bytes("key"), bytes("range_end"));
    let is_in = |one: &str| match end.is_empty() {
        true => one.as_bytes() == key,
        false => one.as_bytes() >= key.as_slice() && one.as_bytes() < end.as_slice(),
    };
    let answer = match path.as_str() {
        "v3/maintenance/status" => {
            let header = json!({"cluster_id": "88", "member_id": id.to_string()});
            json!({"version": "3.6.5", "leader": "1", "header": header})
        }
        "v3/cluster/member/list" => {
            let member = |(id, url): (usize, &String)| {
                // By names of their own network, which the cluster's hosts need not know.
                let (name, peer) = (format!("theirs{id}"), url.replace(":2379", ":2380"));
                let client = format!("https://{name}.example:2379");
                json!({"ID": id.to_string(), "name": name, "peerURLs": [peer], "clientURLs": [client]})
            };
            json!({"members": (1..).zip(&etcd.endpoints).map(member).collect::<Vec<_>>()})
        }
        "v3/kv/range" => {
            let limit = body["limit"].as_str().and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
            let found: Vec<_> = etcd.keys.iter().filter(|(one, _)| is_in(one)).collect();
            let shown =
                |(key, value): &(&String, &String)| json!({"key": BASE64.encode(key), "value": BASE64.encode(value)});
            let kvs: Vec<Value> = match body["count_only"] == true {
                true => Vec::new(),
                false => found.iter().take(limit).map(shown).collect(),
            };
            match found.len() {
                0 => json!({}),
                count => json!({"kvs": kvs, "count": count.to_string()}),
            }
        }
        "v3/kv/deleterange" => {
            etcd.keys.retain(|one, _| !is_in(one));
            if let Some(written) = &etcd.written {
                etcd.keys.insert(written.clone(), String::new());
            }
            let text = serde_json::to_vec(&etcd).map_err(|error| OpError::other(error.to_string()))?;
            std::fs::write(system.at(FILE), text).map_err(OpError::path("write", FILE))?;
            json!({"deleted": "1"})
        }
        _ => return Ok(Some((404, json!({"message": "Not Found"}).to_string().into_bytes()))),
    };
    Ok(Some((200, answer.to_string().into_bytes())))
}
