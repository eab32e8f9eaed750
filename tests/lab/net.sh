# shellcheck shell=bash
# An air-gapped network: a namespace with a bridge and no uplink. What runs in it can reach the lab's hosts and nothing else.

lab_net() {
  need_root "lab net"
  case ${1:-} in
    up) net_up ;;
    down) net_down ;;
    cut) net_cut "${2:-}" "${3:-}" ;;
    *) die "usage: lab net up | down | cut HOST SECONDS" ;;
  esac
}

# net_cut HOST SECONDS: its port leaves the bridge for so long. The host keeps its carrier and address, as when a switch
# further on fails: nothing tells either side.
net_cut() {
  local port=vb-$1
  [[ $2 =~ ^[0-9]+$ ]] && in_net ip link show "$port" > /dev/null 2>&1 || die "usage: lab net cut HOST SECONDS, of a host that is up"
  # shellcheck disable=SC2064  # the port is known now
  trap "in_net ip link set $port master br0" EXIT
  in_net ip link set "$port" nomaster
  sleep "$2"
}

# Hosts share the machine's count of inotify instances: two fleets of three take most of the 128 that root has, and then
# containerd's CRI plugin does not load. Only ever raised.
more_inotify() {
  local file=/proc/sys/fs/inotify/max_user_instances
  [ "$(cat $file)" -ge 512 ] || echo 512 > $file
}

net_up() {
  mkdir -p "$NETRUN"
  more_inotify
  net_is_up || ip netns add "$LAB_NET"
  in_net ip link set lo up
  in_net ip link show br0 > /dev/null 2>&1 || in_net ip link add br0 type bridge
  # no IPv6 on the bridge: its router solicitations would be the only noise on a silent network
  in_net sh -c 'echo 1 > /proc/sys/net/ipv6/conf/br0/disable_ipv6' 2> /dev/null || true
  in_net ip -4 addr show dev br0 | grep -qF "$GATEWAY/24" || in_net ip addr add "$GATEWAY/24" dev br0
  in_net ip link set br0 up
  # frames between hosts must not go through the namespace's own iptables
  in_net sh -c 'for f in iptables ip6tables; do echo 0 > /proc/sys/net/bridge/bridge-nf-call-$f; done' 2> /dev/null || true
}

net_down() {
  local host
  for host in "$NETRUN"/hosts/*/; do
    [ ! -d "$host" ] || die "$LAB_NET still has hosts: lab host down --all"
  done
  . "$HERE/watch.sh"
  watch_stop
  ! net_is_up || ip netns del "$LAB_NET"
  rm -rf "$NETRUN"
}
