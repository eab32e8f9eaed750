# shellcheck shell=bash
# Index snapshots of real distributions, for the tests that hold our resolver against the distributions' own, and the packages that
# bundles of the tests carry: a tree that a file server shows as their mirrors do. One snapshot is kept until it is asked for anew, or is
# not good any more by its own word (Valid-Until); tests of the resolver take its own time for "now", whole programs this machine's.

# name, mirror, suites, components, architectures; $LAB_*_MIRROR names another place that has the same
packages_sources() {
  cat << TABLE
debian|${LAB_DEBIAN_MIRROR:-http://deb.debian.org/debian}|bookworm bookworm-updates trixie trixie-updates|main|amd64 arm64
debian-security|${LAB_DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}|bookworm-security trixie-security|main|amd64 arm64
ubuntu|${LAB_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}|jammy jammy-updates jammy-security noble noble-updates noble-security|main universe|amd64
TABLE
}

# What nodes need of Debian 12, as manifests/data/os/roots.yaml has it (roles node, ipvs and time); and what chrony takes the place of,
# by itself.
PACKAGES_ROOTS=(conntrack socat iptables iproute2 ethtool mount util-linux ebtables bash-completion ipset ipvsadm chrony)
PACKAGES_ALONE=(systemd-timesyncd)
# What a host of a load balancer needs, for the scenes that have one.
PACKAGES_BALANCER=(keepalived haproxy nginx libnginx-mod-stream)

lab_packages() {
  case ${1:-} in
    '') ;;
    --refresh) rm -f "$LAB/packages/.stamp" ;;
    *) die "usage: lab packages [--refresh]" ;;
  esac
  lock
  local table debs="debian-12 amd64: ${PACKAGES_ROOTS[*]} + ${PACKAGES_ALONE[*]}"
  table=$(packages_sources)
  if [ "$(cat "$LAB/packages/.stamp" 2> /dev/null)" != "$table" ] || ! packages_good; then packages_anew "$table"; fi
  if [ "$(cat "$LAB/packages/.debs" 2> /dev/null)" != "$debs" ]; then
    # The mirror drops what was superseded since the snapshot was made: another one, then.
    (step debs packages_debs "${PACKAGES_ROOTS[@]}") || { packages_anew "$table"; step debs packages_debs "${PACKAGES_ROOTS[@]}"; }
    printf '%s\n' "$debs" > "$LAB/packages/.debs"
  fi
}

lab_keepalived() {
  lab_packages
  local debs="${PACKAGES_BALANCER[*]}"
  [ "$(cat "$LAB/packages/.debs-balancer" 2> /dev/null)" != "$debs" ] || return 0
  step debs-balancer packages_debs "${PACKAGES_BALANCER[@]}" ||
    { packages_anew "$(packages_sources)"; lab_packages; step debs-balancer packages_debs "${PACKAGES_BALANCER[@]}"; }
  printf '%s\n' "$debs" > "$LAB/packages/.debs-balancer"
}

# packages_anew TABLE
packages_anew() {
  step packages packages_fetch "$1"
  printf '%s\n' "$1" > "$LAB/packages/.stamp"
}

# packages_good: no release of the snapshot says that it is not good any more within the time that all tests take
packages_good() {
  local until
  while read -r until; do
    [ "$(date -d "$until" +%s)" -gt "$(($(date +%s) + 3 * 3600))" ] || return 1
  done < <(sed -n 's/^Valid-Until: //p' "$LAB"/packages/debian*/dists/bookworm*/InRelease)
}

# packages_debs NAME...: what apt itself would fetch for the roots on a machine that has nothing, checked by the sha256 of the signed indexes
packages_debs() {
  local tree=$LAB/packages apt=$LAB/packages/.apt uri size sum file path mirror
  rm -rf "$apt"
  mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,etc/apt/apt.conf.d,etc/apt/preferences.d,etc/apt/sources.list.d} "$tree/.pool"
  : > "$apt/status"
  cat "$HERE"/../../manifests/data/os/keys/debian-*.asc > "$apt/keys.asc"
  cat > "$apt/apt.conf" << CONF
