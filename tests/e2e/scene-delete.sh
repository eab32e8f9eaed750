# shellcheck shell=bash
# tier: long
# seconds: 300
# needs: lab packages
# starts-from: fleet
# A worker, then a control plane leave the cluster and are as before it; a budget that holds a pod is named. Then both come back.
. "$ROOT/tests/e2e/fleet.sh"
say "hosts that leave the cluster"
HOME_NAME=home-delete
check "the fleet is up again, for a deletion" start_from fleet
[ "$HELD" = 1 ] || return 0
write_fleet_yaml with_packages

# Its pods prefer the worker, and may run on control planes; the budget lets none go.
web() {
  cat << 'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - {weight: 100, preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n3]}]}}
      containers: [{name: web, image: "registry.k8s.io/pause:3.10.1"}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}
YAML
}
web_is_up() { kubectl_on n1 rollout status deployment/web --timeout="${1}s"; }
on_n3() { kubectl_on n1 get pods -l app=web --no-headers -o custom-columns=:.spec.nodeName | grep -qx n3; }
web_runs_on_the_worker() { web | kubectl_on n1 apply -f - && web_is_up 90 && on_n3; }
check "pods run on the worker, with a budget" web_runs_on_the_worker

delete_node() { fleet delete-node "$@" -f "$FLEET_YAML" -y --accept-new-host-keys; }
blocks="the PodDisruptionBudget default/web allows no disruption"
check "a drain that does not end names the budget" says 70 "$blocks" delete_node n3 --drain-timeout 15
schedulable() { [ -z "$(kubectl_on n1 get node n3 -o 'jsonpath={.spec.unschedulable}')" ]; }
check "it was rolled back: the worker takes pods again" schedulable

named_then_let_go() {
  local job rc=0
  delete_node n3 --json > "$WORK/delete-n3.jsonl" 2>&1 & job=$!
  # From the first look at the drain.
  within 90 grep -q '"step":"n1/delete.drain-n3"' "$WORK/delete-n3.jsonl" || rc=1
  within 60 grep -q "$blocks" "$WORK/delete-n3.jsonl" || { echo "the budget is not named"; rc=1; }
  kubectl_on n1 delete poddisruptionbudget web || rc=1
  wait "$job" || rc=1
  [ "$rc" = 0 ] || tail -n 5 "$WORK/delete-n3.jsonl"
  return "$rc"
}
check "a budget is named within 60 s, and when it is gone the worker leaves" named_then_let_go
left_as_before() { one_state now "$1"; same_state "before-$1" "now-$1"; }
check "the worker is as before the cluster" left_as_before n3
nodes_are() {
  local nodes; nodes=$(kubectl_on n1 get nodes --no-headers -o custom-columns=:.metadata.name | tr '\n' ' ')
  echo "nodes: $nodes"
  [ "$nodes" = "$1 " ]
}
check "its node is gone" nodes_are "n1 n2"
check "its pods run elsewhere" web_is_up 90
no_name_of() { ! lab host root "$1" cat /etc/hosts | grep -w "$2"; }
check "no other host has its name" no_name_of n2 n3
check "a second run finds nothing to do" says 0 "nothing to do" delete_node n3

check "the host with the registry is refused" says 53 "it serves the registry" delete_node n1
members_are() {
  local members pki=/etc/kubernetes/pki/etcd
  members=$(kubectl_on n1 -n kube-system exec etcd-n1 -- etcdctl --cacert $pki/ca.crt --cert $pki/server.crt --key $pki/server.key member list)
  echo "$members"
  [ "$(awk -F', ' '{ print $3 }' <<< "$members" | sort | tr '\n' ' ')" = "$1 " ]
}
check "a control plane leaves" delete_node n2
check "etcd has one member" members_are n1
check "its node is gone, too" nodes_are n1
check "the control plane is as before the cluster" left_as_before n2
check "the cluster runs on" within 90 all_running n1
record_names() { kubectl_on n1 -n kube-system get configmap kubexm-cluster -o yaml | grep -c '\\"name\\":\\"n[23]\\"'; }
no_record() { [ "$(record_names)" = 0 ]; }
check "the record in the cluster names neither" no_record

check "both are added again from the same bundle" fleet add-node -f "$FLEET_YAML" -y --accept-new-host-keys
check "every host is Ready" fleet_becomes_ready
check "etcd has both members" members_are "n1 n2"
lab host down --all
HOME_NAME=home
