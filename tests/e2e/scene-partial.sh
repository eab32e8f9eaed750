# shellcheck shell=bash
# tier: long
# seconds: 300
# needs: lab
# The worker's disk fills up while it is installed: the cluster comes up without it, and takes it in later.
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
check "a disk that is full is found before anything is changed" says 53 "inodes free on /var/lib/containerd" fleet_create
lab host disk n3 /var/lib/containerd room
states before
# Once content is being copied there, preflight is over.
fills_up() {
  local rc=0
  { within 120 lab host root n3 test -d /var/lib/kubexm/store && lab host disk n3 /var/lib/containerd full; } &
  exits 72 fleet_create --max-failed-workers 1 || rc=1
  wait "$!" || rc=1
  return "$rc"
}
check "a worker whose disk fills up stops nobody else, and is reported" fills_up
[ "$HELD" = 1 ] || { lab host down --all; return 0; }
two_ready() { [ "$(kubectl_on n1 get nodes --no-headers)" != "" ] && [ "$(kubectl_on n1 get nodes --no-headers | grep -c ' Ready ')" = 2 ]; }
check "the two others are Ready" within 60 two_ready
# Our program stays there: the run is not over, and resume continues with it. The limit of the disk is what we changed.
worker_as_before() {
  one_state now n3
  grep -v ' /usr/local/bin/kubexm-install' "$WORK/now-n3" | sed 's/,nr_inodes=8$//' > "$WORK/now-n3-but-us"
  same <(sed 's/,nr_inodes=1000000$//' "$WORK/before-n3") "$WORK/now-n3-but-us"
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
