# shellcheck shell=bash
# tier: long
# seconds: 340
# needs: lab cilium
# Cilium as the pod network of two hosts, beside kube-proxy: both reboot, and one of them leaves and comes back. A reset leaves nothing.
. "$ROOT/tests/e2e/cilium.sh"
say "Cilium as the pod network of two hosts"
HOME_NAME=home-cilium
FLEET=(n1 n2)
cilium_yaml "" n1 10.77.0.11 n2 10.77.0.12 > "$WORK/cilium.yaml"
sed 's/l7Proxy:/l8Proxy:/' "$WORK/cilium.yaml" > "$WORK/cilium-unknown.yaml"

check "an option that Cilium does not have is named with the nearest" says 20 "did you mean l7Proxy" \
  "$BUNDLE" build -f "$WORK/cilium-unknown.yaml" --dry-run
check "a bundle has Cilium" bundle_of cilium
[ "$HELD" = 1 ] || return 0
lab host up n1 10.77.0.11 n2 10.77.0.12
states before
lab watch start n1 n2
check "a cluster of two hosts comes up with Cilium" install_of cilium create
[ "$HELD" = 1 ] || return 0
check "both nodes are Ready" within 120 nodes_ready 2
check "every pod runs" within 90 all_running n1
for host in "${FLEET[@]}"; do check "Cilium is the network of $host" is_network "$host"; done
check "addresses are of the ranges that the nodes have in the API" ranges_are_used
check "pods reach each other across hosts, and a service by its name" across_hosts
check "no packet left, no name of the outside was asked" no_way_out
check "systemd-networkd starts again, and routes and rules stay" networkd_again n2
check "a second create changes nothing" nothing_to_do cilium
booted=$(date -u +%FT%TZ)
check "both hosts reboot" lab host reboot --all
check "every pod runs again" within 180 all_running_since n1 "$booted"
check "pods reach each other after the reboot" across_hosts
check "after the reboot a create changes nothing" nothing_to_do cilium
check "the worker leaves" install_of cilium delete-node n2
FLEET=(n2)
check "it is as it was before" as_before
check "nothing of Cilium is left in its kernel" nothing_pinned n2
FLEET=(n1 n2)
check "it comes back" install_of cilium add-node
check "both nodes are Ready again" within 120 nodes_ready 2
check "pods reach each other across hosts again" across_hosts
check "the cluster is reset" install_of cilium reset
check "every host is as it was before" as_before
check "nothing of Cilium is left in the kernel" nothing_pinned n1 n2
lab host down --all
HOME_NAME=home
