# shellcheck shell=bash
# tier: long
# seconds: 600
# needs: lab calico
# Calico as the pod network of two hosts: another MTU reaches both, another pool is refused, both reboot, and one of them leaves and comes back.
# A reset leaves nothing of it, and what is the operator's. Then once more without any tunnel, with BIRD's routes and typha.
. "$ROOT/tests/e2e/calico.sh"
say "Calico as the pod network of two hosts"
HOME_NAME=home-calico
FLEET=(n1 n2)
calico_yaml "encapsulation: VXLAN, blockSize: 27, mtu: 1400" n1 10.77.0.11 n2 10.77.0.12 > "$WORK/calico.yaml"
sed 's/blockSize:/blocksSize:/' "$WORK/calico.yaml" > "$WORK/calico-unknown.yaml"
sed 's/encapsulation: VXLAN/encapsulation: IPIP/' "$WORK/calico.yaml" > "$WORK/calico-ipip.yaml"
sed 's/encapsulation: VXLAN/encapsulation: None, typha: {enabled: true}/; s/, mtu: 1400//' "$WORK/calico.yaml" > "$WORK/calico-none.yaml"
sed 's/blockSize: 27/blockSize: 28/' "$WORK/calico.yaml" > "$WORK/calico-blocks.yaml"
sed 's/mtu: 1400/mtu: 1380/' "$WORK/calico.yaml" > "$WORK/calico-mtu.yaml"

check "an option that Calico does not have is named with the nearest" says 20 "did you mean blockSize" \
  "$BUNDLE" build -f "$WORK/calico-unknown.yaml" --dry-run
check "a bundle has Calico" bundle_of calico
[ "$HELD" = 1 ] || return 0
for other in ipip none blocks mtu; do ln -f "$WORK/calico.tar.zst" "$WORK/calico-$other.tar.zst"; done
lab host up n1 10.77.0.11 n2 10.77.0.12
states before
has_ipip() { lab host root n1 "modinfo ipip || [ -e /sys/module/ipip ]"; }
has_ipip > /dev/null 2>&1 || check "IP in IP is refused where the kernel has none" says 53 "no kernel module ipip" install_of calico-ipip create
mine n2 add
lab watch start n1 n2
check "a cluster of two hosts comes up with Calico" install_of calico create
[ "$HELD" = 1 ] || return 0
check "both nodes are Ready" within 120 nodes_ready 2
check "every pod runs" within 90 all_running n1
for host in "${FLEET[@]}"; do check "Calico is the network of $host" is_network "$host"; done
check "the API server has the manifest with what cluster.yaml says" patched
check "pods reach each other across hosts, and a service by its name" across_hosts
check "no packet left, no name of the outside was asked" no_way_out
check "a second create changes nothing" nothing_to_do calico
check "another size of blocks is refused by name" is_refused calico-blocks "blockSize is 28, and the cluster has 27"
check "another MTU is applied" install_of calico-mtu create
for host in "${FLEET[@]}"; do check "$host has it" within 60 has_mtu "$host" 1380; done
check "the cluster keeps it" nothing_to_do calico-mtu
check "and gets the earlier one again" install_of calico create
booted=$(date -u +%FT%TZ)
check "both hosts reboot" lab host reboot --all
mine n2 add
check "every pod runs again" within 180 all_running_since n1 "$booted"
check "pods reach each other after the reboot" across_hosts
check "after the reboot a create changes nothing" nothing_to_do calico
check "the worker leaves" install_of calico delete-node n2
check "what is the operator's on it stays" mine_is_there n2
mine n2 delete
FLEET=(n2)
check "it is as it was before" as_before
check "nothing of Calico is left in its kernel" nothing_of_calico n2
FLEET=(n1 n2)
check "it comes back" install_of calico add-node
check "both nodes are Ready again" within 120 nodes_ready 2
check "pods reach each other across hosts again" across_hosts
check "the cluster is reset" install_of calico reset
check "every host is as it was before" as_before
check "nothing of Calico is left in the kernel" nothing_of_calico n1 n2
mine n2 add
check "a cluster comes up without any tunnel" install_of calico-none create
check "every pod runs there" within 120 all_running n1
check "the other host's pods are reached over the host's own link" is_direct n1 10.77.0.12
check "pods reach each other across hosts without a tunnel" across_hosts
check "typha runs, and on the worker" typha_moves_to n2 n1
check "a drain of the worker takes it off, and it does not come back there" typha_leaves n2
check "that cluster is reset" install_of calico-none reset
check "what is the operator's is still there" mine_is_there n2
mine n2 delete
check "every host is as it was before all" as_before
check "no route of Calico is left" nothing_of_calico n1 n2
lab host down --all
HOME_NAME=home
