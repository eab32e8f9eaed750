# shellcheck shell=bash
# tier: long
# seconds: 400
# needs: lab cilium
# Cilium with addresses of both families, on two hosts: pods reach each other and a service by each of them, also after
# a worker has left and come back. A reset leaves nothing.
. "$ROOT/tests/e2e/cilium.sh"
. "$ROOT/tests/e2e/stacks.sh"
say "Cilium with two stacks"
HOME_NAME=home-cilium-stacks
FLEET=(d1 d2)
lab host down --all
cilium_yaml "" d1 10.77.0.51 d2 10.77.0.52 | of_stacks > "$WORK/cilium-stacks.yaml"
check "a bundle has Cilium with two stacks" bundle_of cilium-stacks
[ "$HELD" = 1 ] || return 0
lab host up d1 10.77.0.51 d2 10.77.0.52
second_addresses
states before
check "two hosts become a cluster with Cilium and two stacks" install_of cilium-stacks create
[ "$HELD" = 1 ] || return 0
check "both nodes are Ready" within 120 stacks_ready
for host in "${FLEET[@]}"; do check "Cilium is the network of $host" is_network "$host"; done
check "a pod on each host, and a service of both families" stacks_answer
check "pods reach each other by both families" by_both_families d1 d2
check "and in the other direction" by_both_families d2 d1
check "and the service by both families" by_service
check "a second create changes nothing" nothing_to_do cilium-stacks
check "the worker leaves" install_of cilium-stacks delete-node d2
FLEET=(d2)
check "it is as it was before" as_before
check "nothing of Cilium is left in its kernel" nothing_pinned d2
FLEET=(d1 d2)
check "it comes back" install_of cilium-stacks add-node
check "both nodes are Ready again" within 120 stacks_ready
check "pods have addresses of both families there, too" within 60 by_both_families d1 d2
check "the cluster is reset" install_of cilium-stacks reset
check "every host is as it was before" as_before
check "nothing of Cilium is left in the kernel" nothing_pinned d1 d2
lab host down --all
FLEET=(n1 n2 n3)
HOME_NAME=home
