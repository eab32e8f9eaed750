# shellcheck shell=bash
# tier: long
# seconds: 240
# needs: lab
# Two bundles in the distribution registry of two hosts, beside a repository of somebody else's that has a layer of the first: what only the
# first has goes from both, is rolled back when a host fails before anything was deleted, and what the other repository needs stays.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/host.sh"
. "$ROOT/tests/e2e/prune.sh"
say "prune-registry: two bundles in one distribution registry"
HOME_NAME=home-prune-registry
# shellcheck disable=SC2034  # fleet.sh and prune.sh read them
FLEET=(p1 p2) KIND=registry PORT=5000
two_bundles
COREDNS=$(. "$ROOT/tests/lab/versions.sh" && echo "$LAB_COREDNS")
REPOSITORIES=/mnt/registry/docker/registry/v2/repositories
# Of the same layer, under a name of theirs.
theirs() {
  lab host root p1 "cd $REPOSITORIES && mkdir -p team/tool/_layers && cp -r ${BUSYBOX%:*}/_layers/sha256 team/tool/_layers/"
}

layers_of_theirs() {
  lab host root p1 "ls $REPOSITORIES/team/tool/_layers/sha256 | while read -r hex; do ls -l /mnt/registry/docker/registry/v2/blobs/sha256/\${hex%\${hex#??}}/\$hex/data || exit 1; done"
}
sizes() { local host; for host in "${FLEET[@]}"; do lab host root "$host" du -sb /mnt/registry | cut -f 1; done; }

lab host up p1 10.77.0.24 p2 10.77.0.25
states before
check "a bundle with an image of the user's" bundle_of one
check "a bundle without it" bundle_of two
check "a cluster comes up with the first" create_of one
[ "$HELD" = 1 ] || return 0
theirs
check "and gets the second" create_of two
[ "$HELD" = 1 ] || return 0
check "the records name both, and know which is present" has_bundles 2
check "each registry answers for an image of the earlier bundle" asked 200 "$BUSYBOX"
used_is_refused
check "kept by its file there is nothing to do" says 0 "nothing to do" registry prune --keep "$WORK/one.tar.zst" -y
check "a plan changes nothing on the hosts" changes_nothing_here says 0 "prune.registry" registry prune --dry-run
# A registry that does not run cannot be asked whether it has stopped to serve them.
lab host root p2 systemctl stop kubexm-registry.service
check "while one registry does not answer nothing is deleted, and the other serves all of it again" exits 70 registry prune -y
lab host root p2 systemctl start kubexm-registry.service
check "each of them answers for it as before" within 20 asked 200 "$BUSYBOX"
sizes > "$WORK/sizes-before"
check "it is removed" says 0 "kept bundles only" registry prune -y
sizes > "$WORK/sizes-after"
smaller() { paste "$WORK/sizes-before" "$WORK/sizes-after" | tee /dev/stderr | awk '$2 >= $1 { exit 1 }'; }
check "the storage of each host is smaller" smaller
check "no registry answers for the removed image" asked 404 "$BUSYBOX"
check "each does for a kept one" asked 200 "registry.k8s.io/coredns/coredns:v$COREDNS"
check "what somebody else's repository links to is there" layers_of_theirs
check "the records name the present bundle alone" has_bundles 1
check "again, it changes nothing" changes_nothing_here says 0 "nothing to do" registry prune -y
check "a create with the first bundle brings its image back" create_of one
check "each registry answers for it again" asked 200 "$BUSYBOX"
lab host root p1 rm -r "$REPOSITORIES/team"
check "the cluster is reset" install reset -f "$WORK/one.yaml" -y
check "after reset each host is as it was before" as_before
lab host down --all
HOME_NAME=home
