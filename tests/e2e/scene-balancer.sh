# shellcheck shell=bash
# tier: long
# seconds: 480
# needs: lab balancers
# A proxy on the worker before three API servers: its back-ends follow a control plane that is added, and one whose host dies; the pod
# stays the same all the time. Then nginx in its place. A reset leaves nothing.
. "$ROOT/tests/e2e/host.sh"
. "$ROOT/tests/e2e/fleet.sh"
say "a proxy on the worker before the API servers"
HOME_NAME=home-balancer
FLEET=(n1 n2 n3 n4)

# balancer_yaml KIND CONTROL_PLANES HOST ADDRESS...: with pods of busybox
balancer_yaml() {
  lab cluster-yaml --control-planes "$2" "${@:3}" | sed 's,bundle: {,bundle: {extraImages: [{name: "docker.io/library/busybox:1"}]\, ,'
  echo "  loadBalancer: {mode: internal, internal: {type: $1}}"
}
FOUR=(n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13 n4 10.77.0.14)
balancer_yaml haproxy 2 n1 10.77.0.11 n2 10.77.0.12 n4 10.77.0.14 > "$WORK/balancer-2.yaml"
balancer_yaml haproxy 3 "${FOUR[@]}" > "$WORK/balancer-3.yaml"
balancer_yaml nginx 1 n1 10.77.0.11 n4 10.77.0.14 > "$WORK/balancer-nginx.yaml"
balancer_bundle() {
  "$BUNDLE" build -f "$WORK/$1.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$WORK/$1.tar.zst"
}
# balancer YAML VERB ARGS...: the installer, with the bundle of the kind
balancer() {
  local bundle=balancer-3
  [ "$1" != balancer-nginx ] || bundle=balancer-nginx
  install "$2" --bundle "$WORK/$bundle.tar.zst" -f "$WORK/$1.yaml" --allow-unsigned --accept-new-host-keys -y "${@:3}"
}
nodes_ready() { [ "$(kubectl_on "$1" get nodes --no-headers | grep -c ' Ready ')" = "$2" ]; }
nodes_become_ready() { within 180 nodes_ready "$@"; }
# Of the host's own processes: what a shell on it sees.
proxy_process() { lab host root n4 pgrep -o -x "$1"; }
back_ends() { lab host root n4 "grep -o '10[.]77[.]0[.][0-9]*:6443' $1 | sort -u | tr '\n' ' '"; }
back_ends_are() { local found; found=$(back_ends "$1"); echo "$found"; [ "$found" = "$2 " ]; }
# What kubelet of the worker is answered, by its own name for the control plane.
asks() { lab host root n4 /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/kubelet.conf --request-timeout=2s get --raw /readyz; }
# The worker's kubelet has its connection through the proxy, which it did not have when it joined.
through_the_proxy() { lab host root n4 "ss -Htnp state established dport = :6443" | grep kubelet | grep -q 127.0.0.1; }
client() {
  cat << YAML
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: default}
spec:
  nodeName: n4
  terminationGracePeriodSeconds: 0
  containers:
    - name: client
      image: docker.io/library/busybox:1
      command: [sh, -c, "while true; do if nc -w 2 $1 443 < /dev/null; then echo ok; else echo no; fi; sleep 1; done"]
YAML
}
client_runs() {
  client "$(kubectl_on n2 get service kubernetes -o 'jsonpath={.spec.clusterIP}')" | kubectl_on n2 apply -f - || return 1
  within 60 client_reaches 3
}
# client_reaches N: its last N tries were answered
client_reaches() {
  local said; said=$(kubectl_on n2 logs client --tail="$1"); echo "$said"
  [ "$(grep -cx ok <<< "$said")" = "$1" ]
}

