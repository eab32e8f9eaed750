# shellcheck shell=bash
# tier: long
# seconds: 130
# needs: lab
# A cluster without a pod network of ours: nodes wait for the one that the operator installs.
. "$ROOT/tests/e2e/fleet.sh"
say "a pod network that the operator installs"
HOME_NAME=home-network
NONE=$WORK/network-none.tar.zst
lab cluster-yaml n1 10.77.0.11 | sed 's/plugin: flannel/plugin: none/' > "$WORK/network-none.yaml"
check "a bundle without a pod network is built" \
  "$BUNDLE" build -f "$WORK/network-none.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$NONE"
lab host up n1 10.77.0.11
network() { install "$1" --bundle "$NONE" --allow-unsigned "${@:2}"; }
not_ready() {
  kubectl_on n1 get nodes | grep -q ' NotReady '
  kubectl_on n1 get node n1 -o json | grep -q 'container runtime network not ready'
}
# The bridge plugin that the bundle brings, on one host: a network as small as there is one.
operators_network() {
  lab host root n1 sh -c 'cat > /etc/cni/net.d/10-operator.conflist' << 'CNI'
{"cniVersion": "1.0.0", "name": "operator", "plugins": [
  {"type": "bridge", "bridge": "operator0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.233.64.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
CNI
}
check "preflight says that a network is to be installed" says 0 "install one after create" network preflight --accept-new-host-keys
check "a cluster without a network is created, and says that its nodes wait for one" \
  says 0 "NotReady until you install a pod network" network create -y
check "its node is NotReady for lack of a network" not_ready
check "a second create changes nothing" says 0 "0 steps changed" network create -y
check "the operator installs a network" operators_network
check "then the node is Ready" becomes_ready n1
check "then every pod runs" within 120 all_running n1
check "a create afterwards changes nothing, and finds the node Ready" says 0 "0 steps changed" network create -y
check "reset takes the cluster away, and says whose the network is" says 0 "may stay until its own clean-up" network reset -y
gone() { lab host root n1 sh -s <<< 'for path in /etc/cni/net.d /etc/kubernetes /var/lib/kubelet; do ! [ -e "$path" ] || exit 1; done'; }
check "with what was put into its folders since" gone
lab host down --all
HOME_NAME=home
