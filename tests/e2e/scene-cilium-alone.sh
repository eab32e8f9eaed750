# shellcheck shell=bash
# tier: long
# seconds: 700
# needs: lab cilium
# Cilium in place of kube-proxy on two hosts, of which both reboot; they get the next patch version, and one of them leaves and comes back.
# Nowhere does kube-proxy appear. A reset leaves nothing. Programs are attached as filters of tc, as on kernels before 6.6.
. "$ROOT/tests/e2e/cilium.sh"
. "$ROOT/tests/e2e/upgrade.sh"
say "Cilium in place of kube-proxy"
HOME_NAME=home-cilium-alone
FLEET=(n1 n2)
# alone_yaml REPLACES: a kube-proxy that is not there has no settings
alone_yaml() {
  cilium_yaml ", kubeProxyReplacement: $1, bpf: {enableTCX: false}" n1 10.77.0.11 n2 10.77.0.12 | sed '/^ *kubeProxy:/d'
}
alone_yaml true > "$WORK/cilium-alone.yaml"
alone_yaml false > "$WORK/cilium-with-proxy.yaml"
sed "s/version: v$LAB_K8S\$/version: v$LAB_K8S_NEXT/" "$WORK/cilium-alone.yaml" > "$WORK/cilium-next.yaml"
sed "s/version: v$LAB_K8S\$/&\n    proxyMode: ipvs/" "$WORK/cilium-alone.yaml" > "$WORK/cilium-ipvs.yaml"

# Services are translated where a process connects, for those in the host's groups: `lab host root` is in the machine's.
in_pod() {
  local host=$1 address=$2; shift 2
  lab host ssh "$host" sudo sh -s << SH
for ns in /run/netns/*; do
  if nsenter --net=\$ns ip -4 -o addr | grep -qF ' $address/'; then exec nsenter --net=\$ns $*; fi
done
echo no pod has $address; exit 1
SH
}
no_kube_proxy() {
  local host
  kubectl_on n1 -n kube-system get daemonsets,configmaps -o name
  [ "$(kubectl_on n1 -n kube-system get daemonsets -o name)" = daemonset.apps/cilium ] || return 1
  ! kubectl_on n1 -n kube-system get configmaps -o name | grep kube-proxy || return 1
  for host in "${FLEET[@]}"; do
    ! lab host root "$host" "pgrep -x kube-proxy || iptables-save | grep KUBE-SERVICES || nft list ruleset | grep -F 'table ip kube-proxy'" || return 1
  done
}
# From outside of the cluster, on the address of each host: the same pod answers on both
node_ports_answer() {
  local port address
  kubectl_on n1 patch service web -p "'{\"spec\": {\"type\": \"NodePort\"}}'" || return 1
  port=$(kubectl_on n1 get service web -o 'jsonpath={.spec.ports[0].nodePort}')
  for address in 10.77.0.11 10.77.0.12; do
    within 20 lab in-net curl -sS -m 3 "http://$address:$port/" || { echo "port $port of $address does not answer"; return 1; }
  done
}
no_gap() {
  install status -f "$WORK/cilium-alone.yaml" --json > "$WORK/status.json" || return 1
  python3 -c 'import json, sys; facts = json.load(open(sys.argv[1]))["clusters"][0]["facts"]; print(facts["gaps"]); assert len(facts["nodes"]) == 2 and not facts["gaps"]' "$WORK/status.json"
}
no_proxy_image() {
  local host
  for host in "${FLEET[@]}"; do ! lab host root "$host" "ctr -n k8s.io images ls -q" | grep kube-proxy || return 1; done
  ! "$BUNDLE" inspect --json "$WORK/cilium-alone.tar.zst" | grep kube-proxy
}

check "a mode of the kube-proxy that there is not is refused" says 20 "there is no kube-proxy" \
  "$BUNDLE" build -f "$WORK/cilium-ipvs.yaml" --dry-run
check "a bundle has Cilium without kube-proxy" bundle_of cilium-alone
[ "$HELD" = 1 ] || return 0
lab host up n1 10.77.0.11 n2 10.77.0.12
states before
lab watch start n1 n2
check "a cluster of two hosts comes up without kube-proxy" install_of cilium-alone create
[ "$HELD" = 1 ] || return 0
check "both nodes are Ready" within 120 nodes_ready 2
check "every pod runs" within 90 all_running n1
check "there is no kube-proxy" no_kube_proxy
check "its image is on no node, and not in the bundle" no_proxy_image
check "pods, a service by its name and a NodePort across hosts" across_hosts node_ports_answer
check "no packet left, no name of the outside was asked" no_way_out
check "a second create changes nothing" nothing_to_do cilium-alone
check "a bundle with kube-proxy" bundle_of cilium-with-proxy
check "no create brings it to the cluster" says 53 "a running cluster without kube-proxy" install_of cilium-with-proxy create
booted=$(date -u +%FT%TZ)
check "both hosts reboot" lab host reboot --all
check "every pod runs again" within 180 all_running_since n1 "$booted"
check "the same after the reboot" across_hosts node_ports_answer
check "after the reboot a create changes nothing" nothing_to_do cilium-alone
check "certificates are renewed" install certs renew -f "$WORK/cilium-alone.yaml" --force -y
check "nothing is other than it was applied" install drift --bundle "$WORK/cilium-alone.tar.zst" -f "$WORK/cilium-alone.yaml" --allow-unsigned
check "status has no gap" no_gap

check "a bundle of v$LAB_K8S_NEXT" bundle_of cilium-next
check "the cluster is upgraded" install_of cilium-next upgrade
check "every kubelet has the new version" kubelets_are "$LAB_K8S_NEXT"
check "and every API server, controller manager and scheduler" static_pods_are "$LAB_K8S_NEXT"
check "kubeadm has brought no kube-proxy" no_kube_proxy
check "every pod runs, of the new version" within 120 all_running n1
check "the same after the upgrade" across_hosts node_ports_answer
check "after the upgrade a create changes nothing" nothing_to_do cilium-next

check "the worker leaves" install_of cilium-next delete-node n2
FLEET=(n2)
check "it is as it was before" as_before
check "nothing of Cilium is left in its kernel" nothing_pinned n2
FLEET=(n1 n2)
check "it comes back" install_of cilium-next add-node
check "both nodes are Ready again" within 120 nodes_ready 2
check "there is no kube-proxy still" no_kube_proxy
check "the same with the host that came back" across_hosts node_ports_answer
check "the cluster is reset" install_of cilium-next reset
check "of the upgrade a snapshot of etcd is left" snapshot_removed
check "every host is as it was before" as_before
check "nothing of Cilium is left in the kernel" nothing_pinned n1 n2
lab host down --all
HOME_NAME=home
