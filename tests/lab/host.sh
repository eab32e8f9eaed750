# shellcheck shell=bash
# Hosts: Debian servers in systemd-nspawn on the lab's bridge. State of each: $NETRUN/hosts/NAME/{root,address,pid,log}.
. "$HERE/cgroups.sh"

lab_host() {
  local verb=${1:-}
  [ "$#" = 0 ] || shift
  need_root "lab host"
  case $verb in
    up) host_up "$@" ;;
    down) host_down "$@" ;;
    stop) host_stop "$@" ;;
    crash) host_crash "$@" ;;
    save) host_save "$@" ;;
    restore) host_restore "$@" ;;
    reboot) host_reboot "$@" ;;
    ssh) host_ssh "$@" ;;
    root) host_root "$@" ;;
    list) host_list ;;
    disk) host_disk "$@" ;;
    *) die "usage: lab host up|down|stop|crash|save|restore|reboot|ssh|root|list|disk ..." ;;
  esac
}

host_dir() {
  [[ ${1:-} =~ ^[a-z][a-z0-9-]*$ ]] || die "a host's name is lower case letters, digits and dashes, not '${1:-}'"
  echo "$NETRUN/hosts/$1"
}

host_must_run() {
  local dir
  dir=$(host_dir "${1:-}")
  alive "$dir/pid" host-run || die "host $1 is not up in $LAB_NET"
}

