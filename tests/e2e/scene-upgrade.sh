# shellcheck shell=bash
# tier: long
# seconds: 680
# needs: lab packages
# starts-from: fleet
# Two control planes and a worker get the next patch version while clients ask: killed in the middle and resumed, with a chart at the end
# that fails and takes no node back; then with one that does not, and again with nothing to do; then a package of
# the worker's system. Bundles that the cluster cannot be upgraded with are refused before any change.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/upgrade.sh"
say "a new version"
HOME_NAME=home-upgrade
check "the fleet is up again, for an upgrade" start_from fleet
[ "$HELD" = 1 ] || return 0

# The same cluster.yaml with another version.
NEXT_YAML=$WORK/next.yaml
NEXT_FILE=$WORK/next.tar.zst
FAILING_YAML=$WORK/next-failing.yaml
FAILING_FILE=$WORK/next-failing.tar.zst
cp -r "$ROOT/tests/e2e/chart" "$WORK/upgrade-chart"
# next_bundle YAML FILE VALUES [OPTION...]: with a chart that the cluster does not have yet
next_bundle() {
  {
    sed "s/version: v$LAB_K8S\$/version: v$LAB_K8S_NEXT/" "$FLEET_YAML"
    echo "  addons: [{name: shop, type: helm, namespace: shop, source: {path: upgrade-chart}, values: {message: new, $3}}]"
  } > "$1"
  "$BUNDLE" build -f "$1" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$2" "${@:4}"
}
write_fleet_yaml with_packages
check "a bundle of v$LAB_K8S_NEXT is built" next_bundle "$NEXT_YAML" "$NEXT_FILE" 'hookFails: false'
check "and one whose chart will fail, a delta on the cluster's" next_bundle "$FAILING_YAML" "$FAILING_FILE" 'hookFails: true' --base "$FLEET_FILE"
[ "$HELD" = 1 ] || return 0
upgrade() { install upgrade --bundle "$NEXT_FILE" -f "$NEXT_YAML" -y --accept-new-host-keys "$@"; }
planned() { install plan upgrade --bundle "$NEXT_FILE" -f "$NEXT_YAML" --accept-new-host-keys --text "$@"; }
check "its plan is shown, and nothing is changed" says 0 "upgrade.apply" planned
check "create does not upgrade, and says what does" says 53 "kubexm-install upgrade" \
  install create --bundle "$NEXT_FILE" -f "$NEXT_YAML" -y --accept-new-host-keys

check "a Deployment answers requests" web_answers
etcd_processes() { for host in n1 n2; do echo "$host $(lab host root "$host" pgrep -x etcd)"; done; }
etcd_processes > "$WORK/etcd-before"

asking web n3
asking api n2

failing() { install "$1" --bundle "$FAILING_FILE" --base "$FLEET_FILE" -f "$FAILING_YAML" --accept-new-host-keys "${@:2}"; }
killed_in_the_middle() {
  local code=0
  failing upgrade -y --drill die:54 > "$WORK/killed.log" 2>&1 || code=$?
  [ "$code" = 134 ] || { echo "exit code $code"; tail -n 20 "$WORK/killed.log"; return 1; }
}
check "an upgrade is killed in the middle" killed_in_the_middle
check "it is resumed, and its chart fails at the end" says 71 "the hook says no" failing resume
ended_asking
check "every kubelet has the new version" kubelets_are "$LAB_K8S_NEXT"
check "and every API server, controller manager and scheduler" static_pods_are "$LAB_K8S_NEXT"
check "no node was rolled back: every one is Ready" fleet_becomes_ready 120
no_release() { ! kubectl_on n1 -n shop get secrets --no-headers | grep helm.release; }
check "of the chart nothing is left" no_release
check "every pod runs" within 120 all_running n1
check "the Deployment has answered every request" answered web 0
# kubectl of one request takes some of the time; each API server restarts once.
check "the API was away only while its server restarted" answered api 600
same_etcd() { etcd_processes | diff "$WORK/etcd-before" - && grep -q '^n2 [0-9]' "$WORK/etcd-before"; }
check "etcd, of which nothing is new, was not started anew" same_etcd
snapshot_there() { lab host root n1 'ls -l /var/lib/kubexm/snapshots/before-v*.db'; }
check "a snapshot of etcd was taken before" snapshot_there

