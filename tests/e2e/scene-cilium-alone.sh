# shellcheck shell=bash
# tier: unproven
# seconds: 120
# needs: lab cilium
# `create` refuses this until it has passed as a whole (bundle-spec/spec/src/unsupported.rs): take that row out to run it.
# Cilium in place of kube-proxy, on one host. It attaches its programs as filters of tc, as on kernels before 6.6.
. "$ROOT/tests/e2e/cilium.sh"
say "Cilium in place of kube-proxy"
HOME_NAME=home-cilium-alone
FLEET=(n1)
cilium_yaml ", kubeProxyReplacement: true, bpf: {enableTCX: false}" n1 10.77.0.11 > "$WORK/cilium-alone.yaml"
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
  kubectl_on n1 -n kube-system get daemonsets -o name
  [ "$(kubectl_on n1 -n kube-system get daemonsets -o name)" = daemonset.apps/cilium ] && ! lab host root n1 pgrep -x kube-proxy
}
check "a bundle has Cilium without kube-proxy" bundle_of cilium-alone
[ "$HELD" = 1 ] || return 0
lab host up n1 10.77.0.11
states before
check "a host comes up without kube-proxy" install_of cilium-alone create
[ "$HELD" = 1 ] || return 0
check "there is no kube-proxy" no_kube_proxy
check "the node is Ready, and every pod runs" within 90 all_running n1
check "a service is reached by its name without kube-proxy" across_hosts
check "a second create changes nothing there" nothing_to_do cilium-alone
check "that cluster is reset, too" install_of cilium-alone reset
check "the host is as it was before, without kube-proxy" as_before
check "nothing of it is left in the kernel" nothing_pinned n1
lab host down --all
HOME_NAME=home
