# shellcheck shell=bash
# tier: always
# seconds: 180
# needs: lab packages
# starts-from: fleet
# A control plane that fails to join a running cluster is rolled back; then the run that made the cluster is, by the verb, while one of
# its hosts is away.
. "$ROOT/tests/e2e/fleet.sh"
say "a failed join, and the whole run rolled back"
HOME_NAME=home-join
check "the fleet is up again, for a join" start_from fleet
[ "$HELD" = 1 ] || return 0
created=$(cat "$WORK/$HOME_NAME/created")
write_fleet_yaml with_packages
JOINED_YAML=$WORK/joined.yaml
lab cluster-yaml --control-planes 3 --sudo-password "$SUDO_PASSWORD" n1 10.77.0.11 n2 10.77.0.12 n4 10.77.0.14 n3 10.77.0.13 | with_packages > "$JOINED_YAML"
lab host up n4 10.77.0.14 --bare --sudo-password "$SUDO_PASSWORD"
one_state before n4
# It fails when kubelet has registered and etcd has a further member.
check "a control plane that fails to join is rolled back" \
  exits 70 fleet add-node -f "$JOINED_YAML" -y --accept-new-host-keys --drill fail:n4/join.node
only_these() {
  local nodes members pki=/etc/kubernetes/pki/etcd
  nodes=$(kubectl_on n1 get nodes --no-headers -o custom-columns=:.metadata.name | tr '\n' ' ')
  members=$(kubectl_on n1 -n kube-system exec etcd-n1 -- etcdctl --cacert $pki/ca.crt --cert $pki/server.crt --key $pki/server.key member list)
  echo "nodes: $nodes; members: $members"
  [ "$nodes" = "n1 n2 n3 " ] && [ "$(wc -l <<< "$members")" = 2 ] && [[ $members == *", n1, "* && $members == *", n2, "* ]]
}
check "its node and its member of etcd are gone" only_these
# Pods that were meant for it go with Kubernetes' own collection, 40 s after its node.
check "the others run on, and no pod of it is left" within 90 all_running n1
joiner_as_before() { one_state now n4; same_state before-n4 now-n4; }
check "it is as before" joiner_as_before
# The network of n3 is away for longer than the others take.
without_n3() {
  local rc=0
  lab net cut n3 120 &
  says 71 "n3 is left as before the rollback" fleet rollback "$created" -f "$FLEET_YAML" -y --unreachable skip || rc=1
  wait "$!"
  return "$rc"
}
check "the run that made the cluster is rolled back without a worker that is gone" without_n3
others_as_before() { local host rc=0; for host in n1 n2; do one_state now "$host"; same_state "before-$host" "now-$host" || rc=1; done; return "$rc"; }
check "the control planes are as before" others_as_before
check "the worker is rolled back when it is there again" fleet rollback "$created" -f "$FLEET_YAML" -y
check "after that every host is as before" as_before
lab host down --all
HOME_NAME=home
