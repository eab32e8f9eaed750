# shellcheck shell=bash
# Clusters of two hosts with two stacks, d1 and d2: what a pod and a service answer by each family.
. "$ROOT/tests/e2e/network.sh"
. "$ROOT/tests/lab/versions.sh"

# of_stacks: a cluster.yaml with networks and addresses of both families
of_stacks() {
  sed -e 's|network: {plugin: \([a-z]*\)|&, podCidr: [10.233.64.0/18, "fd85:1::/56"], serviceCidr: [10.233.0.0/18, "fd85:2::/112"]|' \
    -e 's|address: 10.77.0.\(5[12]\)|address: 10.77.0.\1, internalAddress: [10.77.0.\1, "fd00:77::\1"]|'
}
second_addresses() {
  local number
  for number in 51 52; do lab host root "d${number#5}" ip -6 address add "fd00:77::$number/64" dev host0 nodad; done
}
stacks_ready() { [ "$(kubectl_on d1 get nodes --no-headers | grep -c ' Ready ')" = 2 ]; }
# CoreDNS without a Corefile answers any question on port 53.
stacks_pods() {
  cat << YAML
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: answers, namespace: default}
spec:
  selector: {matchLabels: {app: answers}}
  template:
    metadata: {labels: {app: answers}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: answers, image: "registry.k8s.io/coredns/coredns:v$LAB_COREDNS", readinessProbe: {tcpSocket: {port: 53}, periodSeconds: 1}}]
---
apiVersion: v1
kind: Service
metadata: {name: answers, namespace: default}
spec: {ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv4, IPv6], clusterIP: 10.233.0.99, clusterIPs: [10.233.0.99, "fd85:2::99"], selector: {app: answers}, ports: [{port: 53, protocol: TCP}]}
YAML
}
stacks_answer() { stacks_pods | kubectl_on d1 apply -f - && kubectl_on d1 rollout status daemonset/answers --timeout=90s; }
# address_on HOST FAMILY-PREFIX: of the pod there
address_on() {
  kubectl_on d1 get pods -l app=answers -o json | python3 -c '
import json, sys
pods = [pod for pod in json.load(sys.stdin)["items"] if pod["spec"]["nodeName"] == sys.argv[1]]
print(next(one["ip"] for one in pods[0]["status"]["podIPs"] if one["ip"].startswith(sys.argv[2])))' "$1" "$2"
}
# from_pod HOST ADDRESS: a connection to port 53 from within the network of the pod on that host
from_pod() {
  # shellcheck disable=SC2016  # for the host's shell
  lab host root "$1" bash -s "$2" << 'SH'
# Not the one of cluster DNS, which has a Corefile.
found=
for pid in $(pgrep coredns); do
  tr '\0' ' ' < "/proc/$pid/cmdline" | grep -q Corefile || { found=$pid; break; }
done
[ -n "$found" ] || { echo "the pod does not run"; exit 1; }
nsenter -t "$found" -n timeout 3 bash -c "< /dev/tcp/$1/53"
SH
}
# by_both_families FROM TO: the pod on one host reaches that on the other
by_both_families() {
  local from=$1 to=$2 address
  for prefix in fd85:1 10.233.; do
    address=$(address_on "$to" "$prefix") || return 1
    from_pod "$from" "$address" || { echo "a pod on $from does not reach $address on $to"; return 1; }
  done
}
by_service() { from_pod d2 fd85:2::99 && from_pod d1 fd85:2::99 && from_pod d1 10.233.0.99; }
