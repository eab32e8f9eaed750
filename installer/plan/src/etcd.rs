//! etcd that is not kubeadm's: the names and files that recipes and ops share.

/// The unit of a member, with `spec.etcd.type: kubexm`.
pub const UNIT: &str = "kubexm-etcd.service";
/// Its configuration.
pub const CONFIG: &str = "/etc/kubexm/etcd/config.yaml";
/// Folder of a member's certificates and configuration.
pub const MEMBER: &str = "/etc/kubexm/etcd";
/// The CA of members and clients, on a member.
pub const CA: &str = "/etc/kubexm/etcd/ca.crt";
/// A member's certificate for clients.
pub const SERVER_CERT: &str = "/etc/kubexm/etcd/server.crt";
/// Its key.
pub const SERVER_KEY: &str = "/etc/kubexm/etcd/server.key";
/// A member's certificate for the other members.
pub const PEER_CERT: &str = "/etc/kubexm/etcd/peer.crt";
/// Its key.
pub const PEER_KEY: &str = "/etc/kubexm/etcd/peer.key";
/// A client's certificate for checks and snapshots on the member's own host.
pub const ADMIN_CERT: &str = "/etc/kubexm/etcd/client.crt";
/// Its key.
pub const ADMIN_KEY: &str = "/etc/kubexm/etcd/client.key";
/// Written once the member has been healthy: from then on it starts with its data only. The cluster's id, etcd's version,
/// and its data folder where that is not the usual one.
pub const FORMED: &str = "/etc/kubexm/etcd/formed";
/// Where the API servers keep their objects in an etcd of the user's: the prefix, and an endpoint a line. Written before the
/// first of them starts.
pub const KEYSPACE: &str = "/etc/kubexm/etcd-keyspace";
/// Folder of the API server's client certificate: kubeadm mounts it into the API server's pod, so nothing else is in it.
pub const CLIENT: &str = "/etc/kubexm/etcd-client";
/// The CA of the members, on a control plane.
pub const CLIENT_CA: &str = "/etc/kubexm/etcd-client/ca.crt";
/// The API server's client certificate.
pub const CLIENT_CERT: &str = "/etc/kubexm/etcd-client/client.crt";
/// Its key.
pub const CLIENT_KEY: &str = "/etc/kubexm/etcd-client/client.key";
/// Where kubeadm's etcd has its data, on a control plane where that is not the usual folder; written before it is made there.
pub const DATA_DIR: &str = "/etc/kubexm/etcd-data-dir";

/// A configuration of kubeadm with other members in `etcd.external.endpoints`; none if it has no such list. Line by line, so that nothing
/// else of it changes.
pub fn with_endpoints(configuration: &str, endpoints: &[String]) -> Option<String> {
    let lines: Vec<&str> = configuration.lines().collect();
    let external = lines.iter().position(|line| line.trim() == "external:")?;
    let at = external + lines[external..].iter().position(|line| line.trim() == "endpoints:")?;
    let is_item = |line: &&&str| line.trim_start().starts_with("- ");
    let items: Vec<&&str> = lines[at + 1..].iter().take_while(is_item).collect();
    let (before, text) = items.first()?.split_once("- ")?;
    let quote = text.trim_start().chars().next().filter(|first| matches!(first, '"' | '\'')).map(String::from);
    let quote = quote.unwrap_or_default();
    let listed = endpoints.iter().map(|url| format!("{before}- {quote}{url}{quote}"));
    let head = lines[..=at].iter().map(|line| (*line).to_owned());
    let tail = lines[at + 1 + items.len()..].iter().map(|line| (*line).to_owned());
    let all: Vec<String> = head.chain(listed).chain(tail).collect();
    Some(all.join("\n") + if configuration.ends_with('\n') { "\n" } else { "" })
}

/// The members in such a list.
pub fn endpoints_of(configuration: &str) -> Option<Vec<String>> {
    let mut lines = configuration.lines().skip_while(|line| line.trim() != "external:");
    lines.find(|line| line.trim() == "endpoints:")?;
    let items = lines.map_while(|line| line.trim_start().strip_prefix("- "));
    let urls: Vec<String> = items.map(|url| url.trim().trim_matches(['"', '\'']).to_owned()).collect();
    (!urls.is_empty()).then_some(urls)
}

const SERVERS: &str = "- --etcd-servers=";

/// The members in a manifest of the API server.
pub fn servers_of(manifest: &str) -> Option<Vec<String>> {
    let flag = manifest.lines().find_map(|line| line.trim().strip_prefix(SERVERS))?;
    Some(flag.split(',').map(str::to_owned).collect())
}

/// A manifest of the API server with other members; none if it has no such flag.
pub fn with_servers(manifest: &str, servers: &[String]) -> Option<String> {
    let start = manifest.find(SERVERS)? + SERVERS.len();
    let end = manifest[start..].find('\n').map_or(manifest.len(), |length| start + length);
    Some(format!("{}{}{}", &manifest[..start], servers.join(","), &manifest[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURATION: &str = "apiServer: {}\netcd:\n  external:\n    caFile: /ca\n    endpoints:\n    - https://10.0.0.1:2379\n    \
                                 - https://10.0.0.2:2379\n    keyFile: /key\nkind: ClusterConfiguration\n";

    fn urls(last: &[u8]) -> Vec<String> {
        last.iter().map(|last| format!("https://10.0.0.{last}:2379")).collect()
    }

    #[test]
    fn endpoints_are_replaced_line_by_line() {
        assert_eq!(endpoints_of(CONFIGURATION), Some(urls(&[1, 2])));
        let other = with_endpoints(CONFIGURATION, &urls(&[2, 3, 4])).unwrap();
        assert_eq!(endpoints_of(&other), Some(urls(&[2, 3, 4])));
        assert_eq!(
            with_endpoints(&other, &urls(&[1, 2])).as_deref(),
            Some(CONFIGURATION),
            "nothing else of it changes"
        );
        let quoted = CONFIGURATION.replace("- https://10.0.0.1:2379", "- \"https://10.0.0.1:2379\"");
        let other = with_endpoints(&quoted, &urls(&[7])).unwrap();
        assert!(other.contains("    - \"https://10.0.0.7:2379\"\n    keyFile"), "{other}");
        assert_eq!(endpoints_of(&quoted), Some(urls(&[1, 2])));
    }

    #[test]
    fn a_configuration_without_members_has_none_to_replace() {
        for text in ["", "etcd:\n  local: {}\n", "etcd:\n  external:\n    caFile: /ca\n", "external:\nendpoints:\n"] {
            assert_eq!((with_endpoints(text, &urls(&[1])), endpoints_of(text)), (None, None), "{text}");
        }
    }

    #[test]
    fn of_a_manifest_one_flag_changes() {
        let manifest = "    - kube-apiserver\n    - --etcd-servers=https://10.0.0.1:2379\n    - --secure-port=6443\n";
        let other = with_servers(manifest, &urls(&[1, 2])).unwrap();
        assert_eq!(servers_of(&other), Some(urls(&[1, 2])));
        assert_eq!(with_servers(&other, &urls(&[1])).as_deref(), Some(manifest));
        assert_eq!(
            with_servers("    - --etcd-servers=a", &urls(&[1])).as_deref(),
            Some("    - --etcd-servers=https://10.0.0.1:2379")
        );
        assert_eq!((servers_of("kind: Pod\n"), with_servers("kind: Pod\n", &urls(&[1]))), (None, None));
    }
}
