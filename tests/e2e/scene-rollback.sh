# shellcheck shell=bash
# tier: long
# seconds: 420
# needs: lab packages
# A step of create that fails, here and there, on hosts with files of the operator's, is rolled back, and every host is as
# before. E2E_FULL: ten failures instead of four.
. "$ROOT/tests/e2e/fleet.sh"
say "failures, rolled back"
HOME_NAME=home-rollback
lab host down --all
fleet_hosts
check "a bundle carries what its hosts lack (rollback)" fleet_bundle
[ "$HELD" = 1 ] || return 0
# Files of the operator's, in three folders that the cluster fills; more of them than are remembered one by one.
# shellcheck disable=SC2016  # for the hosts' shells
theirs_come() {
  lab host root "$1" 'set -e
    mkdir -p /var/lib/etcd /var/lib/kubelet/mine /var/lib/cni/theirs
    head -c 1000000 /dev/urandom > /var/lib/etcd/snapshot-2025.db
    echo x > /var/lib/kubelet/mine/x
    for number in $(seq 300); do echo "$number" > "/var/lib/cni/theirs/$number"; done
    chown 1234:4321 /var/lib/etcd/snapshot-2025.db && chmod 0640 /var/lib/etcd/snapshot-2025.db && chmod 0701 /var/lib/kubelet
    find /var/lib/etcd /var/lib/kubelet /var/lib/cni -exec touch -d 2025-01-02T03:04:05.678901234 {} +'
}
# theirs_are NAME HOST: $WORK/NAME-theirs-HOST, with owners, modes, times to the nanosecond and content
# shellcheck disable=SC2016
theirs_are() {
  lab host root "$2" 'find /var/lib/etcd /var/lib/kubelet /var/lib/cni -printf "%p %y %m %U:%G %T@\n" | sort
    find /var/lib/etcd /var/lib/kubelet /var/lib/cni -type f -exec sha256sum {} + | sort -k2' > "$WORK/$1-theirs-$2"
}
theirs_as_before() {
  local host rc=0
  on_fleet theirs_are now
  for host in "${FLEET[@]}"; do same "$WORK/before-theirs-$host" "$WORK/now-theirs-$host" || rc=1; done
  return "$rc"
}
on_fleet theirs_come
on_fleet theirs_are before
states before
check "files in etcd's folder are refused by name" says 53 "1 file in /var/lib/etcd (snapshot-2025.db)" fleet_create
check "and in kubelet's" says 53 "1 file in /var/lib/kubelet (mine/x)" fleet_create
check "and in that of the pod network" says 53 "300 files in /var/lib/cni (theirs/1, " fleet_create
check "what was refused is as it was" theirs_as_before
check "preflight lets them be moved aside, and moves nothing" fleet preflight -f "$FLEET_YAML" --accept-new-host-keys --set-aside
check "after preflight they are where they were" theirs_as_before
early=3 late=0
[ -z "${E2E_FULL:-}" ] || { early=6 late=3; }

fleet plan create -f "$FLEET_YAML" --accept-new-host-keys --set-aside --json > "$WORK/fleet-plan.json"
# fails_and_returns STEP: create fails there with 70, and says that all of it was rolled back
fails_and_returns() {
  exits 70 fleet_create --set-aside --json --drill "fail:$1" > "$WORK/failed.jsonl" || { tail -n 3 "$WORK/failed.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" failed-and-taken-back "$WORK/failed.jsonl"
}
# The last one of the first control plane that is sure to find Kubernetes running.
for step in n1/control-plane.init $(python3 "$ROOT/tests/e2e/journal.py" pick "$WORK/fleet-plan.json" "$SEED" "$early" "$late"); do
  check "a failure at $step is rolled back" fails_and_returns "$step"
  check "after the failure at $step every host is as before" as_before
  check "after the failure at $step the operator's files are as before" theirs_as_before
done
lab host down --all
HOME_NAME=home
