# shellcheck shell=bash
# tier: long
# seconds: 300
# needs: lab
# Three hosts without a registry take the bundle's content from each other; one of them can be reached by nobody for that, and one crawls
# when it sends: the others leave it, and the run takes about as long as without it. After the run
# nobody listens there any more, and a reset leaves nothing.
. "$ROOT/tests/e2e/fleet.sh"
say "content from host to host"
HOME_NAME=home-fan-out
FLEET=(f1 f2 f3)
fan_out_yaml() {
  lab cluster-yaml --control-planes 1 f1 10.77.0.41 f2 10.77.0.42 f3 10.77.0.43 | sed "s|registry: {type: embedded}|registry: {type: none}|"
}
fan_out() { install "$1" --bundle "$WORK/fan-out.tar.zst" -f "$WORK/fan-out.yaml" --allow-unsigned --accept-new-host-keys "${@:2}"; }
fan_out_bundle() {
  fan_out_yaml > "$WORK/fan-out.yaml"
  "$BUNDLE" build -f "$WORK/fan-out.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$WORK/fan-out.tar.zst"
}
# create_and_look: what listens on the port is looked for while it runs
create_and_look() {
  local pid rc=0
  rm -f "$WORK/fan-out-listened"
  fan_out create -y --json > "$WORK/fan-out.jsonl" & pid=$!
  while kill -0 "$pid" 2> /dev/null; do
    lab host root f1 ss -ltnH sport = :5444 2> /dev/null | grep -q 10.77.0.41:5444 && touch "$WORK/fan-out-listened"
    sleep 0.2
  done
  wait "$pid" || rc=$?
  [ "$rc" = 0 ] || tail -n 5 "$WORK/fan-out.jsonl"
  return "$rc"
}
# content_said: from where content came, in MB, by the note of the run
content_said() { sed -n 's/.*"text":"\(hosts took [^"]*\)".*/\1/p' "$WORK/fan-out.jsonl" | grep .; }
from_hosts() {
  local said hosts controller
  said=$(content_said) || { echo "the run says nothing of content from other hosts"; return 1; }
  echo "$said"
  hosts=$(sed 's/hosts took \([0-9]*\) MB.*/\1/' <<< "$said")
  controller=$(sed 's/.* and \([0-9]*\) MB from this machine/\1/' <<< "$said")
  [ "$hosts" -ge 50 ] && [ "$controller" -gt 0 ] && [ -e "$WORK/fan-out-listened" ]
}
# Nobody reaches f3, and it reaches the others: each of them is warned of, none is an error.
warned() { grep -q "port 5444/tcp" "$WORK/fan-out.jsonl"; }
slow_one() {
  grep -o '[^"]*10.77.0.42:5444 sends too slowly[^"]*' "$WORK/fan-out.jsonl" || { echo "nobody gave f2 up"; return 1; }
}
nobody_listens() {
  local host
  for host in "${FLEET[@]}"; do
    ! lab host root "$host" ss -ltnH | grep -q ':5444 ' || { echo "$host still serves others"; return 1; }
  done
}
fan_out_ready() { [ "$(kubectl_on f1 get nodes --no-headers | grep -c ' Ready ')" = 3 ]; }
fan_out_nothing() {
  fan_out create -y --json > "$WORK/again.jsonl" || { tail -n 3 "$WORK/again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/again.jsonl"
}

check "a bundle without a registry is built" fan_out_bundle
[ "$HELD" = 1 ] || return 0
lab host up f1 10.77.0.41 f2 10.77.0.42 f3 10.77.0.43
lab host root f3 'nft -f -' << 'NFT'
table inet site {
  chain in { type filter hook input priority 0; tcp dport 5444 drop; }
}
NFT
# 10 s at this rate are 2 MB.
lab host root f2 'nft -f -' << 'NFT'
table inet site {
  chain out { type filter hook output priority 0; tcp sport 5444 limit rate over 200 kbytes/second drop; }
}
NFT
states before
check "three hosts become a cluster, though one serves nobody" create_and_look
[ "$HELD" = 1 ] || return 0
check "they took content from each other" from_hosts
check "that nobody reaches one of them was said" warned
check "what f2 sends too slowly was taken from elsewhere" slow_one
check "after the run nobody serves others" nobody_listens
check "every node is Ready" within 180 fan_out_ready
check "a second create changes nothing" fan_out_nothing
check "the cluster is reset" fan_out reset -y
check "every host is as it was before" as_before
lab host down --all
HOME_NAME=home
