# shellcheck shell=bash
# What scenes of upgrades share: a Deployment that answers, clients that ask all the while, and which versions run afterwards.
. "$ROOT/tests/lab/versions.sh"
WEB_TAG=

# CoreDNS without a Corefile answers any question on port 53.
web() {
  cat << YAML
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]
      topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}
      containers:
        - name: web
          image: "registry.k8s.io/coredns/coredns:v${WEB_TAG:-$LAB_COREDNS}"
          readinessProbe: {tcpSocket: {port: 53}, periodSeconds: 1}
          lifecycle: {preStop: {sleep: {seconds: 2}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {clusterIP: 10.233.0.99, selector: {app: web}, ports: [{port: 53, protocol: TCP}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
YAML
}
web_answers() { web | kubectl_on n1 apply -f - && kubectl_on n1 rollout status deployment/web --timeout=90s; }

# asked NAME HOST: ten times a second, until the file /run/asks is gone; one line each, with milliseconds
asking() {
  # shellcheck disable=SC2016  # for the host's shell
  lab host root "$2" bash -s "$1" << 'SH' > "$WORK/asked-$1" 2>&1 &
kind=$1
touch /run/asks
end() { [ "$1" = 0 ] && echo "$(date +%s%3N) ok" || echo "$(date +%s%3N) failed"; }
while [ -e /run/asks ]; do
  case $kind in
    web) timeout 20 bash -c '< /dev/tcp/10.233.0.99/53' 2> /dev/null; end $? ;;
    api) KUBECONFIG=/etc/kubernetes/admin.conf KUBECACHEDIR=/run/e2e-kubectl kubectl --request-timeout=2s get --raw /readyz > /dev/null 2>&1; end $? ;;
  esac
  sleep 0.1
done
SH
}
# answered NAME MOST: how many requests failed, and for how long in a row; at most MOST of them
answered() {
  local asked failed
  asked=$(wc -l < "$WORK/asked-$1") failed=$(grep -c failed "$WORK/asked-$1" || true)
  echo "$1: $failed of $asked requests failed"
  echo "$1: $failed of $asked requests failed" >> "$WORK/upgrade-figures"
  [ "$asked" -gt 100 ] && [ "$failed" -le "$2" ]
}
# ended_asking [HOST...]: on which it was asked
ended_asking() {
  local host
  [ $# != 0 ] || set -- n2 n3
  for host; do lab host root "$host" rm -f /run/asks; done
  wait
}
# kubelets_are VERSION, static_pods_are VERSION: all of them
kubelets_are() {
  local found; found=$(kubectl_on n1 get nodes --no-headers -o custom-columns=:.status.nodeInfo.kubeletVersion | sort -u)
  echo "kubelets: $found"
  [ "$found" = "v$1" ]
}
static_pods_are() {
  local found; found=$(kubectl_on n1 -n kube-system get pods -l tier=control-plane --no-headers -o 'custom-columns=:.spec.containers[0].image' |
    grep -v /etcd: | sed 's/.*://' | sort -u)
  echo "static pods: $found"
  [ "$found" = "v$1" ]
}
# A reset leaves it, since it is the operator's.
snapshot_removed() { lab host root n1 'rm /var/lib/kubexm/snapshots/before-v*.db && rmdir /var/lib/kubexm/snapshots /var/lib/kubexm'; }
# etcd_is VERSION: by the own word of each of MEMBERS
MEMBERS=(n1 n2)
etcd_is() {
  local host found
  for host in "${MEMBERS[@]}"; do
    found=$(lab host root "$host" env ETCDCTL_API=3 etcdctl --endpoints https://127.0.0.1:2379 --cacert /etc/kubernetes/pki/etcd/ca.crt \
      --cert /etc/kubernetes/pki/etcd/healthcheck-client.crt --key /etc/kubernetes/pki/etcd/healthcheck-client.key endpoint status) || return 1
    echo "$host: $found"
    grep -q ", $1, " <<< "$found" || return 1
  done
}
# version_bundle NAME YAML [OVERLAY...]: $WORK/version-NAME.tar.zst
version_bundle() {
  local name=$1 yaml=$2 overlay overlays=(--catalogue "$LAB_OVERLAY")
  shift 2
  for overlay in "$@"; do overlays+=(--catalogue "$overlay"); done
  "$BUNDLE" build -f "$yaml" --zone "$LAB_ZONE" "${overlays[@]}" --cache "$WORK/cache" -o "$WORK/version-$name.tar.zst"
}
