# shellcheck shell=bash
# Clusters with Cilium. The lab's agent is built from the Go module, without operator and Envoy: the definitions that the operator makes are
# in the lab's chart.
. "$ROOT/tests/e2e/network.sh"
LAB_CILIUM=$(sed -n "s/^LAB_CILIUM=//p" "$ROOT/tests/lab/cilium.sh")

# cilium_yaml OPTIONS HOST ADDRESS...
cilium_yaml() {
  local network="network: {plugin: cilium, version: $LAB_CILIUM, options: {operator: {enabled: false}, envoy: {enabled: false}, l7Proxy: false, hubble: {enabled: false}$1}}"
  lab cluster-yaml "${@:2}" | sed "s|network: {plugin: flannel}|$network|"
}
is_network() { lab host root "$1" "ip link show cilium_host && ls /sys/fs/bpf/cilium /etc/cni/net.d/05-cilium.conflist"; }
# What /proc and /sys have of it is not in the states that are compared.
nothing_pinned() {
  local host found rc=0
  for host in "$@"; do
    found=$(lab host root "$host" "find /sys/fs/bpf -mindepth 1 ! -name *.debug; tc qdisc show | grep clsact; ip rule | grep -c . | grep -vx 3; ip -6 rule | grep -E 'lookup (2004|2005)|^100:'")
    [ -z "$found" ] || { echo "$host: $found"; rc=1; }
  done
  return "$rc"
}
# The range of each node is the one that its pods' addresses are of.
ranges_are_used() {
  local host range address
  for host in "${FLEET[@]}"; do
    range=$(kubectl_on n1 get node "$host" -o "jsonpath={.spec.podCIDR}")
    address=$(lab host root "$host" "ip -4 -o addr show cilium_host" | sed 's/.* inet \([0-9.]*\).*/\1/')
    echo "$host: $range, $address"
    python3 -c 'import ipaddress, sys; sys.exit(ipaddress.ip_address(sys.argv[2]) not in ipaddress.ip_network(sys.argv[1]))' "$range" "$address" || return 1
  done
}
