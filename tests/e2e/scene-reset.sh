# shellcheck shell=bash
# The fleet's cluster is taken away by a controller that never saw it. Goes on from the scene `fleet`.
. "$ROOT/tests/e2e/fleet.sh"
say "reset, by another controller"
HOME_NAME=home-reset
check "a reset without a yes is refused" exits 11 fleet reset -f "$FLEET_YAML" --accept-new-host-keys
check "a controller that never saw the cluster resets it" fleet reset -f "$FLEET_YAML" -y --accept-new-host-keys
check "after reset every host is as it was before create" as_before
HOME_NAME=home