Dir "$apt/"; Dir::State "$apt/state/"; Dir::State::status "$apt/status"; Dir::Cache "$apt/cache/";
APT::Architecture "amd64"; APT::Architectures "amd64"; APT::Sandbox::User "root";
Acquire::Languages "none"; Acquire::Check-Valid-Until "false"; Acquire::ForceHash "sha256";
CONF
  cat > "$apt/etc/apt/sources.list" << LIST
deb [signed-by=$apt/keys.asc] file:$tree/debian bookworm main
deb [signed-by=$apt/keys.asc] file:$tree/debian bookworm-updates main
deb [signed-by=$apt/keys.asc] file:$tree/debian-security bookworm-security main
LIST
  export APT_CONFIG=$apt/apt.conf
  apt-get -qq update
  apt-get -qq --print-uris --yes --no-install-recommends install "$@" > "$apt/uris"
  (cd "$apt" && apt-get -qq --print-uris download "${PACKAGES_ALONE[@]}") >> "$apt/uris"
  # 'file:/…/debian/pool/…/socat_1.7.4.4-2_amd64.deb' socat_1.7.4.4-2_amd64.deb 375344 SHA256:…
  while read -r uri file size sum; do
    path=$(printf '%b' "$(tr -d "'" <<< "$uri" | sed 's/%\([0-9A-Fa-f][0-9A-Fa-f]\)/\\x\1/g')")
    path=${path#file:"$tree"/}
    mirror=$(packages_sources | awk -F'|' -v name="${path%%/*}" '$1 == name {print $2}')
    printf '%s\t%s\t%s\n' "$mirror/${path#*/}" "${sum#SHA256:}" "$tree/$path"
  done < "$apt/uris" > "$apt/wanted"
  [ -s "$apt/wanted" ] || die "apt names no package to fetch"
  # The mirror drops what was superseded: then the snapshot is to be made anew.
  xargs -P 8 -d '\n' -n 1 "$HERE/packages-fetch" < "$apt/wanted" ||
    die "packages of the snapshot cannot be had any more"
  rm -rf "$apt"
}

# packages_fetch TABLE: into a folder beside, so that a snapshot is never half of one day and half of another
packages_fetch() {
  local name mirror suites components archs suite new=$LAB/packages.new
  rm -rf "$new"
  mkdir -p "$new"
  while IFS='|' read -r name mirror suites components archs; do
    for suite in $suites; do
      packages_suite "$new/$name" "$mirror" "$suite" "$components" "$archs"
    done
  done <<< "$1"
  # What a test takes for "now": a moment when all of the snapshot was good.
  date -u +%s > "$new/now"
  # Most packages are the same in the next snapshot, where they are found by their sha256.
  [ ! -d "$LAB/packages/.pool" ] || mv "$LAB/packages/.pool" "$new/"
  rm -rf "$LAB/packages"
  mv "$new" "$LAB/packages"
}

# packages_suite DIR MIRROR SUITE COMPONENTS ARCHS: InRelease, and of each index the xz (as it is, and by its hash)
packages_suite() {
  local dists=$1/dists/$3 component arch path hash
  mkdir -p "$dists"
  curl -fsS --retry 3 -o "$dists/InRelease" "$2/dists/$3/InRelease"
  for component in $4; do
    for arch in $5; do
      path=$component/binary-$arch/Packages.xz
      hash=$(awk -v path="$path" '/^SHA256:/ {on = 1; next} /^[^ ]/ {on = 0} on && $3 == path {print $1}' "$dists/InRelease")
      [ -n "$hash" ] || die "$3 lists no $path"
      mkdir -p "$dists/${path%/*}/by-hash/SHA256"
      curl -fsS --retry 3 -o "$dists/$path" "$2/dists/$3/${path%/*}/by-hash/SHA256/$hash"
      echo "$hash  $dists/$path" | sha256sum --check --quiet
      ln "$dists/$path" "$dists/${path%/*}/by-hash/SHA256/$hash"
    done
  done
}
