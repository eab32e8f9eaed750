# shellcheck shell=bash
# tier: large
# seconds: 780
# needs: lab minor
# Two control planes and a worker go from one minor version of Kubernetes to the next, over etcd's gate: refused before it, brought to it
# with a bundle of their own version, then upgraded while clients ask, killed in the middle and resumed. An operator's cordon stays.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/upgrade.sh"
say "a new minor version"
HOME_NAME=home-minor
BEFORE=1.33.13
lab host down --all
fleet_up whole
check "the origins have the minor version before" lab minor up
[ "$HELD" = 1 ] || return 0
MINOR_OVERLAY=$(dirname "$LAB_OVERLAY")/minor-overlay.yaml

# The same cluster.yaml with the version before; and the etcd that bundles of earlier programs have.
BEFORE_YAML=$WORK/before.yaml
sed "s/version: v$LAB_K8S\$/version: v$BEFORE/" "$FLEET_YAML" > "$BEFORE_YAML"
cat > "$WORK/old-etcd.yaml" << 'YAML'
schema: kubexm.io/catalogue/v1
name: old-etcd
releases: {"1.33": {constants: {etcd: 3.5.24-0}}}
YAML
check "a bundle of v$BEFORE with the etcd of earlier programs is built" version_bundle old "$BEFORE_YAML" "$MINOR_OVERLAY" "$WORK/old-etcd.yaml"
[ "$HELD" = 1 ] || return 0
check "one with the etcd of this program" version_bundle gate "$BEFORE_YAML" "$MINOR_OVERLAY"
check "and one of v$LAB_K8S" version_bundle next "$FLEET_YAML"
[ "$HELD" = 1 ] || return 0
# of NAME VERB ARGS...: the installer with that bundle
of() {
  local yaml=$BEFORE_YAML
  [ "$1" != next ] || yaml=$FLEET_YAML
  install "$2" --bundle "$WORK/version-$1.tar.zst" -f "$yaml" --accept-new-host-keys "${@:3}"
}
check "a cluster of v$BEFORE is created" of old create -y
[ "$HELD" = 1 ] || return 0
check "every node is Ready (minor)" fleet_becomes_ready 120

WEB_TAG=1.12.0
check "a Deployment runs" web_answers

check "etcd before its gate is refused by name, and the way is said" says 53 "build one of v$BEFORE" of next upgrade -y
check "etcd is the one of the bundle" etcd_is 3.5.24
FROM=$SECONDS
check "a bundle of the same version brings etcd over its gate" of gate upgrade -y
echo "etcd within its minor version: $((SECONDS - FROM)) s" > "$WORK/minor-figures"
[ "$HELD" = 1 ] || return 0
check "each member runs it" etcd_is 3.5.26
check "and nothing else has another version" kubelets_are "$BEFORE"

check "an operator cordons a node" kubectl_on n1 cordon n2
killed_in_the_middle() {
  local code=0
  of next upgrade -y --drill die:60 > "$WORK/minor-killed.log" 2>&1 || code=$?
  [ "$code" = 134 ] || { echo "exit code $code"; tail -n 20 "$WORK/minor-killed.log"; return 1; }
}
FROM=$SECONDS
check "an upgrade to v$LAB_K8S is killed in the middle" killed_in_the_middle
check "it is resumed, and ends (minor)" of next resume
echo "v$BEFORE to v$LAB_K8S: $((SECONDS - FROM)) s" >> "$WORK/minor-figures"
check "every kubelet has v$LAB_K8S" kubelets_are "$LAB_K8S"
check "each member of etcd has 3.6" etcd_is "$LAB_ETCD"
check "and every API server, controller manager and scheduler (minor)" static_pods_are "$LAB_K8S"
check "every pod runs (minor)" within 120 all_running n1
# cordons NODE...: these are cordoned, no other is, and nobody has a mark of ours
cordons() {
  kubectl_on n1 get nodes -o json > "$WORK/minor-nodes.json" && python3 - "$WORK/minor-nodes.json" "$@" << 'PY'
import json
import sys
nodes = json.load(open(sys.argv[1], encoding="utf-8"))["items"]
cordoned = [node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")]
marked = [node["metadata"]["name"] for node in nodes if "kubexm.io/cordoned-by" in node["metadata"].get("annotations", {})]
print("cordoned:", cordoned, "marked:", marked)
sys.exit(cordoned != sys.argv[2:] or bool(marked))
PY
}
check "the operator's cordon is there still, and no other" cordons n2
nothing_left() { ! lab host root "$1" 'ls -d /run/kubexm/kubeadm-dry-run /etc/kubernetes/tmp/kubeadm-upgrade-dryrun*' 2> /dev/null; }
check "nothing is left of kubeadm's dry run" nothing_left n1

minor_nothing_done() {
  of next upgrade -y --json > "$WORK/minor-again.jsonl" || { tail -n 3 "$WORK/minor-again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/minor-again.jsonl"
}
check "a second upgrade changes nothing (minor)" minor_nothing_done
check "the minor version before is refused" says 53 "which is older" of gate upgrade -y
cat "$WORK/minor-figures"
lab host down --all
HOME_NAME=home
