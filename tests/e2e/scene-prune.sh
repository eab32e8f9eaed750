# shellcheck shell=bash
# tier: long
# seconds: 240
# needs: lab
# Two bundles in the embedded registry of two hosts: the first has an image that the second lacks. It is refused while a pod uses that image,
# kept by name and by file, and removed with its blobs from both; a run from before it is not rolled back from a home that does not know of it.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/host.sh"
. "$ROOT/tests/e2e/prune.sh"
say "prune: two bundles in one registry"
HOME_NAME=home-prune
# shellcheck disable=SC2034  # fleet.sh and prune.sh read them
FLEET=(p1 p2) KIND=embedded PORT=5443
two_bundles

lab host up p1 10.77.0.24 p2 10.77.0.25
states before
check "a bundle with an image of the user's" bundle_of one
check "a bundle without it" bundle_of two
check "a cluster comes up with the first" create_of one
[ "$HELD" = 1 ] || return 0
check "and gets the second" create_of two
[ "$HELD" = 1 ] || return 0
check "the registry serves both, and knows which is present" has_bundles 2
check "the depot answers for an image of the earlier bundle" asked 200 "$BUSYBOX"
used_is_refused
NAME=$(earlier)
check "kept by its name there is nothing to do" says 0 "nothing to do" registry prune --keep "$NAME" -y
check "kept by its file there is nothing to do" says 0 "nothing to do" registry prune --keep "$WORK/one.tar.zst" -y
check "a bundle that is not there is named, and what is" says 53 "$NAME" registry prune --keep nonsense -y
check "a plan changes nothing on the hosts" changes_nothing_here says 0 "prune.blobs" registry prune --dry-run
declare -A BEFORE
for host in "${FLEET[@]}"; do BEFORE[$host]=$(store "$host"); done
check "from another machine it is removed" says 0 "kept bundles only" elsewhere prune -y
smaller() {
  local host now
  for host in "${FLEET[@]}"; do
    now=$(store "$host")
    echo "$host: ${BEFORE[$host]} bytes, then $now"
    [ "$now" -lt "${BEFORE[$host]}" ] || return 1
  done
}
check "the store of each host is smaller" smaller
check "the registry serves the present bundle alone" has_bundles 1
check "it does not for a removed image" asked 404 "$BUSYBOX"
# shellcheck disable=SC1091  # the lab's
COREDNS=$(. "$ROOT/tests/lab/versions.sh" && echo "$LAB_COREDNS")
check "it does for a kept one" asked 200 "registry.k8s.io/coredns/coredns:v$COREDNS"
check "again, it changes nothing" changes_nothing_here says 0 "nothing to do" registry prune -y
last_run() { find "$WORK/$HOME_NAME/clusters/lab/runs" -mindepth 1 -maxdepth 1 -printf "%f\n" | sort | tail -n 1; }
check "the run before it is not rolled back by a home that does not know of it" says 2 "registry prune" \
  install rollback "$(last_run)" --bundle "$WORK/two.tar.zst" --allow-unsigned -y
check "a create with the first bundle brings its image back" create_of one
check "the depot answers for it again" asked 200 "$BUSYBOX"
check "the cluster is reset" install reset -f "$WORK/one.yaml" -y
check "after reset each host is as it was before" as_before
lab host down --all
HOME_NAME=home
