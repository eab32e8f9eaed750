# shellcheck shell=bash
# What fails is taken back, and every host is as before: a step of create, here and there; a control plane that joins a running
# cluster; a whole run, by the verb. E2E_FULL: ten failures instead of four.
. "$ROOT/tests/e2e/fleet.sh"
say "failures, taken back"
HOME_NAME=home-rollback
lab host down --all
fleet_up
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

HOME_NAME=home-small
SMALL_YAML=$WORK/small.yaml
lab cluster-yaml --sudo-password "$SUDO_PASSWORD" n1 10.77.0.11 n3 10.77.0.13 | with_packages > "$SMALL_YAML"
check "a control plane and a worker become a cluster" fleet create -f "$SMALL_YAML" -y --accept-new-host-keys
[ "$HELD" = 1 ] || return 0
created=$(basename "$(last_run)")
# It fails when kubelet has registered and etcd has a second member.
check "a control plane that fails to join is taken back" \
  exits 70 fleet add-node -f "$FLEET_YAML" -y --accept-new-host-keys --drill fail:n2/join.node
only_these() {
  local nodes members pki=/etc/kubernetes/pki/etcd
  nodes=$(kubectl_on n1 get nodes --no-headers -o custom-columns=:.metadata.name | tr '\n' ' ')
  members=$(kubectl_on n1 -n kube-system exec etcd-n1 -- etcdctl --cacert $pki/ca.crt --cert $pki/server.crt --key $pki/server.key member list)
  echo "nodes: $nodes; members: $members"
  [ "$nodes" = "n1 n3 " ] && [ "$(echo "$members" | wc -l)" = 1 ] && [[ $members == *", n1, "* ]]
}
check "its node and its member of etcd are gone" only_these
# Pods that were meant for it go with Kubernetes' own collection, 40 s after its node.
check "the others run on, and no pod of it is left" within 90 all_running n1
joiner_as_before() { one_state now n2; same_state before-n2 now-n2; }
check "it is as before" joiner_as_before
# The network of n3 is away for longer than the others take.
without_n3() {
  local rc=0
  lab net cut n3 75 &
  says 71 "n3 is left as before the rollback" fleet rollback "$created" -f "$SMALL_YAML" -y --unreachable skip || rc=1
  wait "$!"
  return "$rc"
}
check "the run that made the cluster is taken back without a worker that is gone" without_n3
first_as_before() { one_state now n1; same_state before-n1 now-n1; }
check "the control plane is as before" first_as_before
check "the worker is taken back when it is there again" fleet rollback "$created" -f "$SMALL_YAML" -y
check "after that every host is as before" as_before
HOME_NAME=home