check "a bundle has haproxy" balancer_bundle balancer-3
[ "$HELD" = 1 ] || return 0
lab host up "${FOUR[@]}"
states before
check "a worker comes up behind its own haproxy" balancer balancer-2 create
[ "$HELD" = 1 ] || return 0
check "every node is Ready" nodes_become_ready n1 3
check "every pod runs" within 90 all_running n1
CONFIG=/etc/kubexm/haproxy/haproxy.cfg
check "its back-ends are the control planes" back_ends_are $CONFIG "10.77.0.11:6443 10.77.0.12:6443"
check "the worker is answered by the name of the control plane" asks
nothing_to_do() {
  balancer "$1" create --json > "$WORK/again.jsonl" || { tail -n 3 "$WORK/again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/again.jsonl"
}
check "a second create changes nothing" nothing_to_do balancer-2
PROXY=$(proxy_process haproxy || true)
check "a control plane is added" balancer balancer-3 add-node
check "it is a back-end now" back_ends_are $CONFIG "10.77.0.11:6443 10.77.0.12:6443 10.77.0.13:6443"
same_process() { local now; now=$(proxy_process "$1"); echo "$2 -> $now"; [ -n "$2" ] && [ "$now" = "$2" ]; }
check "haproxy is the same process" same_process haproxy "$PROXY"
check "a further create changes nothing" nothing_to_do balancer-3
check "a pod on the worker reaches the API" client_runs

# asked FILE: the worker's requests until that file is gone; what each was answered, and when
asked() {
  while [ -e "$1" ]; do
    if asks > /dev/null 2>&1; then printf 'ok %s\n' "$(date +%s.%N)"; else printf 'no %s\n' "$(date +%s.%N)"; fi
    sleep 0.2
  done
}
outage() {
  python3 - "$WORK/asked" << 'PY'
import sys
answered = [float(line.split()[1]) for line in open(sys.argv[1]) if line.startswith("ok")]
refused = sum(line.startswith("no") for line in open(sys.argv[1]))
gap = max(later - earlier for earlier, later in zip(answered, answered[1:]))
last = [line.split()[0] for line in open(sys.argv[1])][-10:]
print(f"the worker's requests: {len(answered)} answered, {refused} not, the longest gap {gap:.1f} s")
sys.exit(0 if last == ["ok"] * 10 else "the worker is without an API server")
PY
}
# When it became Ready last: it has not been anything else since.
ready_since() { kubectl_on n2 get node n4 -o json | python3 -c 'import json, sys; print(next(c["lastTransitionTime"] for c in json.load(sys.stdin)["status"]["conditions"] if c["type"] == "Ready"))'; }
SINCE=$(ready_since || true)
stayed_ready() { local now; now=$(ready_since); echo "Ready since $SINCE, and since $now"; kubectl_on n2 get node n4 --no-headers | grep " Ready " && [ "$now" = "$SINCE" ]; }
: > "$WORK/asking"
asked "$WORK/asking" > "$WORK/asked" & ASKING=$!
sleep 5
# Nothing tells anybody that it is away: no connection is ended in order.
lab net cut n1 170 > /dev/null 2>&1 & CUT=$!
sleep 60
rm "$WORK/asking"
wait "$ASKING" || true
check "when a control plane's host is away the worker goes on" outage
outage || true
check "the worker has been Ready all the time" stayed_ready
check "its kubelet asks through the proxy" within 60 through_the_proxy
check "the pod on it reaches the API" within 60 client_reaches 5
check "haproxy is the same process still" same_process haproxy "$PROXY"
wait "$CUT" || true
check "every node is Ready again" nodes_become_ready n2 4
kubectl_on n2 delete pod client --wait=false > /dev/null || true
check "a control plane leaves" balancer balancer-3 delete-node n3
check "it is no back-end any more" back_ends_are $CONFIG "10.77.0.11:6443 10.77.0.12:6443"
check "haproxy is the same process to the end" same_process haproxy "$PROXY"
check "the cluster is reset" balancer balancer-3 reset
check "every host is as it was before" as_before

say "nginx in its place"
HOME_NAME=home-balancer-nginx
check "a bundle has nginx" balancer_bundle balancer-nginx
check "a worker comes up behind its own nginx" balancer balancer-nginx create
check "its back-end is the control plane" back_ends_are /etc/kubexm/nginx/nginx.conf "10.77.0.11:6443"
check "the worker is answered through nginx" asks
check "a second create changes nothing there" nothing_to_do balancer-nginx
check "that cluster is reset, too" balancer balancer-nginx reset
check "every host is as it was before nginx" as_before
lab host down --all
HOME_NAME=home
