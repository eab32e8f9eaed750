# shellcheck shell=bash
# What fails is taken back, and every host is as before: a step of create, here and there, on hosts with files of the operator's; a control plane that joins a running
# cluster; a whole run, by the verb. E2E_FULL: ten failures instead of four.
. "$ROOT/tests/e2e/fleet.sh"
say "failures, taken back"
HOME_NAME=home-rollback
lab host down --all
fleet_hosts
# Files of the operator's, in three folders that the cluster fills; more of them than are remembered one by one.
# shellcheck disable=SC2016  # for the hosts' shells
theirs_come() {
  lab host root "$1" 'set -e
    mkdir -p /var/lib/etcd /var/lib/kubelet/mine /var/lib/cni/theirs
    head -c 1000000 /dev/urandom > /var/lib/etcd/snapshot-2025.db
    echo x > /var/lib/kubelet/mine/x
    for number in $(seq 300); do echo "$number" > "/var/lib/cni/theirs/$number"; done
    chown 1234:4321 /var/lib/etcd/snapshot-2025.db && chmod 0640 /var/lib/etcd/snapshot-2025.db && chmod 0701 /var/lib/kubelet
    find /var/lib/etcd /var/lib/kubelet /var/lib/cni -exec touch -d 2025-01-02T03:04:05.678901234 {} +'
}
# theirs_are NAME HOST: $WORK/NAME-theirs-HOST, with owners, modes, times to the nanosecond and content
# shellcheck disable=SC2016
theirs_are() {
  lab host root "$2" 'find /var/lib/etcd /var/lib/kubelet /var/lib/cni -printf "%p %y %m %U:%G %T@\n" | sort
    find /var/lib/etcd /var/lib/kubelet /var/lib/cni -type f -exec sha256sum {} + | sort -k2' > "$WORK/$1-theirs-$2"
}
theirs_as_before() {
  local host rc=0
  on_fleet theirs_are now
  for host in "${FLEET[@]}"; do same "$WORK/before-theirs-$host" "$WORK/now-theirs-$host" || rc=1; done
  return "$rc"
}
on_fleet theirs_come
on_fleet theirs_are before
states before
check "files in etcd's folder are refused by name" says 53 "1 file in /var/lib/etcd (snapshot-2025.db)" fleet_create
check "and in kubelet's" says 53 "1 file in /var/lib/kubelet (mine/x)" fleet_create
check "and in that of the pod network" says 53 "300 files in /var/lib/cni (theirs/1, " fleet_create
check "what was refused is as it was" theirs_as_before
check "preflight lets them be moved aside, and moves nothing" fleet preflight -f "$FLEET_YAML" --accept-new-host-keys --set-aside
check "after preflight they are where they were" theirs_as_before
early=3 late=0
[ -z "${E2E_FULL:-}" ] || { early=6 late=3; }

fleet plan create -f "$FLEET_YAML" --accept-new-host-keys --set-aside --json > "$WORK/fleet-plan.json"
# fails_and_returns STEP: create fails there with 70, and says that all of it was taken back
fails_and_returns() {
  exits 70 fleet_create --set-aside --json --drill "fail:$1" > "$WORK/failed.jsonl" || { tail -n 3 "$WORK/failed.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" failed-and-taken-back "$WORK/failed.jsonl"
}
# The last one of the first control plane that is sure to find Kubernetes running.
for step in n1/control-plane.init $(python3 "$ROOT/tests/e2e/journal.py" pick "$WORK/fleet-plan.json" "$SEED" "$early" "$late"); do
  check "a failure at $step is taken back" fails_and_returns "$step"
  check "after the failure at $step every host is as before" as_before
  check "after the failure at $step the operator's files are as before" theirs_as_before
done

HOME_NAME=home-small
SMALL_YAML=$WORK/small.yaml
lab cluster-yaml --sudo-password "$SUDO_PASSWORD" n1 10.77.0.11 n3 10.77.0.13 | with_packages > "$SMALL_YAML"
check "a control plane and a worker become a cluster" fleet create -f "$SMALL_YAML" -y --accept-new-host-keys --set-aside
[ "$HELD" = 1 ] || return 0
created=$(basename "$(last_run)")
# It fails when kubelet has registered and etcd has a second member.
check "a control plane that fails to join is taken back" \
  exits 70 fleet add-node -f "$FLEET_YAML" -y --accept-new-host-keys --set-aside --drill fail:n2/join.node
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
check "and so are the operator's files" theirs_as_before
HOME_NAME=home
