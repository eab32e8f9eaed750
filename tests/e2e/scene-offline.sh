# shellcheck shell=bash
# tier: always
# seconds: 125
# needs: lab
# An isolated VLAN: no default route at all.
. "$ROOT/tests/e2e/host.sh"
say "install on a host without a default route"
HOME_NAME=home-offline
lab host up n1 10.77.0.11 --no-gateway
lab watch start n1
check "a delta without its base is refused before a host is touched" exits 33 install --bundle "$WORK/delta.tar.zst" --allow-unsigned -y
check "a cluster comes up without a default route, from a delta and its base" install --bundle "$WORK/delta.tar.zst" --base "$FILE" --allow-unsigned -y --accept-new-host-keys
check "the node is Ready (no default route)" ready n1
check "every pod runs (no default route)" all_running n1
check "no packet and no name left for the outside (no default route)" no_way_out
check "a second create changes nothing (no default route)" changes_nothing

# Two operators of one cluster. The second one's key is encrypted, and its passphrase is in no argument.
operators_file() {
  local key
  key=$(install identity --encrypt) || return 1
  grep -q '^-----BEGIN AGE ENCRYPTED FILE-----' "$WORK/$HOME_NAME/identity" || return 1
  sed "s/^spec:/spec:\n  operators: [{name: bob, recipient: $key}]/" "$WORK/cluster.yaml" > "$WORK/operators.yaml"
}
with_operators() { install --bundle "$FILE" -f "$WORK/operators.yaml" -y --accept-new-host-keys "$@"; }
takes_over() {
  tree n1 > "$WORK/tree-before"
  with_operators || return 1
  tree n1 > "$WORK/tree-after"
  same "$WORK/tree-before" "$WORK/tree-after" && cmp "$WORK"/home-{offline,bob}/clusters/lab/pki/registry-ca.pem
}
echo 'in the safe of the office' > "$WORK/passphrase"
export KUBEXM_PASSPHRASE_FILE=$WORK/passphrase
HOME_NAME=home-bob
check "a second operator makes a key, encrypted with a passphrase" operators_file
check "who is no operator of the cluster is refused, with what to add" says 53 "spec.operators" \
  install --bundle "$FILE" --allow-unsigned -y --accept-new-host-keys
HOME_NAME=home-offline
check "the first operator names the second one" with_operators
HOME_NAME=home-bob
check "the second operator takes over the registry's CA, and changes nothing" takes_over
unset KUBEXM_PASSPHRASE_FILE
lab host down --all
HOME_NAME=home
