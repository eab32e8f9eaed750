# shellcheck shell=bash
# tier: long
# seconds: 660
# needs: lab packages
# starts-from: fleet
# The upgrade of two control planes and a worker, interrupted in each of its phases: the controller is killed while content comes to the
# hosts, in the middle of a drain and before the end; the first control plane loses its power while kubeadm upgrades it, and the worker
# while its kubelet is replaced; the agent of the second one is killed. Each time the run goes on, and no node is rolled back.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/upgrade.sh"
. "$ROOT/tests/e2e/kills.sh"
say "an upgrade, interrupted in each phase"
HOME_NAME=home-upgrade-kills
check "the fleet is up again, for an upgrade that is interrupted" start_from fleet
[ "$HELD" = 1 ] || return 0
NEXT_YAML=$WORK/kills-next.yaml
NEXT_FILE=$WORK/kills-next.tar.zst
next_bundle() {
  sed "s/version: v$LAB_K8S\$/version: v$LAB_K8S_NEXT/" "$FLEET_YAML" > "$NEXT_YAML"
  "$BUNDLE" build -f "$NEXT_YAML" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$NEXT_FILE"
}
write_fleet_yaml with_packages
check "a bundle of v$LAB_K8S_NEXT is built" next_bundle
[ "$HELD" = 1 ] || return 0
check "a Deployment answers requests" web_answers
next() { install "$1" --bundle "$NEXT_FILE" -f "$NEXT_YAML" --accept-new-host-keys "${@:2}"; }
resumed() { next resume; }
ADDRESSES=(n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13)
address() { local at; for ((at = 0; at < ${#ADDRESSES[@]}; at += 2)); do [ "${ADDRESSES[at]}" != "$1" ] || echo "${ADDRESSES[at + 1]}"; done; }
# loses_its_power HOST STEP: while that step of it runs; it is back after some seconds, and the step is done
loses_its_power() {
  until_so 300 journal said stepPrepared "$1/$2" || return 1
  sleep 3
  echo "$1 loses its power in $2" >> "$WORK/upgrade-kills.log"
  lab host crash "$1"
  lab host up "$1" "$(address "$1")" --sudo-password "$SUDO_PASSWORD"
  until_so 400 journal said stepDone "$1/$2"
}

while_content_comes() {
  local code=0
  next upgrade -y --always-drain --drill die:12 > "$WORK/attempt.log" 2>&1 || code=$?
  [ "$code" = 134 ] || not_so "the controller was to die at record 12, and ended with $code"
}
check "the controller is killed while content comes to the hosts" while_content_comes
[ "$HELD" = 1 ] || return 0
# The agent of the second control plane dies then, and the controller in the worker's drain.
control_planes() {
  in_background resumed
  loses_its_power n1 upgrade.apply || return 1
  until_so 400 journal said stepPrepared n2/upgrade.node || return 1
  lab host root n2 pkill -9 -x kubexm-install || { end_attempt; not_so "no agent ran on n2"; return 1; }
  until_so 400 journal said stepDone n2/upgrade.node || return 1
  until_so 400 journal said stepPrepared n1/upgrade.drain-n3 || return 1
  end_attempt
}
check "a control plane loses its power while kubeadm upgrades it, the other one its agent, and the controller dies in a drain" control_planes
[ "$HELD" = 1 ] || return 0
worker() {
  in_background resumed
  loses_its_power n3 upgrade.kubelet || return 1
  until_so 400 journal said stepDone n3/upgrade.stamp || return 1
  end_attempt
}
check "the worker loses its power while its kubelet is replaced, and the controller dies before the end" worker
[ "$HELD" = 1 ] || return 0
check "a last resume comes to the end" resumed
check "every kubelet has the new version" kubelets_are "$LAB_K8S_NEXT"
check "and every API server, controller manager and scheduler" static_pods_are "$LAB_K8S_NEXT"
check "every node is Ready" fleet_becomes_ready 180
schedulable() { [ -z "$(kubectl_on n1 get nodes -o 'jsonpath={.items[*].spec.unschedulable}')" ]; }
check "and takes pods" schedulable
check "every pod runs" within 180 all_running n1
check "the Deployment answers" web_answers
again() { next upgrade -y --json > "$WORK/kills-again.jsonl" || { tail -n 3 "$WORK/kills-again.jsonl"; return 1; }; }
check "a second upgrade ends well" again
check "and changes nothing" python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/kills-again.jsonl"
lab host down --all
HOME_NAME=home
