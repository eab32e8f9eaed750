# shellcheck shell=bash
# `lab harbor`: docker's programs, compose, and an archive of the layout of Harbor's offline installer whose images the lab makes:
# distribution behind a small server that answers Harbor's published API. Kept as $LAB/harbor, with the files under upstream's names.
. "$HERE/programs.sh"
. "$HERE/artifacts.sh"

HARBOR=$LAB/harbor
# Not in versions.sh: whoever does not need them builds nothing anew when they change.
LAB_DOCKER=20.10.24
LAB_COMPOSE=2.26.1
LAB_HARBOR=2.10.2

lab_harbor() {
  local want
  [ -d "$BASE/etc" ] && [ -x "$BIN/registry" ] || die "nothing is built yet: scripts/lab build"
  lock
  want=$(sha256sum "$HERE/harbor.sh" "$HERE"/harbor/* "$HERE/dockersave.py" "$HERE/mkimg.py" | sha256sum)
  [ "$(cat "$HARBOR/stamp" 2> /dev/null)" != "$want" ] || return 0
  TAGS="netgo osusergo" LD="-X github.com/docker/compose/v2/internal.Version=v$LAB_COMPOSE" \
    program "$LAB_COMPOSE" cmd:docker-compose github.com/docker/compose/v2 github.com/docker/compose/v2/cmd
  step harbor all_of_harbor
  drop_go_caches
  echo "$want" > "$HARBOR/stamp"
}

all_of_harbor() {
  rm -rf "$HARBOR"
  mkdir -p "$HARBOR/parts/oci"
  docker_of_debian
  (cd "$HERE/harbor" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$HARBOR/parts/core" .)
  harbor_installer
  FILES=$HARBOR/files
  rm -rf "$FILES.tmp"
  # files under upstream's names
  mkdir -p "$FILES.tmp"
  archive "download.docker.com/linux/static/stable/x86_64/docker-$LAB_DOCKER.tgz" docker "$HARBOR"/parts/docker/*
  put "$BIN/docker-compose" "github.com/docker/compose/releases/download/v$LAB_COMPOSE/docker-compose-linux-x86_64"
  archive "github.com/goharbor/harbor/releases/download/v$LAB_HARBOR/harbor-offline-installer-v$LAB_HARBOR.tgz" harbor "$HARBOR"/parts/installer/*
  mv "$FILES.tmp" "$FILES"
  harbor_components > "$HARBOR/components.yaml"
  rm -rf "$HARBOR/parts"
}

# harbor_components: what of an overlay's `components` is the lab's
harbor_components() {
  local name version path
  while read -r name version path; do
    printf '  %s: {versions: {"%s": {amd64: {sha256: %s, size: %s}}}, default: "%s"}\n' "$name" "$version" \
      "$(sha256sum < "$FILES/$path" | cut -d ' ' -f 1)" "$(stat -c %s "$FILES/$path")" "$version"
  done << LIST
docker $LAB_DOCKER download.docker.com/linux/static/stable/x86_64/docker-$LAB_DOCKER.tgz
docker-compose $LAB_COMPOSE github.com/docker/compose/releases/download/v$LAB_COMPOSE/docker-compose-linux-x86_64
harbor $LAB_HARBOR github.com/goharbor/harbor/releases/download/v$LAB_HARBOR/harbor-offline-installer-v$LAB_HARBOR.tgz
LIST
}

# The engine of Debian, in the layout of docker's static archive; containerd and runc are the lab's own.
docker_of_debian() {
  local debs=$HARBOR/parts/debs out=$HARBOR/parts/docker
  mkdir -p "$debs" "$out"
  (cd "$debs" && apt-get download -qq -o APT::Sandbox::User=root docker.io)
  dpkg-deb -x "$debs"/docker.io_*.deb "$debs/x"
  LAB_DOCKER_FOUND=$("$debs/x/usr/bin/docker" --version | sed 's/.*version \([0-9.]*\).*/\1/')
  [ "$LAB_DOCKER_FOUND" = "$LAB_DOCKER" ] || die "Debian's docker is $LAB_DOCKER_FOUND now; set LAB_DOCKER"
  cp "$debs/x/usr/sbin/dockerd" "$debs/x/usr/sbin/docker-proxy" "$debs/x/usr/bin/docker" "$out/"
  cp "${CONTAINERD_PROGRAMS[@]/#/$BIN_CONTAINERD_1/}" "$out/"
  # In front of the real one stands what takes out of its specifications what this machine may not do.
  cp "$BIN/runc" "$out/runc-real"
  { head -n 1 "$HERE/runc-lab"; echo 'REAL_RUNC=$(dirname "$0")/runc-real'; tail -n +2 "$HERE/runc-lab"; } > "$out/runc"
  chmod 755 "$out"/*
}

harbor_installer() {
  local out=$HARBOR/parts/installer oci=$HARBOR/parts/oci busybox=(--file "$BASE/bin/busybox:/bin/busybox") l
  mkdir -p "$out"
  for l in sh awk cat cp mkdir sed; do busybox+=(--symlink "/bin/$l:busybox"); done
  "$HERE/mkimg.py" "$oci/prepare" "goharbor/prepare:v$LAB_HARBOR" "${busybox[@]}" \
    --file "$HERE/harbor/prepare-inside:/usr/local/bin/prepare-inside:755" --dir input --dir config --dir compose_location --dir data \
    --dir hostfs --entrypoint '["/usr/local/bin/prepare-inside"]'
  "$HERE/mkimg.py" "$oci/core" "goharbor/harbor-core:v$LAB_HARBOR" --file "$HARBOR/parts/core:/core:755" --dir data --entrypoint '["/core"]'
  "$HERE/mkimg.py" "$oci/registry" "goharbor/registry-photon:v$LAB_HARBOR" --file "$BIN/registry:/registry:755" --dir storage \
    --dir etc/registry --entrypoint '["/registry", "serve", "/etc/registry/config.yml"]'
  "$HERE/dockersave.py" "$out/harbor.v$LAB_HARBOR.tar.gz" "$oci/prepare=goharbor/prepare:v$LAB_HARBOR" \
    "$oci/core=goharbor/harbor-core:v$LAB_HARBOR" "$oci/registry=goharbor/registry-photon:v$LAB_HARBOR"
  cp "$HERE/harbor/prepare" "$out/"
  printf '#!/bin/bash\necho "install.sh is not used"; exit 1\n' > "$out/install.sh"
  printf 'hostname: reg.mydomain.com\n' > "$out/harbor.yml.tmpl"
  chmod 755 "$out/prepare" "$out/install.sh"
}
