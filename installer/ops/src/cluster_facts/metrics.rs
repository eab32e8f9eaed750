//! What an API server counts of its clients (Prometheus' text format).

use kubexm_plan::cluster_facts::DeprecatedApi;

use crate::{Machine, OpError, kube};

/// A gauge that is 1 for each deprecated API that was used since the API server started; from Kubernetes 1.19.
const DEPRECATED: &str = "apiserver_requested_deprecated_apis{";

pub(super) fn deprecated_apis(machine: &Machine) -> Result<Vec<DeprecatedApi>, OpError> {
    Ok(of_text(&kube::raw_text(machine, "/metrics")?))
}

fn of_text(text: &str) -> Vec<DeprecatedApi> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(DEPRECATED));
    let mut all: Vec<DeprecatedApi> = lines.filter_map(|line| of_labels(line.rsplit_once('}')?)).collect();
    all.sort();
    all.dedup();
    all
}

/// Labels and value of one line. Names of API groups and resources have no characters that are escaped.
fn of_labels((labels, value): (&str, &str)) -> Option<DeprecatedApi> {
    if value.trim().parse::<f64>().ok()? <= 0.0 {
        return None;
    }
    let label = |wanted: &str| {
        let mut pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
        let found = pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value.trim_matches('"').to_owned());
        found.unwrap_or_default()
    };
    let (resource, subresource) = (label("resource"), label("subresource"));
    let resource = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
    Some(DeprecatedApi {
        group: label("group"),
        version: label("version"),
        resource,
        removed_in: label("removed_release"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as kube-apiserver 1.31 writes them.
    #[test]
    fn deprecated_apis_that_were_used_are_read_from_the_metrics() {
        let text = "# HELP apiserver_requested_deprecated_apis [STABLE] Gauge of deprecated APIs\n\
            # TYPE apiserver_requested_deprecated_apis gauge\n\
            apiserver_requested_deprecated_apis{group=\"flowcontrol.apiserver.k8s.io\",removed_release=\"1.32\",resource=\"flowschemas\",subresource=\"\",version=\"v1beta3\"} 1\n\
            apiserver_requested_deprecated_apis{group=\"\",removed_release=\"\",resource=\"componentstatuses\",subresource=\"\",version=\"v1\"} 1\n\
            apiserver_requested_deprecated_apis{group=\"x\",removed_release=\"1.32\",resource=\"y\",subresource=\"status\",version=\"v1\"} 0\n\
            apiserver_request_total{group=\"a\"} 7\n";
        let found: Vec<String> = of_text(text).iter().map(|api| format!("{api} {}", api.removed_in)).collect();
        assert_eq!(found, ["componentstatuses of v1 ", "flowschemas of flowcontrol.apiserver.k8s.io/v1beta3 1.32"]);
    }
}