# host_up [OPTIONS] NAME IP [NAME IP ...]: all at once; each is its own process, and one that fails does not stop the others
host_up() {
  local gateway=$GATEWAY base=$BASE password='' words=() pids=() rc=0 at pid
  while [ "$#" -gt 0 ]; do
    case $1 in
      --no-gateway) gateway= ;;
      --bare) base=$BASE-bare ;;
      --python) . "$HERE/base.sh"; lab_base_python; base=$BASE-python ;;
      --sudo-password) password=${2:-}; [ -s "$password" ] || die "--sudo-password wants a file with a password"; shift ;;
      -*) die "host up: unknown option $1" ;;
      *) words+=("$1") ;;
    esac
    shift
  done
  [ "${#words[@]}" != 0 ] && [ $((${#words[@]} % 2)) = 0 ] || die "usage: lab host up NAME IP [NAME IP ...] [--no-gateway] [--bare|--python] [--sudo-password FILE]"
  [ -d "$base/etc" ] && [ -f "$KEY" ] || die "nothing is built yet: scripts/lab build"
  net_is_up || die "the namespace $LAB_NET is not there: scripts/lab net up"
  for ((at = 0; at < ${#words[@]}; at += 2)); do
    host_up_one "${words[at]}" "${words[at + 1]}" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || rc=1; done
  return "$rc"
}

# host_dirs NAME|--all
host_dirs() {
  [ -n "${1:-}" ] || die "which host? NAME or --all"
  if [ "$1" = --all ]; then find "$NETRUN/hosts" -mindepth 1 -maxdepth 1 -type d 2> /dev/null | sort; else host_dir "$1"; fi
}

# host_stop NAME|--all: powered off in order, all at once, and kept; `host up` boots them again with their names, addresses and disks
host_stop() {
  local dirs dir pid
  local -A pids
  mapfile -t dirs < <(host_dirs "${1:-}")
  for dir in "${dirs[@]}"; do
    alive "$dir/pid" host-run || continue
    pids[$dir]=$(cat "$dir/pid")
    kill -TERM "${pids[$dir]}"
  done
  for dir in "${!pids[@]}"; do
    pid=${pids[$dir]}
    until_true 90 gone "$pid" || die "host $(basename "$dir") did not power off in 90 s; see $dir/log"
    cgroup_sweep "$LAB_PREFIX-$(basename "$dir")"
  done
}

# host_crash NAME|--all: as if its power were cut: nothing is ended in order; kept, as after `host stop`
host_crash() {
  local dirs dir
  mapfile -t dirs < <(host_dirs "${1:-}")
  for dir in "${dirs[@]}"; do host_halt "$dir"; done
  for dir in "${dirs[@]}"; do
    alive "$dir/pid" host-run || continue
    until_true 30 gone "$(cat "$dir/pid")" || die "host $(basename "$dir") still runs; see $dir/log"
  done
  for dir in "${dirs[@]}"; do cgroup_sweep "$LAB_PREFIX-$(basename "$dir")"; done
}

# Snapshots are shared by all namespaces: a host has the same name and address in each.
host_snapshot() {
  [[ ${1:-} =~ ^[a-z][a-z0-9-]*$ ]] || die "a snapshot's name is lower case letters, digits and dashes, not '${1:-}'"
  echo "$RUN/snapshots/$1"
}

# host_copy FROM TO: disk and address of one host; the disk is there when it is whole
host_copy() {
  mkdir -p "$2"
  cp "$1/address" "$2/"
  cp -a --reflink=auto "$1/root" "$2/root.tmp"
  mv "$2/root.tmp" "$2/root"
}

# host_save SNAPSHOT: the disks of all hosts, which are stopped. One of the same name is replaced.
host_save() {
  local to dirs dir pids=() pid rc=0
  to=$(host_snapshot "${1:-}")
  mapfile -t dirs < <(host_dirs --all)
  [ "${#dirs[@]}" != 0 ] || die "there is no host in $LAB_NET"
  for dir in "${dirs[@]}"; do ! alive "$dir/pid" host-run || die "host $(basename "$dir") is up: lab host stop --all"; done
  rm -rf --one-file-system "$to" "$to.tmp"
  for dir in "${dirs[@]}"; do host_copy "$dir" "$to.tmp/$(basename "$dir")" & pids+=($!); done
  for pid in "${pids[@]}"; do wait "$pid" || rc=1; done
  [ "$rc" = 0 ] || die "the disks were not all copied"
  mv "$to.tmp" "$to"
}

# host_restore SNAPSHOT: its hosts are booted from copies of its disks
host_restore() {
  local from dir name words=() pids=() pid rc=0
  from=$(host_snapshot "${1:-}")
  [ -d "$from" ] || die "there is no snapshot $1"
  for dir in "$from"/*/; do
    name=$(basename "$dir")
    [ ! -d "$(host_dir "$name")" ] || die "host $name is there already: lab host down $name"
    words+=("$name" "$(cat "$dir/address")")
    host_copy "$dir" "$(host_dir "$name")" & pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || rc=1; done
  [ "$rc" = 0 ] || die "the disks were not all copied"
  host_up "${words[@]}"
}

# host_up_one NAME IP: with host_up's gateway, base and password
host_up_one() {
  local name=$1 address=$2 dir from=$SECONDS
  [[ $address =~ ^10\.77\.0\.[0-9]+$ ]] || die "host addresses are in 10.77.0.0/24, not $address"
  dir=$(host_dir "$name")
  if ! alive "$dir/pid" host-run; then
    [ -d "$dir/root" ] || host_make "$name" "$address" "$dir" "$base" "$gateway" "$password"
    detached "$dir/log" "$dir/pid" "$HERE/host-run" "$name" "$dir/root"
  fi
  host_answers "$name" || { tail -n 20 "$dir/log" >&2; die "host $name: no ssh after 60 s; see $dir/log"; }
  echo "$name $(cat "$dir/address") up $((SECONDS - from))s"
}

host_make() {
  local name=$1 address=$2 dir=$3 base=$4 gateway=$5 password=$6 root=$3/root.tmp
  rm -rf --one-file-system "$root"
  mkdir -p "$dir"
  cp -a --reflink=auto "$base" "$root"
  echo "$name" > "$root/etc/hostname"
  # Its own: left empty, every host would take the machine's.
  tr -d - < /proc/sys/kernel/random/uuid > "$root/etc/machine-id"
  # as Debian's installer writes it, name on a loopback address included
  printf '127.0.0.1\tlocalhost\n127.0.1.1\t%s\n' "$name" > "$root/etc/hosts"
  echo "nameserver $GATEWAY" > "$root/etc/resolv.conf"
  {
    printf '[Match]\nName=host0\n\n[Network]\nAddress=%s/24\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' "$address"
    [ -z "$gateway" ] || echo "Gateway=$gateway"
  } > "$root/etc/systemd/network/10-host0.network"
  # with a password, sudo asks for it, as Debian's own sudoers says; ssh continues wanting a key
  if [ -n "$password" ]; then
    rm "$root/etc/sudoers.d/operator"
    { printf operator:; head -n 1 "$password"; } | chroot "$root" chpasswd
  fi
  # Every machine has it; without it containerd would make it, for kube-proxy to look into.
  mkdir -p "$root/usr/lib/modules"
  ssh-keygen -q -A -f "$root" > /dev/null
  install -d -m 700 "$root/home/operator/.ssh"
  install -m 600 "$KEY.pub" "$root/home/operator/.ssh/authorized_keys"
  chown -R --reference="$root/home/operator" "$root/home/operator/.ssh"
  echo "$address" > "$dir/address"
  mv "$root" "$dir/root"
}

# host_answers NAME: until ssh lets us in. It gives up early when the host has ended.
host_answers() {
  local dir end=$((SECONDS + 180))
  dir=$(host_dir "$1")
  until host_ssh "$1" true > /dev/null 2>&1; do
    alive "$dir/pid" host-run && [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}

host_ssh() {
  local dir
  dir=$(host_dir "${1:-}")
  [ -f "$dir/address" ] || die "no host $1 in $LAB_NET"
  shift
  in_net ssh -i "$KEY" -o IdentitiesOnly=yes -o BatchMode=yes -o ConnectTimeout=5 -o StrictHostKeyChecking=no \
    -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "operator@$(cat "$dir/address")" "$@"
}

# host_leader NAME: process id of the host's own init. host-run's child is nspawn (nsenter became it), whose child is init.
host_leader() {
  local nspawn leader
  nspawn=$(pgrep -P "$(cat "$(host_dir "$1")/pid")" -x systemd-nspawn | head -n 1)
  [ -n "$nspawn" ] || return 1
  leader=$(pgrep -P "$nspawn" | head -n 1)
  [ -n "$leader" ] && echo "$leader"
}

# host_root NAME CMD...: like ssh, the words are joined and a shell reads them. Needs no ssh, so it works when ssh does not.
host_root() {
  local name=${1:-} leader
  host_must_run "$name"
  shift
  leader=$(host_leader "$name") || die "host $name is between two boots"
  nsenter --target "$leader" --mount --uts --ipc --net --pid --cgroup --root --wd -- \
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8 /bin/bash -c "${*:-exec bash}"
}

# host_reboot NAME|--all: all are reported before the first is waited for
host_reboot() {
  local names=("${1:-}") name from=$SECONDS
  local -A before
  [ "${1:-}" != --all ] || mapfile -t names < <(host_list | awk '$3 == "up" {print $1}')
  for name in "${names[@]}"; do
    host_must_run "$name"
    before[$name]=$(host_ssh "$name" cat /proc/sys/kernel/random/boot_id)
  done
  for name in "${names[@]}"; do host_root "$name" systemctl --no-block reboot; done
  for name in "${names[@]}"; do
    until_true 90 host_booted_since "$name" "${before[$name]}" || die "host $name did not come back in 90 s; see $(host_dir "$name")/log"
    echo "$name rebooted $((SECONDS - from))s"
  done
}

# host_disk NAME PATH full|room: a disk of its own, of a size that any check beforehand likes; when full, a handful of files more
# fit on it than are there (a tmpfs without a limit cannot be given one later). In memory: it is empty after a reboot.
host_disk() {
  local files
  # shellcheck disable=SC2016  # for the host's shell
  case ${3:-} in full) files='$(($(df --output=iused '$2' | tail -n 1) + 7))' ;; room) files=1000000 ;; *) die "usage: lab host disk NAME PATH full|room" ;; esac
  host_root "$1" "mkdir -p $2 && { mountpoint -q $2 || mount -t tmpfs -o size=12g tmpfs $2; } && mount -o remount,nr_inodes=$files $2"
}

host_booted_since() {
  local now
  now=$(host_ssh "$1" cat /proc/sys/kernel/random/boot_id) && [ -n "$now" ] && [ "$now" != "$2" ]
}

host_list() {
  local dir name state
  for dir in "$NETRUN"/hosts/*/; do
    [ -d "$dir" ] || continue
    name=$(basename "$dir") state=down
    ! alive "$dir/pid" host-run || state=up
    printf '%s\t%s\t%s\n' "$name" "$(cat "$dir/address" 2> /dev/null)" "$state"
  done
}

host_down() {
  local dir
  [ -n "${1:-}" ] || die "usage: lab host down NAME|--all"
  if [ "$1" = --all ]; then
    # all are reported before the first is waited for
    for dir in "$NETRUN"/hosts/*/; do [ ! -d "$dir" ] || host_halt "$dir"; done
    for dir in "$NETRUN"/hosts/*/; do [ ! -d "$dir" ] || host_remove "$(basename "$dir")"; done
  else
    host_remove "$1"
  fi
}

# host_halt DIR: its init is killed, and the kernel ends everything in it. Nobody looks at what is removed: an orderly shutdown would
# only cost its seconds.
host_halt() {
  local leader
  alive "$1/pid" host-run || return 0
  leader=$(host_leader "$(basename "$1")") && kill -KILL "$leader" 2> /dev/null || kill -TERM "$(cat "$1/pid")" 2> /dev/null || true
}

host_remove() {
  local name=$1 dir pid nspawn from=$SECONDS
  dir=$(host_dir "$name")
  [ -d "$dir" ] || return 0
  if alive "$dir/pid" host-run; then
    pid=$(cat "$dir/pid")
    nspawn=$(pgrep -P "$pid" -x systemd-nspawn || true)
    host_halt "$dir"
    # one that was between two boots has no init yet, and is asked in order
    until_true 30 gone "$pid" || {
      echo "lab: host $name does not shut down: killed" >&2
      # shellcheck disable=SC2086  # one process id or none
      kill -KILL $nspawn "$pid" 2> /dev/null || true
      until_true 10 gone "$pid" || true
    }
  fi
  cgroup_sweep "$LAB_PREFIX-$name"
  rm -rf --one-file-system "$dir"
  echo "$name down $((SECONDS - from))s"
}
