# shellcheck shell=bash
# tier: long
# seconds: 420
# needs: lab packages
# A step of create that fails, here and there, is rolled back, and every host is as before. E2E_FULL: ten failures instead of four.
. "$ROOT/tests/e2e/fleet.sh"
say "failures, taken back"
HOME_NAME=home-rollback
lab host down --all
fleet_up
check "a bundle carries what its hosts lack (rollback)" fleet_bundle
[ "$HELD" = 1 ] || return 0
early=3 late=0
[ -z "${E2E_FULL:-}" ] || { early=6 late=3; }

fleet plan create -f "$FLEET_YAML" --accept-new-host-keys --json > "$WORK/fleet-plan.json"
# fails_and_returns STEP: create fails there with 70, and says that all of it was taken back
fails_and_returns() {
  exits 70 fleet_create --json --drill "fail:$1" > "$WORK/failed.jsonl" || { tail -n 3 "$WORK/failed.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" failed-and-taken-back "$WORK/failed.jsonl"
}
for step in $(python3 "$ROOT/tests/e2e/journal.py" pick "$WORK/fleet-plan.json" "$SEED" "$early" "$late"); do
  check "a failure at $step is taken back" fails_and_returns "$step"
  check "after the failure at $step every host is as before" as_before
done
lab host down --all
HOME_NAME=home
