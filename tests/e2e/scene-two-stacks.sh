# shellcheck shell=bash
# tier: long
# seconds: 240
# needs: lab
# Pods and services with addresses of both families, on two hosts that have both: a node without its second address is refused, pods reach each
# other and a service by IPv6 across hosts, a second create changes nothing, and a reset leaves nothing.
. "$ROOT/tests/e2e/fleet.sh"
say "two stacks"
HOME_NAME=home-two-stacks
FLEET=(d1 d2)
lab host down --all
STACKS_YAML=$WORK/two-stacks.yaml
lab cluster-yaml --control-planes 1 d1 10.77.0.51 d2 10.77.0.52 |
  sed -e 's|network: {plugin: flannel}|network: {plugin: flannel, podCidr: [10.233.64.0/18, "fd85:1::/56"], serviceCidr: [10.233.0.0/18, "fd85:2::/112"]}|' \
    -e 's|address: 10.77.0.\(5[12]\)|address: 10.77.0.\1, internalAddress: [10.77.0.\1, "fd00:77::\1"]|' > "$STACKS_YAML"
stacks() { install "$1" --bundle "$WORK/two-stacks.tar.zst" -f "$STACKS_YAML" --accept-new-host-keys "${@:2}"; }
stacks_bundle() { "$BUNDLE" build -f "$STACKS_YAML" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$WORK/two-stacks.tar.zst"; }
check "a bundle with two stacks is built" stacks_bundle
[ "$HELD" = 1 ] || return 0
lab host up d1 10.77.0.51 d2 10.77.0.52
check "a host without its second address is refused" says 53 "no interface with fd00:77::51" stacks create -y
for number in 51 52; do lab host root "d${number#5}" ip -6 address add "fd00:77::$number/64" dev host0 nodad; done
states before
check "two hosts become a cluster with two stacks" stacks create -y
[ "$HELD" = 1 ] || return 0
stacks_ready() { [ "$(kubectl_on d1 get nodes --no-headers | grep -c ' Ready ')" = 2 ]; }
check "both nodes are Ready" within 120 stacks_ready

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
. "$ROOT/tests/lab/versions.sh"
stacks_answer() { stacks_pods | kubectl_on d1 apply -f - && kubectl_on d1 rollout status daemonset/answers --timeout=90s; }
check "a pod on each host, and a service of both families" stacks_answer
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
across_hosts() {
  local from=$1 to=$2 address
  for prefix in fd85:1 10.233.; do
    address=$(address_on "$to" "$prefix") || return 1
    from_pod "$from" "$address" || { echo "a pod on $from does not reach $address on $to"; return 1; }
  done
}
check "pods reach each other by both families" across_hosts d1 d2
check "and in the other direction" across_hosts d2 d1
by_service() { from_pod d2 fd85:2::99 && from_pod d1 fd85:2::99 && from_pod d1 10.233.0.99; }
check "and the service by both families" by_service
stacks_nothing() {
  stacks create -y --json > "$WORK/stacks-again.jsonl" || { tail -n 3 "$WORK/stacks-again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/stacks-again.jsonl"
}
check "a second create changes nothing (two stacks)" stacks_nothing
check "it is reset (two stacks)" stacks reset -y
check "and nothing is left (two stacks)" as_before
lab host down --all
FLEET=(n1 n2 n3)
HOME_NAME=home
