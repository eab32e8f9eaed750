# shellcheck shell=bash
# The fleet's cluster is taken away by a controller that never saw it, after another one died over it. Goes on from the scene `fleet`.
. "$ROOT/tests/e2e/fleet.sh"
say "reset, by another controller"
HOME_NAME=home-reset
check "a reset without a yes is refused" exits 11 fleet reset -f "$FLEET_YAML" --accept-new-host-keys

# dies_after STEP: a reset whose program is killed once the step is done; it says its process id first
dies_after() {
  local program=$INSTALL job held=0
  printf '#!/bin/sh\necho $$ > "%s.pid"\nexec "%s" "$@"\n' "$WORK/reset-program" "$program" > "$WORK/reset-program"
  chmod +x "$WORK/reset-program"
  INSTALL=$WORK/reset-program
  fleet reset -f "$FLEET_YAML" -y --accept-new-host-keys > "$WORK/reset-that-dies" 2>&1 & job=$!
  INSTALL=$program
  within 400 did "$1" || held=1
  kill -KILL "$(cat "$WORK/reset-program.pid")"
  wait "$job" || true
  [ "$held" = 0 ] || cat "$WORK/reset-that-dies"
  return "$held"
}
did() { grep -qs "\"record\":\"stepDone\",\"step\":\"$1\"" "$(last_run)/journal.jsonl"; }
check "a reset dies when the data of a control plane is set aside" dies_after n2/reset.aside
HOME_NAME=home-reset-again
check "a controller that never saw the cluster resets what is left of it" fleet reset -f "$FLEET_YAML" -y --accept-new-host-keys
check "after reset every host is as it was before create" as_before
check "a further reset finds nothing to do" fleet reset -f "$FLEET_YAML" -y --accept-new-host-keys
HOME_NAME=home
