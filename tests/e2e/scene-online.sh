# shellcheck shell=bash
# tier: always
# seconds: 170
# needs: lab
# A host with a default route (which leads nowhere): install, look, install again.
. "$ROOT/tests/e2e/host.sh"
say "install on a host with a default route"
lab host up n1 10.77.0.11
lab watch start n1
check "the watch counts what it must (positive control)" lab watch control n1
check "an unknown host key is refused" exits 51 install --bundle "$FILE" --key "$WORK/release.pub" --signature "$WORK/lab.sig" -y
check "a cluster comes up from the bundle that a trusted key has signed" says 0 "signed by release (key " \
  install --bundle "$FILE" --key "$WORK/release.pub" --signature "$WORK/lab.sig" -y --accept-new-host-keys
check "the node is Ready" ready n1
check "every pod runs" all_running n1
check "no packet and no name left for the outside" no_way_out
objects n1 > "$WORK/objects-online" || true
tree n1 > "$WORK/tree-online"
reached online "$WORK"/{objects,tree}-online
check "a second create changes nothing" changes_nothing
sed 's,network: {plugin: flannel},network: {plugin: flannel\, podCidr: 10.244.64.0/18},' "$WORK/cluster.yaml" > "$WORK/other-network.yaml"
check "a running cluster is not half changed by another pod network" \
  says 53 "networking.podSubnet: 10.233.64.0/18 -> 10.244.64.0/18" install --bundle "$FILE" -f "$WORK/other-network.yaml" -y
REBOOTED=$(date -u +%FT%TZ)
check "the cluster survives a reboot" bash -c "'$ROOT/scripts/lab' host reboot n1"
check "the depot is back after the reboot" depot_back n1
check "the node is Ready again after the reboot" becomes_ready n1
check "every pod was started again after the reboot" within 180 all_running_since n1 "$REBOOTED"
check "a create after the reboot changes nothing" changes_nothing
lab host down --all
