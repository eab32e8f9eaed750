# shellcheck shell=bash
# Upstream on 127.0.0.1: a file server for what upstream publishes as files, a registry for its images. `bundle build` is reported
# by a zone file to go there and nowhere else.
. "$HERE/artifacts.sh"

lab_origins() {
  case ${1:-} in
    up) origins_up ;;
    down) origins_down ;;
    *) die "usage: lab origins up|down" ;;
  esac
}

origins_up() {
  local files registry
  [ -f "$FILES/.stamp" ] && [ -f "$OCI/images.tsv" ] || die "nothing is built yet: scripts/lab build"
  mkdir -p "$RUN"
  origins_packages
  origins_harbor
  origins_cilium
  origins_calico
  origins_storage
  alive "$RUN/origin.pid" origin.py || {
    rm -f "$RUN/origin.port"
    detached "$RUN/origin.log" "$RUN/origin.pid" "$HERE/origin.py" "$FILES" "$RUN/origin.port"
  }
  until_true 60 test -s "$RUN/origin.port" || die "the file server did not start: $RUN/origin.log"
  alive "$RUN/registry.pid" "$RUN/registry.yml" || registry_start
  until_true 60 registry_port || die "the registry did not start: $RUN/registry.log"
  files=127.0.0.1:$(cat "$RUN/origin.port") registry=127.0.0.1:$(registry_port)
  until_true 60 curl -fsS -o /dev/null "http://$registry/v2/" || die "the registry does not answer: $RUN/registry.log"
  registry_fill "$registry"
  # Whole or not at all: another run may read them at this moment.
  zone "$files" "$registry" > "$RUN/zone.$$" && mv "$RUN/zone.$$" "$RUN/zone.yaml"
  { overlay | with_calico; overlay_more; } > "$RUN/overlay.$$" && mv "$RUN/overlay.$$" "$RUN/overlay.yaml"
  {
    echo "LAB_FILES_PORT=${files#*:}"
    echo "LAB_FILES_PID=$(cat "$RUN/origin.pid")"
    echo "LAB_REGISTRY_PORT=${registry#*:}"
    echo "LAB_REGISTRY_PID=$(cat "$RUN/registry.pid")"
    echo "LAB_ZONE=$RUN/zone.yaml"
    echo "LAB_OVERLAY=$RUN/overlay.yaml"
  } > "$RUN/origins.$$"
  mv "$RUN/origins.$$" "$RUN/origins.env"
  echo "files http://$files, images $registry, $RUN/{zone,overlay}.yaml"
}

# Debian's mirror, where `lab packages` has made a snapshot: the same files under another name.
origins_packages() {
  local at=$FILES/deb.debian.org name
  rm -rf "$at"
  mkdir -p "$at"
  for name in debian debian-security; do
    [ ! -d "$LAB/packages/$name" ] || cp -al "$LAB/packages/$name" "$at/"
  done
}

# What `lab harbor` has made, under upstream's names.
origins_harbor() {
  [ ! -d "$LAB/harbor/files" ] || cp -alf "$LAB/harbor/files/." "$FILES/"
}

# What `lab cilium` has made: upstream's repository of charts.
origins_cilium() {
  [ ! -d "$CILIUM/files" ] || cp -alf "$CILIUM/files/." "$FILES/"
}

# What `lab calico` has made.
origins_calico() {
  [ ! -d "$CALICO/files" ] || cp -alf "$CALICO/files/." "$FILES/"
}

# What `lab storage` has made: two repositories of charts.
origins_storage() {
  [ ! -d "$STORAGE/files" ] || cp -alf "$STORAGE/files/." "$FILES/"
}

# The port is the kernel's choice, so two labs never want the same one; the registry says in its log which it got.
registry_start() {
  # Of the one before: its port would be taken for this one's until the log is opened anew.
  rm -f "$RUN/registry.log"
  registry_config "$RUN/registry.yml" 127.0.0.1:0
  OTEL_TRACES_EXPORTER=none detached "$RUN/registry.log" "$RUN/registry.pid" "$BIN/registry" serve "$RUN/registry.yml"
}

# registry_config FILE ADDRESS
registry_config() {
  cat > "$1" << YAML
version: 0.1
log: {level: info, accesslog: {disabled: false}}
storage: {filesystem: {rootdirectory: $LAB/registry}, delete: {enabled: true}}
http: {addr: "$2"}
YAML
}

registry_port() { sed -n 's/.*listening on 127\.0\.0\.1:\([0-9][0-9]*\).*/\1/p' "$RUN/registry.log" 2> /dev/null | grep -m 1 .; }

# registry_fill ADDRESS: every image with both platforms and its digest, unless it is there already
registry_fill() {
  local ref digest path tag have layouts
  while IFS=$'\t' read -r layouts ref digest; do
    path=${ref%:*} tag=${ref##*:}
    have=$(curl -sI -H 'Accept: application/vnd.oci.image.index.v1+json' "http://$1/v2/$path/manifests/$tag" |
      tr -d '\r' | awk 'tolower($1) == "docker-content-digest:" {print $2}')
    [ "$have" = "$digest" ] || skopeo copy -q --insecure-policy --all --preserve-digests --dest-tls-verify=false \
      "oci:$layouts/$path:$tag" "docker://$1/$path:$tag"
  done < <(images_built)
}

# with_calico: the overlay on standard input, with the manifest that `lab calico` has made
with_calico() {
  local file sum
  file=$(find "$CALICO/files" -name calico-typha.yaml 2> /dev/null || true)
  [ -n "$file" ] || { cat; return 0; }
  sum=$(sha256sum < "$file")
  sed "s|^components:\$|&\n  calico-manifest: {versions: {\"$(sed 's,.*/raw/v,,; s,/.*,,' <<< "$file")\": {amd64: {sha256: ${sum%% *}, size: $(stat -c %s "$file")}}}}|"
}

# overlay_more: what follows the images of the overlay
overlay_more() {
  local ref digest folder
  for folder in "$BALANCERS" "$CILIUM/oci" "$CALICO/oci" "$STORAGE/oci"; do
    [ ! -f "$folder/images.tsv" ] ||
      while IFS=$'\t' read -r ref digest; do printf '  "%s": %s\n' "$ref" "$digest"; done < "$folder/images.tsv"
  done
}

# images_built: FOLDER REF DIGEST of each image; the folder has its layout
images_built() {
  local folder
  for folder in "$OCI" "$BALANCERS" "$CILIUM/oci" "$CALICO/oci" "$STORAGE/oci"; do
    [ ! -f "$folder/images.tsv" ] || sed "s|^|$folder\t|" "$folder/images.tsv"
  done
}

# zone FILES REGISTRY
zone() {
  local host
  printf 'name: lab\nrules:\n'
  for host in dl.k8s.io github.com get.helm.sh deb.debian.org download.docker.com helm.cilium.io openebs.github.io kubernetes-sigs.github.io; do
    printf -- '- {match: %s, to: ["http://%s/%s"], only: true}\n' "$host" "$1" "$host"
  done
  for host in registry.k8s.io ghcr.io docker.io quay.io; do
    printf -- '- {match: %s, to: ["%s/%s"], only: true, plainHttp: true}\n' "$host" "$2" "$host"
  done
}

origins_down() {
  stop "$RUN/origin.pid" origin.py
  stop "$RUN/registry.pid" "$RUN/registry.yml"
  rm -f "$RUN"/{origin.port,origins.env,zone.yaml,overlay.yaml,registry.yml}
}
