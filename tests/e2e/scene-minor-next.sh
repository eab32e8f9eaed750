# shellcheck shell=bash
# tier: large
# seconds: 780
# needs: lab minor-next
# The minor version after the lab's own: three control planes, one of which is a worker, become a cluster of it, and are reset; then such a
# cluster is upgraded to it while clients ask, killed in the middle and resumed.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/upgrade.sh"
say "the next minor version"
HOME_NAME=home-minor-next
AFTER=1.35.4
lab host down --all
fleet_up whole
# Of three members of etcd one may be away.
sed -i "s|roleGroups: .*|roleGroups: {master: [n1, n2, n3], worker: [n3]}|" "$FLEET_YAML"
check "the origins have the next minor version" lab minor up next
[ "$HELD" = 1 ] || return 0
AFTER_OVERLAY=$(dirname "$LAB_OVERLAY")/minor-next-overlay.yaml
AFTER_YAML=$WORK/after.yaml
sed "s/version: v$LAB_K8S\$/version: v$AFTER/" "$FLEET_YAML" > "$AFTER_YAML"
check "a bundle of v$LAB_K8S is built" version_bundle now "$FLEET_YAML"
check "and one of v$AFTER" version_bundle after "$AFTER_YAML" "$AFTER_OVERLAY"
[ "$HELD" = 1 ] || return 0
# of now|after VERB ARGS...: the installer with that bundle
of() {
  local yaml=$FLEET_YAML
  [ "$1" != after ] || yaml=$AFTER_YAML
  install "$2" --bundle "$WORK/version-$1.tar.zst" -f "$yaml" --accept-new-host-keys "${@:3}"
}

check "a cluster of v$AFTER is created" of after create -y
[ "$HELD" = 1 ] || return 0
check "every node is Ready (v$AFTER)" fleet_becomes_ready 120
check "every kubelet has v$AFTER from the beginning" kubelets_are "$AFTER"
check "every pod runs (v$AFTER)" within 120 all_running n1
after_nothing() {
  of after create -y --json > "$WORK/after-again.jsonl" || { tail -n 3 "$WORK/after-again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/after-again.jsonl"
}
check "a second create changes nothing (v$AFTER)" after_nothing
check "it is reset" of after reset -y
check "and nothing is left (v$AFTER)" as_before

check "a cluster of v$LAB_K8S is created" of now create -y
[ "$HELD" = 1 ] || return 0
check "every node is Ready (v$LAB_K8S)" fleet_becomes_ready 120
check "a Deployment answers requests (next)" web_answers
asking web n3
asking api n2
killed_on_the_way() {
  local code=0
  of after upgrade -y --drill die:60 > "$WORK/next-killed.log" 2>&1 || code=$?
  [ "$code" = 134 ] || { echo "exit code $code"; tail -n 20 "$WORK/next-killed.log"; return 1; }
}
FROM=$SECONDS
LIMIT=1200
check "an upgrade to v$AFTER is killed in the middle" killed_on_the_way
check "it is resumed, and ends (next)" of after resume
echo "v$LAB_K8S to v$AFTER: $((SECONDS - FROM)) s"
ended_asking
check "every kubelet has v$AFTER" kubelets_are "$AFTER"
check "and every API server, controller manager and scheduler (next)" static_pods_are "$AFTER"
MEMBERS=(n1 n2 n3)
check "each member of etcd has 3.6.6" etcd_is 3.6.6
check "every node is Ready (next)" fleet_becomes_ready 120
check "every pod runs (next)" within 120 all_running n1
check "the Deployment has answered every request (next)" answered web 0
check "the API was away only while its server restarted (next)" answered api 600
upgraded_nothing() {
  of after upgrade -y --json > "$WORK/next-again.jsonl" || { tail -n 3 "$WORK/next-again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/next-again.jsonl"
}
check "a second upgrade changes nothing (next)" upgraded_nothing
lab host down --all
HOME_NAME=home
