# shellcheck shell=bash
# tier: long
# seconds: 400
# needs: lab
# flannel's backend host-gw on two hosts: packets of pods travel without a tunnel, another backend is refused, both hosts reboot, a worker leaves
# and comes back, and a reset leaves no route, but the operator's own.
. "$ROOT/tests/e2e/network.sh"
say "flannel with the backend host-gw"
HOME_NAME=home-host-gw
FLEET=(n1 n2)
lab host down --all
lab cluster-yaml n1 10.77.0.11 n2 10.77.0.12 |
  sed 's|network: {plugin: flannel}|network: {plugin: flannel, options: {backend: host-gw}}|' > "$WORK/host-gw.yaml"
sed 's|backend: host-gw|directRouting: true|' "$WORK/host-gw.yaml" > "$WORK/direct.yaml"
sed 's|backend: host-gw|backend: wireguard|' "$WORK/host-gw.yaml" > "$WORK/wireguard.yaml"
check "a bundle is built" bundle_of host-gw
[ "$HELD" = 1 ] || return 0
for other in direct wireguard; do ln -f "$WORK/host-gw.tar.zst" "$WORK/$other.tar.zst"; done
lab host up n1 10.77.0.11 n2 10.77.0.12
lab host root n2 ip route add 10.99.0.0/16 via 10.77.0.1
states before
without_module() { says 53 "no kernel module wireguard" install_of wireguard create; }
has_module() { lab host root n1 "modinfo wireguard || [ -e /sys/module/wireguard ]"; }
has_module > /dev/null 2>&1 || check "a kernel without wireguard is refused by name" without_module
check "a cluster of two hosts comes up with host-gw" install_of host-gw create
[ "$HELD" = 1 ] || return 0
check "both nodes are Ready" within 120 nodes_ready 2
check "every pod runs" within 90 all_running n1
# The other host's pods are reached over the host's own link, and there is no tunnel.
without_tunnel() {
  lab host root n1 "ip route show | grep -E '^10\\.233\\.[0-9.]+/24 via 10\\.77\\.0\\.12 ' && ! ip link show flannel.1"
}
check "packets of pods travel without a tunnel" without_tunnel
check "pods reach each other across hosts, and a service by its name" across_hosts
wants_all n2
check "systemd-networkd starts again, and routes to pods stay" networkd_again n2
check "it leaves the links of pods alone, whatever the operator's file says" is_unmanaged n2 cni0
lab host root n2 rm /etc/systemd/network/90-theirs.network
check "a second create changes nothing" nothing_to_do host-gw
check "another backend is refused by name" says 53 "backend is vxlan, and the cluster has host-gw" install_of direct create
booted=$(date -u +%FT%TZ)
check "both hosts reboot" lab host reboot --all
check "every pod runs again" within 180 all_running_since n1 "$booted"
check "pods reach each other after the reboot" across_hosts
lab host root n2 ip route add 10.99.0.0/16 via 10.77.0.1
check "the worker leaves" install_of host-gw delete-node n2
no_route() { ! lab host root "$1" "ip route show | grep -E '^10\\.233\\.'"; }
no_route_to_n2() { ! lab host root n1 "ip route show | grep 'via 10.77.0.12'"; }
check "it has no route to pods" no_route n2
check "nor has the other one to it" within 60 no_route_to_n2
FLEET=(n2)
check "it is as it was before" as_before
FLEET=(n1 n2)
check "it comes back" install_of host-gw add-node
check "both nodes are Ready again" within 120 nodes_ready 2
check "pods reach each other across hosts again" across_hosts
check "the cluster is reset" install_of host-gw reset
for host in "${FLEET[@]}"; do check "no route to pods is left on $host" no_route "$host"; done
check "the operator's own route is there" lab host root n2 "ip route show | grep '^10.99.0.0/16'"
check "every host is as it was before" as_before
check "a cluster comes up whose tunnel is for other networks only" install_of direct create
check "packets to the other host of the network travel without it" lab host root n1 "ip route show | grep -E '^10\\.233\\.[0-9.]+/24 via 10\\.77\\.0\\.12 '"
check "pods reach each other across hosts of one network" across_hosts
check "that cluster is reset" install_of direct reset
for host in "${FLEET[@]}"; do check "no route is left on $host" no_route "$host"; done
check "every host is as it was before all" as_before
lab host down --all
HOME_NAME=home
