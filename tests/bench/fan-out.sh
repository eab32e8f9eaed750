# shellcheck shell=bash
# Filling the content stores of hosts over SSH: the real engine, sshd and agent, without Kubernetes. Each host, and the controller, has a
# network namespace, and a link that takes RATE each way; stores are in memory, so that one disk is not what 20 hosts share. Content as
# the programs of a worker, in the same proportions and 30 MB in all.
SITE=$WORK/fan-out RATE=40mbit MOST=20 SPACE=kubexm-fan
mkdir -p "$SITE"
LEFT=() STARTED=()
gone() {
  local code=$? pid number
  for pid in "${STARTED[@]}"; do kill -- "-$pid" 2> /dev/null || kill "$pid" 2> /dev/null || true; done
  for number in net controller $(seq "$MOST"); do ip netns del "$SPACE-$number" 2> /dev/null || true; done
  for folder in "${LEFT[@]}"; do rmdir "$folder" 2> /dev/null || true; done
  exit "$code"
}
trap gone EXIT
[ "$(id -u)" = 0 ] || { echo "bench: the part fan-out needs root, for its namespaces" >&2; exit 1; }

# The controller of this part; sshd starts the program that is measured as the agent.
[ -n "${FAN_OUT_FILL:-}" ] || (cd "$ROOT" && cargo build --quiet --release --target "$TARGET" -p kubexm-tests --example fill)
FILL=${FAN_OUT_FILL:-$BUILT/examples/fill}

# linked NAME ADDRESS: a namespace whose link takes RATE each way
linked() {
  ip netns add "$SPACE-$1"
  ip link add "e$1" netns "$SPACE-net" type veth peer name eth0 netns "$SPACE-$1"
  ip -n "$SPACE-net" link set "e$1" master br0 up
  ip -n "$SPACE-$1" link set lo up
  ip -n "$SPACE-$1" addr add "$2/24" dev eth0
  ip -n "$SPACE-$1" link set eth0 up
  tc -n "$SPACE-$1" qdisc add dev eth0 root tbf rate "$RATE" burst 64k latency 100ms
  tc -n "$SPACE-net" qdisc add dev "e$1" root tbf rate "$RATE" burst 64k latency 100ms
}

say "twenty hosts, each with a link of $RATE"
ip netns add "$SPACE-net"
ip -n "$SPACE-net" link add br0 type bridge
ip -n "$SPACE-net" link set br0 up
linked controller 10.78.0.254
ssh-keygen -q -t ed25519 -N '' -f "$SITE/host_key"
ssh-keygen -q -t ed25519 -N '' -f "$SITE/key"
cp "$SITE/key.pub" "$SITE/authorized_keys"
mkdir -p /run/sshd "$SITE/content"
for folder in /var/lib/kubexm /run/kubexm; do
  [ -d "$folder" ] || { mkdir -p "$folder" && LEFT+=("$folder"); }
done
for size in 5600 5200 4500 4100 3700 2600 1350 1200 900 750; do
  head -c "${size}000" /dev/urandom > "$SITE/content/$size"
done
for number in $(seq "$MOST"); do
  linked "$number" "10.78.0.$number"
  cat > "$SITE/sshd-$number" << END
ListenAddress 10.78.0.$number
HostKey $SITE/host_key
AuthorizedKeysFile $SITE/authorized_keys
StrictModes no
UsePAM no
PidFile none
PasswordAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
END
  setsid ip netns exec "$SPACE-$number" unshare -m --propagation private bash -c "
    mount -t tmpfs none /var/lib/kubexm && mount -t tmpfs none /run/kubexm && mount -t tmpfs none /usr/local/bin &&
      exec /usr/sbin/sshd -D -e -f '$SITE/sshd-$number'" 2> "$SITE/sshd-$number.log" &
  STARTED+=($!)
done

# fill ROUND WHAT HOSTS OPTION...: empty stores, then their filling; the program says how long that took, without logging in
fill() {
  local round=$1 what=$2 hosts=$3 took
  shift 3
  took=$(ip netns exec "$SPACE-controller" "$FILL" --agent "$INSTALL" --key "$SITE/key" --content "$SITE/content" --hosts "$hosts" \
    --network 10.78.0 "$@" 2> "$SITE/fill.log") || { tail -n 20 "$SITE/fill.log" >&2; return 1; }
  printf '%s\t%s\t%s\t0\n' "$round" "$what" "${took%% *}" >> "$WORK/samples.tsv"
  echo "$what: $took" >&2
}

for round in $(seq "$RUNS"); do
  fill "$round" fill-1 1
  fill "$round" fill-4 4
  fill "$round" fill-4-alone 4 --no-fan-out
  fill "$round" fill-20 "$MOST"
  fill "$round" fill-20-alone "$MOST" --no-fan-out
done
