# shellcheck shell=bash
# One cgroup directory per host, so that the kubelets do not see each other. The machine's own mounts are never touched.
CGROUP=/sys/fs/cgroup
# systemd and unified as well: in a shared one the services of two hosts would have one cgroup, ssh.service of both and so on
CGROUP_V1=(cpu cpuacct cpuset memory devices freezer blkio pids systemd unified)
HOST_MEMORY=$((6 * 1024 * 1024 * 1024))

cgroup_is_v2() { [ -e "$CGROUP/cgroup.controllers" ]; }

# cgroup_dirs NAME
cgroup_dirs() {
  local c
  if cgroup_is_v2; then echo "$CGROUP/$1"; return; fi
  for c in "${CGROUP_V1[@]}"; do [ ! -d "$CGROUP/$c" ] || echo "$CGROUP/$c/$1"; done
}

# cgroup_enter NAME PID: make them, and put the process into them
cgroup_enter() {
  local dir file
  for dir in $(cgroup_dirs "$1"); do
    mkdir -p "$dir"
    if cgroup_is_v2; then
      echo "$HOST_MEMORY" > "$dir/memory.max" || true      # cgroup v2: not proven
    else
      case $dir in
        */cpuset/*) for file in cpuset.cpus cpuset.mems; do cat "$CGROUP/cpuset/$file" > "$dir/$file"; done ;;
        */memory/*) echo "$HOST_MEMORY" > "$dir/memory.limit_in_bytes" ;;
      esac
    fi
    echo "$2" > "$dir/cgroup.procs"
  done
}

# cgroup_sweep NAME [-mindepth 1]: remove the directories that a host left (with -mindepth 1: all but its own)
cgroup_sweep() {
  local dir name=$1
  shift
  for dir in $(cgroup_dirs "$name"); do
    [ ! -d "$dir" ] || find "$dir" "$@" -depth -type d -exec rmdir {} \; 2> /dev/null || true
  done
}
