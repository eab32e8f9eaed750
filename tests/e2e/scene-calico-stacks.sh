# shellcheck shell=bash
# tier: long
# seconds: 240
# needs: lab calico
# Calico with addresses of both families, on two hosts: pods reach each other and a service by each of them, a second create changes nothing, and
# a reset leaves nothing.
. "$ROOT/tests/e2e/calico.sh"
. "$ROOT/tests/e2e/stacks.sh"
say "Calico with two stacks"
HOME_NAME=home-calico-stacks
FLEET=(d1 d2)
lab host down --all
calico_yaml "encapsulation: VXLAN" d1 10.77.0.51 d2 10.77.0.52 | of_stacks > "$WORK/calico-stacks.yaml"
sed 's/encapsulation: VXLAN/encapsulation: IPIP/' "$WORK/calico-stacks.yaml" > "$WORK/calico-stacks-ipip.yaml"
check "a bundle has Calico with two stacks" bundle_of calico-stacks
[ "$HELD" = 1 ] || return 0
ln -f "$WORK/calico-stacks.tar.zst" "$WORK/calico-stacks-ipip.tar.zst"
lab host up d1 10.77.0.51 d2 10.77.0.52
second_addresses
states before
check "IP in IP with two stacks is refused by name" says 22 "pods have both families with VXLAN" install_of calico-stacks-ipip create
check "two hosts become a cluster with Calico and two stacks" install_of calico-stacks create
[ "$HELD" = 1 ] || return 0
check "both nodes are Ready" within 120 stacks_ready
for host in "${FLEET[@]}"; do check "Calico is the network of $host" is_network "$host"; done
check "a pod on each host, and a service of both families" stacks_answer
check "pods reach each other by both families" by_both_families d1 d2
check "and in the other direction" by_both_families d2 d1
check "and the service by both families" by_service
check "a second create changes nothing" nothing_to_do calico-stacks
check "the cluster is reset" install_of calico-stacks reset
check "every host is as it was before" as_before
check "nothing of Calico is left in the kernel" nothing_of_calico d1 d2
lab host down --all
FLEET=(n1 n2 n3)
HOME_NAME=home
