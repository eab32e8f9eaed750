# shellcheck shell=bash
# tier: long
# seconds: 240
# needs: lab
# Pods and services with addresses of both families, on two hosts that have both: a node without its second address is refused, pods reach each
# other and a service by IPv6 across hosts, a second create changes nothing, and a reset leaves nothing.
. "$ROOT/tests/e2e/stacks.sh"
say "two stacks"
HOME_NAME=home-two-stacks
FLEET=(d1 d2)
lab host down --all
lab cluster-yaml --control-planes 1 d1 10.77.0.51 d2 10.77.0.52 | of_stacks > "$WORK/two-stacks.yaml"
check "a bundle with two stacks is built" bundle_of two-stacks
[ "$HELD" = 1 ] || return 0
lab host up d1 10.77.0.51 d2 10.77.0.52
check "a host without its second address is refused" says 53 "no interface with fd00:77::51" install_of two-stacks create
second_addresses
states before
check "two hosts become a cluster with two stacks" install_of two-stacks create
[ "$HELD" = 1 ] || return 0
check "both nodes are Ready" within 120 stacks_ready
check "a pod on each host, and a service of both families" stacks_answer
check "pods reach each other by both families" by_both_families d1 d2
check "and in the other direction" by_both_families d2 d1
check "and the service by both families" by_service
check "a second create changes nothing (two stacks)" nothing_to_do two-stacks
check "it is reset (two stacks)" install_of two-stacks reset
check "and nothing is left (two stacks)" as_before
lab host down --all
FLEET=(n1 n2 n3)
HOME_NAME=home
