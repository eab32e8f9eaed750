# shellcheck shell=bash
# tier: always
# seconds: 120
# needs: lab packages
# starts-from: fleet
# The fleet's cluster is taken away by a controller that never saw it, after another one died over it.
. "$ROOT/tests/e2e/fleet.sh"
say "reset, by another controller"
HOME_NAME=home-reset-from
check "the fleet is up again" start_from fleet
[ "$HELD" = 1 ] || return 0
HOME_NAME=home-reset
write_fleet_yaml with_packages
check "a reset without a yes is refused" exits 11 fleet reset -f "$FLEET_YAML" --accept-new-host-keys

# dies_after STEP: a reset whose program is killed once the step is done; it says its process id first
dies_after() {
  local program=$INSTALL job held=0
  printf '#!/bin/sh\necho $$ > "%s.pid"\nexec "%s" "$@"\n' "$WORK/reset-program" "$program" > "$WORK/reset-program"
  chmod +x "$WORK/reset-program"
  INSTALL=$WORK/reset-program
  fleet reset -f "$FLEET_YAML" -y --accept-new-host-keys > "$WORK/reset-that-dies" 2>&1 & job=$!
  INSTALL=$program
  # No longer than it lives: what ended before will not do it.
  within 400 did_or_ended "$1" "$job" && did "$1" || held=1
  kill -KILL "$(cat "$WORK/reset-program.pid")" 2> /dev/null || true
  wait "$job" || true
  [ "$held" = 0 ] || cat "$WORK/reset-that-dies"
  return "$held"
}
did_or_ended() { did "$1" || ! kill -0 "$2" 2> /dev/null; }
did() { grep -qs "\"record\":\"stepDone\",\"step\":\"$1\"" "$(last_run)/journal.jsonl"; }
check "a reset dies when the data of a control plane is set aside" dies_after n2/reset.aside
HOME_NAME=home-reset-again
check "a controller that never saw the cluster resets what is left of it" fleet reset -f "$FLEET_YAML" -y --accept-new-host-keys
check "after reset every host is as it was before create" as_before
check "a further reset finds nothing to do" fleet reset -f "$FLEET_YAML" -y --accept-new-host-keys
lab host down --all
HOME_NAME=home
