# shellcheck shell=bash
# tier: unproven
# seconds: 600
# needs: lab cilium
# Cilium as the pod network: two hosts beside kube-proxy, which reboot, and one of which leaves and comes back; then one host without kube-proxy. A
# reset leaves nothing of either. The lab's agent is built from the Go module, without operator and Envoy: the definitions that the
# operator makes are in the lab's chart.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/across.sh"
LAB_CILIUM=$(sed -n "s/^LAB_CILIUM=//p" "$ROOT/tests/lab/cilium.sh")
say "Cilium as the pod network of two hosts"
HOME_NAME=home-cilium
FLEET=(n1 n2)

# cilium_yaml OPTIONS HOST ADDRESS...
cilium_yaml() {
  local network="network: {plugin: cilium, version: $LAB_CILIUM, options: {operator: {enabled: false}, envoy: {enabled: false}, l7Proxy: false, hubble: {enabled: false}$1}}"
  lab cluster-yaml "${@:2}" | sed "s|network: {plugin: flannel}|$network|"
}
cilium_yaml "" n1 10.77.0.11 n2 10.77.0.12 > "$WORK/cilium.yaml"
# Without links of programs it attaches them as filters of tc, as on kernels before 6.6.
cilium_yaml ", kubeProxyReplacement: true, bpf: {enableTCX: false}" n1 10.77.0.11 > "$WORK/cilium-alone.yaml"
sed 's/l7Proxy:/l8Proxy:/' "$WORK/cilium.yaml" > "$WORK/cilium-unknown.yaml"
cilium_bundle() {
  "$BUNDLE" build -f "$WORK/$1.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$WORK/$1.tar.zst"
}
# cilium YAML VERB ARGS...: the installer, with the bundle of the kind
cilium() {
  local bundle=cilium
  [ "$1" != cilium-alone ] || bundle=cilium-alone
  install "$2" --bundle "$WORK/$bundle.tar.zst" -f "$WORK/$1.yaml" --allow-unsigned --accept-new-host-keys -y "${@:3}"
}
nodes_ready() { [ "$(kubectl_on n1 get nodes --no-headers | grep -c ' Ready ')" = "$1" ]; }
nothing_to_do() {
  cilium "$1" create --json > "$WORK/again.jsonl" || { tail -n 3 "$WORK/again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/again.jsonl"
}
is_network() { lab host root "$1" "ip link show cilium_host && ls /sys/fs/bpf/cilium /etc/cni/net.d/05-cilium.conflist"; }
# What /proc and /sys have of it is not in the states that are compared.
nothing_pinned() {
  local host found rc=0
  for host in "$@"; do
    found=$(lab host root "$host" "find /sys/fs/bpf -mindepth 1 ! -name *.debug; tc qdisc show | grep clsact; ip rule | grep -c . | grep -vx 3")
    [ -z "$found" ] || { echo "$host: $found"; rc=1; }
  done
  return "$rc"
}
ranges() { kubectl_on n1 get nodes -o "jsonpath={.items[*].spec.podCIDR}"; }
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

check "an option that Cilium does not have is named with the nearest" says 20 "did you mean l7Proxy" \
  "$BUNDLE" build -f "$WORK/cilium-unknown.yaml" --dry-run
check "a bundle has Cilium" cilium_bundle cilium
[ "$HELD" = 1 ] || return 0
lab host up n1 10.77.0.11 n2 10.77.0.12
states before
lab watch start n1 n2
check "a cluster of two hosts comes up with Cilium" cilium cilium create
[ "$HELD" = 1 ] || return 0
check "both nodes are Ready" within 120 nodes_ready 2
check "every pod runs" within 90 all_running n1
for host in "${FLEET[@]}"; do check "Cilium is the network of $host" is_network "$host"; done
check "addresses are of the ranges that the nodes have in the API" ranges_are_used
check "pods reach each other across hosts, and a service by its name" across_hosts
check "no packet left, no name of the outside was asked" no_way_out
check "a second create changes nothing" nothing_to_do cilium
booted=$(date -u +%FT%TZ)
check "both hosts reboot" lab host reboot --all
check "every pod runs again" within 180 all_running_since n1 "$booted"
check "pods reach each other after the reboot" across_hosts
check "after the reboot a create changes nothing" nothing_to_do cilium
check "the worker leaves" cilium cilium delete-node n2
FLEET=(n2)
check "it is as it was before" as_before
check "nothing of Cilium is left in its kernel" nothing_pinned n2
FLEET=(n1 n2)
check "it comes back" cilium cilium add-node
check "both nodes are Ready again" within 120 nodes_ready 2
check "pods reach each other across hosts again" across_hosts
check "the cluster is reset" cilium cilium reset
check "every host is as it was before" as_before
check "nothing of Cilium is left in the kernel" nothing_pinned n1 n2

say "Cilium in place of kube-proxy"
HOME_NAME=home-cilium-alone
FLEET=(n1)
lab host down n2
no_kube_proxy() {
  kubectl_on n1 -n kube-system get daemonsets -o name
  [ "$(kubectl_on n1 -n kube-system get daemonsets -o name)" = daemonset.apps/cilium ] && ! lab host root n1 pgrep -x kube-proxy
}
check "a bundle has Cilium without kube-proxy" cilium_bundle cilium-alone
check "a host comes up without kube-proxy" cilium cilium-alone create
check "there is no kube-proxy" no_kube_proxy
check "the node is Ready, and every pod runs" within 90 all_running n1
check "a service is reached by its name without kube-proxy" across_hosts
check "a second create changes nothing there" nothing_to_do cilium-alone
check "that cluster is reset, too" cilium cilium-alone reset
check "the host is as it was before, without kube-proxy" as_before
check "nothing of it is left in the kernel" nothing_pinned n1
lab host down --all
HOME_NAME=home
