# shellcheck shell=bash
# OS packages alone: which packages Debian 12 needs for a set of roots, from indexes in a warm cache, beside apt-get with a root of its
# own, its lists and its binary cache warm too. Both read the same snapshot of Debian, served by this machine.
command -v apt-get > /dev/null || { echo "bench: apt-get is needed" >&2; return 1; }
lab packages >&2
SITE=$WORK/packages
SNAPSHOT=$LAB/packages
APT=$SITE/apt
mkdir -p "$APT"/{state/lists/partial,cache/archives/partial,etc/apt.conf.d,etc/preferences.d,etc/trusted.gpg.d}
: > "$APT/status"
STARTED=()
leave() {
  local code=$? pid
  for pid in "${STARTED[@]}"; do kill "$pid" 2> /dev/null || true; done
  exit "$code"
}
trap leave EXIT

python3 "$ROOT/tests/bench/origin.py" serve "$SNAPSHOT" "$SITE/access.log" 0 0 > "$SITE/port" &
STARTED+=($!)
until [ -s "$SITE/port" ]; do sleep 0.05; done
PORT=$(cat "$SITE/port")
# 150 packages and some more.
ROOTS=(socat conntrack ebtables ipset ipvsadm nfs-common open-iscsi chrony bash-completion keepalived haproxy nginx docker.io python3-yaml curl)
# What signs the snapshot is not what is measured.
for suite in bookworm bookworm-updates; do
  echo "deb [trusted=yes check-valid-until=no] http://127.0.0.1:$PORT/debian $suite main"
done > "$APT/sources.list"
echo "deb [trusted=yes check-valid-until=no] http://127.0.0.1:$PORT/debian-security bookworm-security main" >> "$APT/sources.list"
# What this machine's own apt is reported (further kinds of indexes, say) is nobody's business here.
echo 'Dir::Etc::parts "/dev/null";' > "$APT/config"
apt_get() {
  APT_CONFIG=$APT/config apt-get -qq -o Dir::State="$APT/state" -o Dir::State::status="$APT/status" -o Dir::Cache="$APT/cache" -o Dir::Etc="$APT/etc" \
    -o Dir::Etc::sourcelist="$APT/sources.list" -o Dir::Etc::sourceparts=/dev/null -o APT::Architecture=amd64 -o APT::Architectures=amd64 \
    -o APT::Install-Recommends=false -o Debug::NoLocking=1 -o APT::Sandbox::User=root -o Acquire::Languages=none \
    -o Acquire::http::Pipeline-Depth=0 "$@"
}
apt_solves() { apt_get --print-uris -y install "$@" > "$SITE/apt.out"; }
we_solve() { "$BUNDLE" packages resolve --os debian-12 --mirror "http://127.0.0.1:$PORT" --cache "$SITE/cache" "$@" > "$SITE/ours.out"; }
export -f apt_get apt_solves we_solve
export APT SITE BUNDLE PORT
apt_get update
apt_solves "${ROOTS[@]}"
we_solve "${ROOTS[@]}"
count=$(($(wc -l < "$SITE/ours.out") - 1))
[ "$count" = "$(wc -l < "$SITE/apt.out")" ] || { echo "bench: apt and we differ in how many packages are needed" >&2; return 1; }
say "$count packages of Debian 12 and its security suite"
for round in $(seq $((3 * RUNS))); do
  timed "$round" packages-solve bash -c 'we_solve "$@"' - "${ROOTS[@]}"
  timed "$round" apt-solve bash -c 'apt_solves "$@"' - "${ROOTS[@]}"
  rm -f "$APT"/cache/*.bin
  timed "$round" apt-solve-cold bash -c 'apt_solves "$@"' - "${ROOTS[@]}"
done
