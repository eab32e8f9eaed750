# shellcheck shell=bash
# A cluster with Calico. Upstream's programs and manifest cannot be had in the lab: a manifest with the same names is patched and applied, and
# the lab's own programs leave on hosts what Calico's would.
. "$ROOT/tests/e2e/network.sh"

# calico_yaml OPTIONS HOST ADDRESS...
calico_yaml() { lab cluster-yaml "${@:2}" | sed "s|network: {plugin: flannel}|network: {plugin: calico, options: {$1}}|; s|exclude: \[|&calicoctl, |"; }
is_refused() { says 53 "$2" install_of "$1" create; }
has_mtu() { lab host root "$1" "ip link show vxlan.calico | grep -w $2"; }
# The other host's addresses are reached over the host's own link.
is_direct() { lab host root "$1" "ip route show proto bird | grep -w $2 && ip route show proto bird | grep -w blackhole && ! ip link show vxlan.calico"; }
is_network() {
  lab host root "$1" "ip -d link show vxlan.calico | grep -qw 4789 && ip route show proto 80 | grep -w blackhole && ls /etc/cni/net.d/10-calico.conflist /var/lib/calico/nodename"
}
# What the recipe has set in the manifest, as the API server has it.
patched() {
  local env config pair
  env=$(kubectl_on n1 -n kube-system get daemonset calico-node -o 'jsonpath={.spec.template.spec.containers[0].env}')
  for pair in CALICO_IPV4POOL_CIDR=10.233.64.0/18 CALICO_IPV4POOL_VXLAN=Always CALICO_IPV4POOL_IPIP=Never CALICO_IPV4POOL_BLOCK_SIZE=27 \
    IP_AUTODETECTION_METHOD=kubernetes-internal-ip; do
    grep -qF "\"name\":\"${pair%%=*}\",\"value\":\"${pair#*=}\"" <<< "$env" || { echo "$pair is not in $env"; return 1; }
  done
  config=$(kubectl_on n1 -n kube-system get configmap calico-config -o 'jsonpath={.data}')
  for pair in calico_backend=vxlan veth_mtu=1400 typha_service_name=none; do
    grep -qF "\"${pair%%=*}\":\"${pair#*=}\"" <<< "$config" || { echo "$pair is not in $config"; return 1; }
  done
  ! kubectl_on n1 -n kube-system get deployment calico-typha
}
typha_is_on() { kubectl_on n1 -n kube-system get pods -l k8s-app=calico-typha --field-selector "spec.nodeName=$1,status.phase=Running" -o name | grep -q .; }
# typha_moves_to HOST OTHER
typha_moves_to() {
  kubectl_on n1 -n kube-system rollout status deployment/calico-typha --timeout=60s && kubectl_on n1 cordon "$2" \
    && kubectl_on n1 -n kube-system delete pod -l k8s-app=calico-typha && within 60 typha_is_on "$1" && kubectl_on n1 uncordon "$2"
}
typha_leaves() {
  local rc=0
  kubectl_on n1 drain "$1" --ignore-daemonsets --delete-emptydir-data --force --timeout=120s || rc=1
  kubectl_on n1 -n kube-system rollout status deployment/calico-typha --timeout=60s || rc=1
  ! typha_is_on "$1" || { echo "typha is on $1, which is cordoned"; rc=1; }
  kubectl_on n1 uncordon "$1" && return "$rc"
}
# What /proc and /sys have of it is not in the states that are compared.
nothing_of_calico() {
  local host found rc=0
  for host in "$@"; do
    found=$(lab host root "$host" "ip -o link | grep -E 'cali|calico'; for family in -4 -6; do ip \$family route | grep -E 'proto (80|bird)|blackhole'; done; ipset list -name | grep ^cali; iptables-save | grep cali; ls -d /var/lib/calico /run/calico /run/nodeagent /var/log/calico /etc/cni/net.d/calico-kubeconfig /opt/cni/bin/calico 2>/dev/null") || true
    [ -z "$found" ] || { echo "$host: $found"; rc=1; }
  done
  return "$rc"
}
# The operator's own, which no command may take away: also a route of a BIRD of his.
mine() {
  lab host root "$1" "ip route $2 blackhole 192.0.2.0/24 proto static; ip route $2 198.51.100.0/24 via 10.77.0.99 dev host0 proto bird; if [ $2 = add ]; then ipset create calibre hash:net; else ipset destroy calibre; fi"
}
mine_is_there() { lab host root "$1" "ip route | grep 'blackhole 192.0.2.0/24' && ip route show proto bird | grep 198.51.100.0/24 && ipset list -name | grep -x calibre"; }
