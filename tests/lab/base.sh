# shellcheck shell=bash
# The root file system every host starts from: a Debian server with sshd and systemd, nothing of containers or Kubernetes.

# What people have on a server; the second list is what a minimal one lacks (`host up --bare`).
BASE_PACKAGES=(systemd systemd-sysv dbus openssh-server sudo iproute2 iptables nftables ca-certificates curl kmod procps
  iputils-ping busybox-static e2fsprogs xz-utils zstd ethtool)
BASE_EXTRA=(conntrack socat ebtables ipset)

lab_base() {
  need_root "the base root file system"
  [ -d "$BASE/etc" ] || step base-debootstrap base_debootstrap
  # a base that something else made is adopted: what is ours is (re)applied when this file changes
  local want
  want=$(sha256sum "$HERE/base.sh" "$HERE/node-prep" "$HERE/node-prep.service" "$HERE/runc-lab" | sha256sum)
  [ "$(cat "$LAB/base.stamp" 2> /dev/null)" = "$want" ] || {
    step base-configure base_configure
    rm -rf "$LAB/base-bare" "$LAB/base-python"
    echo "$want" > "$LAB/base.stamp"
  }
  [ -d "$LAB/base-bare" ] || step base-bare base_bare
}

base_debootstrap() {
  local mirror=${LAB_MIRROR:-} include
  # the mirror this machine itself uses
  [ -n "$mirror" ] || mirror=$(cat /etc/apt/sources.list.d/*.sources 2> /dev/null | awk '/^URIs:/ {print $2; exit}')
  [ -n "$mirror" ] || mirror=$(awk '/^deb / {for (i = 2; i <= NF; i++) if ($i ~ /^http/) {print $i; exit}}' /etc/apt/sources.list)
  include=$(IFS=,; echo "${BASE_PACKAGES[*]},${BASE_EXTRA[*]}")
  rm -rf --one-file-system "$BASE.tmp"
  env -u APT_CONFIG debootstrap --variant=minbase --include="$include" "$LAB_SUITE" "$BASE.tmp" "$mirror"
  rm -rf "$BASE.tmp"/var/cache/apt/archives/*.deb "$BASE.tmp"/var/lib/apt/lists/*
  mv "$BASE.tmp" "$BASE"
}

base_configure() {
  local unit
  # nobody logs in as root; `operator` is who a site gives you: a key, and sudo
  echo 'root:!' | chroot "$BASE" chpasswd -e
  chroot "$BASE" id operator > /dev/null 2>&1 || chroot "$BASE" useradd -m -s /bin/bash -g operator -G sudo operator
  echo 'operator:*' | chroot "$BASE" chpasswd -e
  printf '%%sudo ALL=(ALL:ALL) NOPASSWD: ALL\n' > "$BASE/etc/sudoers.d/operator"
  chmod 440 "$BASE/etc/sudoers.d/operator"
  printf 'PermitRootLogin no\nPasswordAuthentication no\nUseDNS no\n' > "$BASE/etc/ssh/sshd_config.d/lab.conf"
  # each host gets an identity of its own at its first boot
  rm -f "$BASE"/etc/hostname "$BASE"/etc/resolv.conf "$BASE"/etc/ssh/ssh_host_*
  : > "$BASE/etc/machine-id"
  # units that wait for, or ask, the outside: they would blur the proof that nothing of *ours* does; and what a host does by
  # itself at midnight (copies of dpkg's books), which is no trace of a run
  for unit in systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer; do
    ln -sfn /dev/null "$BASE/etc/systemd/system/$unit"
  done
  # pod processes that ignore SIGTERM would hold a shutdown for 90 s
  mkdir -p "$BASE/etc/systemd/system.conf.d"
  printf '[Manager]\nDefaultTimeoutStopSec=5s\n' > "$BASE/etc/systemd/system.conf.d/lab.conf"
  # chrony serves and follows; the clock is the machine's, and no host may set it
  mkdir -p "$BASE/etc/systemd/system/chrony.service.d"
  printf '[Unit]\nConditionCapability=\n[Service]\nExecStart=\nExecStart=!/usr/sbin/chronyd -x -F 1\n' \
    > "$BASE/etc/systemd/system/chrony.service.d/lab.conf"
  mkdir -p "$BASE/etc/systemd/system/multi-user.target.wants" "$BASE/etc/systemd/system/sysinit.target.wants"
  ln -sfn /lib/systemd/system/systemd-networkd.service "$BASE/etc/systemd/system/multi-user.target.wants/systemd-networkd.service"
  install -m 755 "$HERE/node-prep" "$HERE/runc-lab" "$BASE/usr/local/sbin/"
  # PATH finds it before /usr/local/bin/runc, where an installer puts the real one
  mv "$BASE/usr/local/sbin/runc-lab" "$BASE/usr/local/sbin/runc"
  install -m 644 "$HERE/node-prep.service" "$BASE/etc/systemd/system/"
  ln -sfn ../node-prep.service "$BASE/etc/systemd/system/sysinit.target.wants/node-prep.service"
}

base_bare() {
  local tmp=$LAB/base-bare.tmp
  rm -rf --one-file-system "$tmp"
  cp -a --reflink=auto "$BASE" "$tmp"
  chroot "$tmp" env DEBIAN_FRONTEND=noninteractive dpkg --purge "${BASE_EXTRA[@]}" ethtool
  mv "$tmp" "$LAB/base-bare"
}

# A host that ansible can look at: with Python, which no host of ours needs (`host up --python`).
lab_base_python() {
  need_root "the base root file system"
  lab_base
  [ -d "$BASE-python" ] || step base-python base_python
}

base_python() {
  local tmp=$BASE-python.tmp debs=$LAB/debs
  mkdir -p "$debs/partial"
  rm -rf --one-file-system "$tmp"
  # what it lacks, by its own list of packages, from where this machine has its own
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends --download-only -o Dir::State::status="$BASE/var/lib/dpkg/status" \
    -o Dir::Cache::archives="$debs" -o APT::Sandbox::User=root python3 python3-apt
  cp -a --reflink=auto "$BASE" "$tmp"
  cp "$debs"/*.deb "$tmp/tmp/"
  # twice: dpkg alone does not order what must be set up before something else is unpacked
  chroot "$tmp" sh -c 'export DEBIAN_FRONTEND=noninteractive; dpkg -i /tmp/*.deb || dpkg -i /tmp/*.deb; rm /tmp/*.deb'
  mv "$tmp" "$BASE-python"
}
