# shellcheck shell=bash
# tier: always
# seconds: 100
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
lab host down --all
HOME_NAME=home
