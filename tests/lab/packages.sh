# shellcheck shell=bash
# Index snapshots of real distributions, for the tests that hold our resolver against the distributions' own: a tree that a file server
# shows as their mirrors do. One snapshot is kept until it is asked for anew; tests take its own time for "now".

# name, mirror, suites, components, architectures; $LAB_*_MIRROR names another place that has the same
packages_sources() {
  cat << TABLE
debian|${LAB_DEBIAN_MIRROR:-http://deb.debian.org/debian}|bookworm bookworm-updates trixie trixie-updates|main|amd64 arm64
debian-security|${LAB_DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}|bookworm-security trixie-security|main|amd64 arm64
ubuntu|${LAB_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}|jammy jammy-updates jammy-security noble noble-updates noble-security|main universe|amd64
TABLE
}

lab_packages() {
  case ${1:-} in
    '') ;;
    --refresh) rm -f "$LAB/packages/.stamp" ;;
    *) die "usage: lab packages [--refresh]" ;;
  esac
  lock
  local table
  table=$(packages_sources)
  [ "$(cat "$LAB/packages/.stamp" 2> /dev/null)" != "$table" ] || return 0
  step packages packages_fetch "$table"
  printf '%s\n' "$table" > "$LAB/packages/.stamp"
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
