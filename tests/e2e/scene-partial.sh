# shellcheck shell=bash
# tier: long
# seconds: 300
# needs: lab
# The worker's disk is full: the cluster comes up without it, and takes it in later.
. "$ROOT/tests/e2e/fleet.sh"
say "one worker with a full disk"
HOME_NAME=home-partial
# From volumes, and only because a key that is trusted here has signed them. They carry no packages: these hosts lack none.
FLEET_FILE=$WORK/stick
mkdir -p "$WORK/$HOME_NAME/trusted-keys"
cp "$WORK/release.pub" "$WORK/$HOME_NAME/trusted-keys/"
check "an unsigned bundle is refused where a key is trusted" exits 34 install plan create --bundle "$FILE" -f "$WORK/cluster.yaml"
lab host down --all
fleet_up whole
lab host disk n3 /var/lib/containerd full
states before
check "a worker with a full disk stops nobody else, and is reported" exits 72 fleet_create --max-failed-workers 1
[ "$HELD" = 1 ] || { lab host down --all; return 0; }
two_ready() { [ "$(kubectl_on n1 get nodes --no-headers)" != "" ] && [ "$(kubectl_on n1 get nodes --no-headers | grep -c ' Ready ')" = 2 ]; }
check "the two others are Ready" within 60 two_ready
# Our program stays there: the run is not over, and resume continues with it.
worker_as_before() {
  one_state now n3
  grep -v ' /usr/local/bin/kubexm-install' "$WORK/now-n3" > "$WORK/now-n3-but-us"
  same "$WORK/before-n3" "$WORK/now-n3-but-us"
}
check "the worker is as it was" worker_as_before
# The network of n3 is away for longer than it is waited for.
without_worker() {
  local rc=0
  lab net cut n3 30 &
  says 72 "the run continues without n3" fleet_resume --max-failed-workers 1 || rc=1
  wait "$!"
  return "$rc"
}
check "resume continues without a worker that cannot be reached" without_worker
lab host disk n3 /var/lib/containerd room
check "with room on its disk, resume takes the worker in" fleet_resume
check "all three are Ready" fleet_becomes_ready 60
lab host down --all
HOME_NAME=home
