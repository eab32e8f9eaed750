# shellcheck shell=bash disable=SC2034
# Sourced by scripts/lab before every part: where things are kept, and the few helpers all parts share.
HERE=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
. "$HERE/versions.sh"

LAB=${KUBEXM_LAB:-${XDG_CACHE_HOME:-$HOME/.cache}/kubexm-lab}
RUN=$LAB/run                               # state of what runs now; everything else under $LAB is a cache
LAB_NET=${LAB_NET:-kubexm-air}             # network namespace; also the name of this lab among others
LAB_PREFIX=${LAB_PREFIX:-$LAB_NET}         # host NAME lives in the cgroup directories $LAB_PREFIX-NAME
NETRUN=$RUN/$LAB_NET                       # state of one namespace: two labs side by side do not meet
BIN=$LAB/bin
BIN_CONTAINERD_1=$LAB/bin-containerd-1   # the same names as in $BIN, so a folder of their own
K8S_BIN=$LAB/k8s/$LAB_K8S
K8S_NEXT_BIN=$LAB/k8s/$LAB_K8S_NEXT
BASE=$LAB/base
OCI=$LAB/oci
BALANCERS=$LAB/oci-balancers             # images that only some scenes need: lab balancers
CALICO=$LAB/calico                       # as well: lab calico
CILIUM=$LAB/cilium                       # as well: lab cilium
STORAGE=$LAB/storage                     # as well: lab storage
FILES=$LAB/origin
KEY=$LAB/id
GATEWAY=10.77.0.1                          # the namespace's own address on its bridge

CONTAINERD_PROGRAMS=(containerd containerd-shim-runc-v2 ctr)
K8S_PROGRAMS=(kubeadm kubelet kubectl kube-apiserver kube-controller-manager kube-scheduler kube-proxy)
CNI_PROGRAMS=(bridge host-device ipvlan loopback macvlan ptp host-local bandwidth firewall portmap tuning)

die() { echo "lab: $*" >&2; exit 1; }
need_root() { [ "$(id -u)" = 0 ] || die "$1 needs root"; }

# step NAME COMMAND...: one line of progress with the seconds it took. The command's output goes to a log that is
# shown only when it fails. The command runs in a subshell that keeps `set -e`, which `if cmd` would switch off.
step() {
  local name=$1 from=$SECONDS log=$LAB/log/$1.log rc
  shift
  mkdir -p "$LAB/log"
  set +e
  (set -e; "$@") > "$log" 2>&1
  rc=$?
  set -e
  if [ "$rc" != 0 ]; then
    tail -n 40 "$log" >&2
    die "$name failed (rc $rc); all of it is in $log"
  fi
  printf '%-28s %4ss\n' "$name" "$((SECONDS - from))"
}

# lock: one writer of the cache at a time; the second one waits and then finds everything done.
lock() {
  mkdir -p "$LAB"
  exec 9> "$LAB/lock"
  flock -n 9 || { echo "lab: waiting for another lab that is building" >&2; flock 9; }
}

# alive PIDFILE WORD: the process of that file runs, and is the one we started (its command line has WORD).
alive() {
  local pid
  [ -s "$1" ] || return 1
  pid=$(cat "$1")
  tr '\0' ' ' 2> /dev/null < "/proc/$pid/cmdline" | grep -qF -- "$2"
}

# gone PID: it has ended; one that only waits for a lazy parent to read its status has.
gone() { ! grep -q '^State:[[:space:]]*[^ZX]' 2> /dev/null < "/proc/$1/status"; }

# stop PIDFILE WORD: end it and wait until it is gone.
stop() {
  local pid i
  if alive "$1" "$2"; then
    pid=$(cat "$1")
    kill -TERM "$pid" 2> /dev/null || true
    for ((i = 0; i < 100; i++)); do ! gone "$pid" || break; sleep 0.1; done
    gone "$pid" || kill -KILL "$pid" 2> /dev/null || true
  fi
  rm -f "$1"
}

# detached LOG PIDFILE COMMAND...: run in a session of its own, without our terminal, file descriptors or lock.
detached() {
  local log=$1 pidfile=$2
  shift 2
  setsid "$@" > "$log" 2>&1 < /dev/null 9>&- &
  echo $! > "$pidfile"
}

# until_true SECONDS COMMAND...: poll, since nothing here announces that it is ready.
until_true() {
  local end=$((SECONDS + $1))
  shift
  while ! "$@" > /dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}

net_is_up() { [ -e "/run/netns/$LAB_NET" ]; }

# in_net COMMAND...: nsenter, not `ip netns exec`, which remounts /sys and by that breaks systemd-nspawn.
in_net() { nsenter --net="/run/netns/$LAB_NET" "$@"; }
