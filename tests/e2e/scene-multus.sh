# shellcheck shell=bash
# tier: hand
# seconds: 420
# needs: lab
# Multus before flannel on two hosts: pods with a second interface reach each other over it, across hosts, and others have none; both reboot, and
# one of them leaves and comes back. A cluster without multus gets it by a second create, and keeps it. A reset leaves nothing.
#
# No registry or module proxy of the lab has multus. Build it (`CGO_ENABLED=0 go build` in its repository, of ./cmd/multus, ./cmd/passthru-cni as passthru, ./cmd/install_multus
# and ./cmd/thin_entrypoint, with Go 1.23 at the version of manifests/data/features/multus.yaml), make its image in the lab's folder of images, and run the scene by its name:
#   name=ghcr.io/k8snetworkplumbingwg/multus-cni in=/usr/src/multus-cni/bin
#   tests/lab/mkimg.py ~/.cache/kubexm-lab/oci/$name $name:v4.2.2 --file ./multus:$in/multus:755 --file ./passthru:$in/passthru:755 \
#     --file ./install_multus:/install_multus:755 --file ./thin_entrypoint:/thin_entrypoint:755 --entrypoint '["/thin_entrypoint"]' >> ~/.cache/kubexm-lab/oci/images.tsv
. "$ROOT/tests/e2e/network.sh"
say "multus before the pod network of two hosts"
HOME_NAME=home-multus
FLEET=(n1 n2)
lab cluster-yaml n1 10.77.0.11 n2 10.77.0.12 > "$WORK/plain.yaml"
sed 's/plugin: flannel/&, multus: true/' "$WORK/plain.yaml" > "$WORK/multus.yaml"
CONFIG=/etc/cni/net.d/00-multus-kubexm.conf

# A network for each host, over the host's own link: addresses are given out by each host alone.
second_networks() {
  local host first=10
  for host in n1 n2; do
    cat << YAML
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: of-$host, namespace: default}
spec:
  config: '{"cniVersion": "0.3.1", "name": "of-$host", "type": "macvlan", "master": "host0", "mode": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "192.168.50.0/24", "rangeStart": "192.168.50.$first", "rangeEnd": "192.168.50.$((first + 9))"}]]}}'
---
apiVersion: v1
kind: Pod
metadata: {name: wide-$host, namespace: default, annotations: {k8s.v1.cni.cncf.io/networks: of-$host}}
spec:
  nodeName: $host
  terminationGracePeriodSeconds: 0
  tolerations: [{operator: Exists}]
  containers: [{name: wide, image: "registry.k8s.io/pause:3.10.1"}]
---
apiVersion: v1
kind: Pod
metadata: {name: narrow-$host, namespace: default}
spec:
  nodeName: $host
  terminationGracePeriodSeconds: 0
  tolerations: [{operator: Exists}]
  containers: [{name: narrow, image: "registry.k8s.io/pause:3.10.1"}]
YAML
    first=20
  done
}
address_of() { kubectl_on n1 get pod "$1" -o 'jsonpath={.status.podIP}'; }
# second_of POD: its address of the second network, as multus says
second_of() { kubectl_on n1 get pod "$1" -o yaml | grep -oE '192\.168\.50\.[0-9]+' | head -n 1; }
wide_and_narrow() {
  local host
  for host in n1 n2; do
    in_pod "$host" "$(address_of "wide-$host")" ip -4 -o addr show net1 | grep -F "$(second_of "wide-$host")/" || { echo "the pod on $host has no net1"; return 1; }
    ! in_pod "$host" "$(address_of "narrow-$host")" ip link show net1 2> /dev/null || { echo "an ordinary pod on $host has net1"; return 1; }
  done
  in_pod n1 "$(address_of wide-n1)" ping -c 2 -W 5 -I net1 "$(second_of wide-n2)"
}
wide_pods() { second_networks | kubectl_on n1 apply -f - && kubectl_on n1 wait --for=condition=Ready pod --all --timeout=120s && wide_and_narrow; }
no_wide_pods() { second_networks | kubectl_on n1 delete --wait=true -f -; }
# What pods have had is free again: nothing is remembered of them.
all_is_freed() {
  local host rc=0
  for host in n1 n2; do
    ! lab host root "$host" "ls /var/lib/cni/networks/of-$host | grep ^192" || rc=1
  done
  return "$rc"
}
private() { local host; for host in "$@"; do [ "$(lab host root "$host" stat -c %a:%U /etc/cni/net.d/multus.d/multus.kubeconfig)" = 600:root ] || return 1; done; }
least_rights() {
  local of="--as=system:serviceaccount:kube-system:multus"
  kubectl_on n1 auth can-i "$of" get pods -A && kubectl_on n1 auth can-i "$of" update pods --subresource=status -A || return 1
  ! kubectl_on n1 auth can-i "$of" list secrets -A && ! kubectl_on n1 auth can-i "$of" list pods -A && ! kubectl_on n1 auth can-i "$of" update pods -A
}
nothing_of_multus() {
  local host found rc=0
  for host in "$@"; do
    found=$(lab host root "$host" "ls -d $CONFIG /etc/cni/multus /etc/cni/net.d/multus.d /opt/cni/bin/multus /opt/cni/bin/passthru /var/lib/cni/multus 2> /dev/null; ip -o link | grep macvlan") || true
    [ -z "$found" ] || { echo "$host: $found"; rc=1; }
  done
  return "$rc"
}

check "a bundle has multus" bundle_of multus
[ "$HELD" = 1 ] || return 0
check "and one has it not" bundle_of plain
lab host up n1 10.77.0.11 n2 10.77.0.12
states before
check "a cluster of two hosts comes up with multus" install_of multus create
[ "$HELD" = 1 ] || return 0
check "both nodes are Ready" within 120 nodes_ready 2
check "every pod runs" within 90 all_running n1
check "a second create changes nothing" nothing_to_do multus
check "the kubeconfig on each node is root's alone" private n1 n2
check "the account has the rights that it needs, and no more" least_rights
check "pods with a second interface reach each other over it, and others have none" wide_pods
check "pods reach each other across hosts, and a service by its name" across_hosts
check "that multus goes is refused" says 53 "no command takes multus out" install_of plain create
booted=$(date -u +%FT%TZ)
check "both hosts reboot" lab host reboot --all
check "every pod runs again" within 180 all_running_since n1 "$booted"
check "pods have their second interface again" within 120 wide_and_narrow
check "after the reboot a create changes nothing" nothing_to_do multus
check "pods with a second interface go" no_wide_pods
check "and their addresses are free" all_is_freed
check "the worker leaves" install_of multus delete-node n2
FLEET=(n2)
check "it is as it was before" as_before
check "nothing of multus is left on it" nothing_of_multus n2
FLEET=(n1 n2)
check "it comes back" install_of multus add-node
check "both nodes are Ready again" within 120 nodes_ready 2
check "pods have a second interface there, too" wide_pods
check "the cluster is reset with them" install_of multus reset
check "every host is as it was before" as_before
check "nothing of multus is left" nothing_of_multus n1 n2
check "a cluster comes up without multus" install_of plain create
check "an upgrade does not take it for one with multus" says 53 "the cluster has no multus" install_of multus upgrade
check "it gets multus by a second create" install_of multus create
check "and keeps it" nothing_to_do multus
check "pods there have a second interface" wide_pods
check "that cluster is reset" install_of multus reset
check "every host is as it was before all" as_before
check "nothing of multus is left at the end" nothing_of_multus n1 n2
lab host down --all
HOME_NAME=home
