# shellcheck shell=bash
# Pods and services from host to host. The pods are our pause image's: programs of the host run in their networks.

across_pods() {
  cat << 'YAML'
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      tolerations: [{operator: Exists}]
      containers: [{name: web, image: "registry.k8s.io/pause:3.10.1"}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
YAML
}

# in_pod HOST ADDRESS CMD...: in the network of the pod with that address
in_pod() {
  local host=$1 address=$2; shift 2
  lab host root "$host" "for ns in /run/netns/* /run/crio/namespaces/netns/* /run/kubexm-docker/netns/*; do
    [ -e \$ns ] || continue
    if nsenter --net=\$ns ip -4 -o addr | grep -qF ' $address/'; then exec nsenter --net=\$ns $*; fi
  done; echo no pod has $address; exit 1"
}

# across_hosts [CMD...]: while the pods answer, CMD holds too
across_hosts() {
  local host other rc=0 dns service
  local -A pod
  across_pods | kubectl_on n1 apply -f - || return 1
  kubectl_on n1 rollout status daemonset/web --timeout=90s || return 1
  for host in "${FLEET[@]}"; do
    pod[$host]=$(kubectl_on n1 get pods -l app=web --field-selector "spec.nodeName=$host" -o "jsonpath={.items[0].status.podIP}")
    # answers with the name of its host, for as long as the pod is there
    lab host root "$host" "mkdir -p /run/web && echo $host > /run/web/index.html"
    in_pod "$host" "${pod[$host]}" busybox httpd -p 8080 -h /run/web
  done
  dns=$(kubectl_on n1 -n kube-system get service kube-dns -o 'jsonpath={.spec.clusterIP}')
  service=$(kubectl_on n1 get service web -o 'jsonpath={.spec.clusterIP}')
  for host in "${FLEET[@]}"; do
    for other in "${FLEET[@]}"; do
      [ "$(in_pod "$host" "${pod[$host]}" curl -sS -m 5 "http://${pod[$other]}:8080/")" = "$other" ] \
        || { echo "the pod on $host does not reach the pod on $other"; rc=1; }
    done
    in_pod "$host" "${pod[$host]}" busybox nslookup web.default.svc.cluster.local "$dns" | grep -qF "$service" \
      || { echo "the pod on $host does not find the service by its name"; rc=1; }
    # nine of ten times another host answers
    for _ in 1 2 3; do
      in_pod "$host" "${pod[$host]}" curl -sS -m 5 "http://$service/" > /dev/null || { echo "the service does not answer on $host"; rc=1; }
    done
  done
  [ "$#" = 0 ] || "$@" || rc=1
  across_pods | kubectl_on n1 delete --wait=true -f - || rc=1
  for host in "${FLEET[@]}"; do lab host root "$host" 'pkill -x -f "busybox httpd -p 8080 -h /run/web"; rm -rf /run/web' || true; done
  return "$rc"
}

# Neither the controller's folder nor a log of a host has the password that it was given by name of a file.
no_password() {
  local host word rc=0
  word=$(cut -d "'" -f 2 "$SUDO_PASSWORD")
  [ -n "$word" ] || return 1
  ! grep -rlF "$word" "$WORK/$HOME_NAME" || rc=1
  for host in "${FLEET[@]}"; do
    ! lab host root "$host" "grep -rlF $word /var/lib/kubexm /etc/kubexm /var/log /tmp /run/kubexm 2>/dev/null; journalctl -q --no-pager | grep -F $word" | grep . || rc=1
  done
  return "$rc"
}
