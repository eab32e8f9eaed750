# shellcheck shell=bash
# Proof of the air gap: counters of every packet that is meant for the outside, and a log of every name that is asked.
#
# Counted where a packet cannot be missed: in each host's own namespace (what its processes send, and what its pods send, before
# service addresses are translated), on the bridge (every frame that any host puts on the wire), and at the namespace's own
# output (the test controller). Sets with counters are the log: `nft log` does not work in a namespace.
. "$HERE/host.sh"

# Who may be spoken to. IPv4: nodes, pods, services, loopback, multicast, broadcast.
WATCH_INSIDE=${LAB_INSIDE:-10.77.0.0/24, 10.233.0.0/18, 10.233.64.0/18}
WATCH_TABLE=kubexm_watch

lab_watch() {
  local verb=${1:-}
  [ "$#" = 0 ] || shift
  need_root "lab watch"
  case $verb in
    start) watch_start "$@" ;;
    stop) watch_stop ;;
    report) watch_report ;;
    control) watch_control "$@" ;;
    *) die "usage: lab watch start [HOST...] | report | control HOST | stop" ;;
  esac
}

# watch_rules FAMILY CHAINS: the table; it replaces one that is there
watch_rules() {
  cat << NFT
table $1 $WATCH_TABLE
delete table $1 $WATCH_TABLE
table $1 $WATCH_TABLE {
  set seen4 { type ipv4_addr . inet_proto . inet_service; flags dynamic; size 65535; counter; }
  set rest4 { type ipv4_addr . inet_proto; flags dynamic; size 65535; counter; }
  set seen6 { type ipv6_addr . inet_proto . inet_service; flags dynamic; size 65535; counter; }
  set rest6 { type ipv6_addr . inet_proto; flags dynamic; size 65535; counter; }
  chain outside {
    ip daddr { $WATCH_INSIDE, 127.0.0.0/8, 224.0.0.0/4, 255.255.255.255 } return
    ip6 daddr { ::1, fe80::/10, ff00::/8 } return
    ip daddr 0.0.0.0/0 meta l4proto { tcp, udp } update @seen4 { ip daddr . meta l4proto . th dport } return
    ip daddr 0.0.0.0/0 update @rest4 { ip daddr . meta l4proto } return
    ip6 daddr ::/0 meta l4proto { tcp, udp } update @seen6 { ip6 daddr . meta l4proto . th dport } return
    ip6 daddr ::/0 update @rest6 { ip6 daddr . meta l4proto } return
  }
$2
}
NFT
}

# -300: before connection tracking and before any address is translated
RULES_BRIDGE='  chain wire { type filter hook prerouting priority -300; jump outside; }'
RULES_OUTPUT='  chain own { type filter hook output priority -300; oifname != "lo" jump outside; }'
RULES_HOST="$RULES_OUTPUT
  chain pods { type filter hook prerouting priority -300; iifname != { \"lo\", \"host0\" } jump outside; }"

# places: WHERE FAMILY of everything that counts
watch_places() {
  local name
  printf 'bridge bridge\ncontroller inet\n'
  while read -r name; do echo "$name inet"; done < "$NETRUN/watch/hosts"
}

# watch_nft WHERE NFT-ARGS...: in that place's network namespace, with this machine's nft
watch_nft() {
  local where=$1 leader
  shift
  case $where in
    bridge | controller) in_net nft "$@" ;;
    *)
      leader=$(host_leader "$where") || return 1
      nsenter --target "$leader" --net nft "$@"
      ;;
  esac
}

watch_start() {
  local dir=$NETRUN/watch name names=()
  net_is_up || die "the namespace $LAB_NET is not there: scripts/lab net up"
  # without names: all hosts that are up
  if [ "$#" = 0 ]; then
    mapfile -t names < <(host_list | awk '$3 == "up" {print $1}')
    set -- "${names[@]}"
  fi
  watch_stop
  mkdir -p "$dir"
  : > "$dir/hosts"
  : > "$dir/dns.jsonl"
  watch_rules bridge "$RULES_BRIDGE" | watch_nft bridge -f -
  watch_rules inet "$RULES_OUTPUT" | watch_nft controller -f -
  for name in "$@"; do
    host_must_run "$name"
    watch_rules inet "$RULES_HOST" | watch_nft "$name" -f -
    echo "$name" >> "$dir/hosts"
  done
  detached "$dir/dnslog.log" "$dir/dnslog.pid" nsenter --net="/run/netns/$LAB_NET" "$HERE/dnslog.py" "$GATEWAY" "$dir/dns.jsonl"
  until_true 60 watch_dns_listens || die "the name server did not start: $dir/dnslog.log"
}

watch_dns_listens() { alive "$NETRUN/watch/dnslog.pid" dnslog.py && [ -n "$(in_net ss -Hlnu "src $GATEWAY:53")" ]; }

watch_report() {
  local dir=$NETRUN/watch where family places=()
  [ -f "$dir/hosts" ] || die "nobody watches: scripts/lab watch start"
  alive "$dir/dnslog.pid" dnslog.py || die "the name server has ended: $dir/dnslog.log"
  while read -r where family; do
    watch_nft "$where" -j list table "$family" "$WATCH_TABLE" > "$dir/$where.json" 2> /dev/null < /dev/null || : > "$dir/$where.json"
    places+=("$where=$dir/$where.json")
  done < <(watch_places)
  "$HERE/watch-report.py" "$dir/dns.jsonl" "${places[@]}"
}

# watch_control HOST: a counter that shows 0 proves nothing until it has been seen to count. Its packets are reported apart.
watch_control() {
  local name=${1:-} before after
  host_must_run "$name"
  grep -qxF "$name" "$NETRUN/watch/hosts" || die "$name is not watched"
  before=$(watch_report)
  # without a gateway the kernel refuses before the wire, so the host gets a route for the moment
  host_root "$name" "ip route add 192.0.2.1/32 via $GATEWAY
    echo control > /dev/udp/192.0.2.1/9; rc=\$?
    ip route del 192.0.2.1/32
    getent ahostsv4 control.invalid
    exit \$rc" || true
  after=$(watch_report)
  python3 - "$name" "$before" "$after" << 'PY'
import json, sys
name, before, after = sys.argv[1], *(json.loads(text)["control"] for text in sys.argv[2:])
for where in ("bridge", name):
    if after["packets"].get(where, 0) <= before["packets"].get(where, 0):
        sys.exit(f"lab: control: the packet to 192.0.2.1 was not counted ({where})")
if after["questions"] <= before["questions"]:
    sys.exit("lab: control: the question for control.invalid was not logged")
print("control: counted at the host and on the bridge, and the question was logged")
PY
}

watch_stop() {
  local where family
  [ -d "$NETRUN/watch" ] || return 0
  stop "$NETRUN/watch/dnslog.pid" dnslog.py
  [ ! -f "$NETRUN/watch/hosts" ] || while read -r where family; do
    watch_nft "$where" delete table "$family" "$WATCH_TABLE" > /dev/null 2>&1 < /dev/null || true
  done < <(watch_places)
  rm -rf "$NETRUN/watch"
}