# old_image TAG: the depot has it, though the cluster's bundle is another one
old_image() { lab host root n1 curl -skf -m 10 -o /dev/null -w '%{http_code}' "https://10.77.0.11:5443/v2/registry.k8s.io/kube-proxy/manifests/$1"; }
check "the depot answers for the images of the bundle before, too" old_image "v$LAB_K8S"
check "and for those of the new one" old_image "v$LAB_K8S_NEXT"

shop() { [ "$(kubectl_on n1 -n shop get configmap shop -o 'jsonpath={.data.message}')" = new ]; }
check "an upgrade with a chart that works does the rest" upgrade
check "its release is there" shop
nothing_done() {
  fleet_trees still-before
  upgrade --json > "$WORK/upgraded-again.jsonl" || { tail -n 3 "$WORK/upgraded-again.jsonl"; return 1; }
  fleet_trees still-after
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/upgraded-again.jsonl"
  same_trees "$WORK/tree-still-before" "$WORK/tree-still-after"
}
check "a second upgrade changes nothing" nothing_done
create_next() { install create --bundle "$NEXT_FILE" -f "$NEXT_YAML" -y --accept-new-host-keys --json > "$WORK/created-next.jsonl"; }
created_nothing() { create_next && python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/created-next.jsonl"; }
check "a create with the new bundle changes nothing either" created_nothing
# older HOST NAME: the package that it has, as if it were of an older version
older() {
  local deb
  deb=$(find "$LAB/packages" -name "$2_*_amd64.deb" | head -n 1)
  lab host root "$1" "set -e; cat > /run/$2.deb; dpkg-deb -R /run/$2.deb /run/older-$2; sed -i 's/^Version: .*/Version: 0.1-1/' /run/older-$2/DEBIAN/control
    dpkg-deb --root-owner-group -b /run/older-$2 /run/older-$2.deb > /dev/null; dpkg -i /run/older-$2.deb" < "$deb"
}
package_is() { lab host root "$1" "dpkg-query -W -f '\${Version}' $2" | { read -r found || :; echo "$1: $2 $found"; [ "$found" "$3" 0.1-1 ]; }; }
check "a package of the worker is an older one" older n3 ethtool
check "an upgrade leaves it" nothing_done
check "it is the older one still" package_is n3 ethtool =
check "with --os-packages it is in the plan, for good" says 0 "ethtool 0.1-1 is upgraded to" planned --os-packages
asking web n3
packages_upgraded() { upgrade --os-packages --json > "$WORK/packages-upgraded.jsonl" || { tail -n 3 "$WORK/packages-upgraded.jsonl"; return 1; }; }
check "it is upgraded" packages_upgraded
ended_asking
check "the bundle's version is there" package_is n3 ethtool !=
drained() { grep -c '"upgrade.drain-n3"\|upgrade.drain-n3' "$WORK/packages-upgraded.jsonl"; }
check "the worker was drained for it" drained
check "every node is Ready, and takes pods" fleet_becomes_ready 60
check "the Deployment has answered every request" answered web 0
nothing_more() { upgrade --os-packages --json > "$WORK/packages-again.jsonl" && python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/packages-again.jsonl"; }
check "a second one changes nothing" nothing_more
check "the earlier bundle is refused" says 53 "which is older" fleet upgrade -f "$FLEET_YAML" -y --accept-new-host-keys

cat "$WORK/upgrade-figures"
lab host down --all
HOME_NAME=home
