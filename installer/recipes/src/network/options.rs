//! `spec.network.options`, as it is written.

use kubexm_spec::cluster::Cluster;
use serde_json::{Map, Value};

/// The value of an option, whose name is a path: `networking.TUNNEL_TYPE`.
pub(super) fn option<'a>(options: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let mut parts = name.split('.');
    let first = options.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

/// The word that an option has, or its default.
pub(super) fn chosen<'a>(cluster: &'a Cluster, (name, default): (&str, &'a str)) -> &'a str {
    option(&cluster.network.options, name).and_then(Value::as_str).unwrap_or(default)
}
