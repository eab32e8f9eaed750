# shellcheck shell=bash
# `lab cilium`: Cilium for the scenes that run it: its programs, from the Go module; an image of them with clang and iptables of Debian's
# packages, under upstream's name; and the chart of the same module. Nine minutes on two idle cores; 0.5 GB are kept.
. "$HERE/programs.sh"
. "$HERE/artifacts.sh"
. "$HERE/tools.sh"

# The one of the catalogue for later Kubernetes, of which the module can be built: cluster.yaml names it.
LAB_CILIUM=1.20.0
CILIUM_MODULE=github.com/cilium/cilium
# The version that it requires is published nowhere.
CILIUM_GOBGP=github.com/osrg/gobgp/v4@v4.8.0
CILIUM_PROGRAMS=(daemon:cilium-agent cilium-dbg:cilium-dbg plugins/cilium-cni:cilium-cni cilium-health/responder:cilium-health-responder
  tools/mount:cilium-mount tools/sysctlfix:cilium-sysctlfix)
CILIUM_CLANG=19
# What the chart can turn on and the scene does not: the bundle carries them, and nobody runs them.
CILIUM_OTHERS=(operator-generic:v1.20.0 hubble-relay:v1.20.0 hubble-ui:v0.13.5 hubble-ui-backend:v0.13.5 certgen:v0.4.8
  cilium-envoy:v1.37.5-1782911245-7cffc778c923f68a77954a53b1a98d6b5353f004)

lab_cilium() {
  local want
  [ -d "$BASE/etc" ] && [ -x "$BIN/loopback" ] || die "nothing is built yet: scripts/lab build"
  need_root "lab cilium"
  lock
  want=$(sha256sum "$HERE/cilium.sh" "$HERE/mkimg.py")
  [ "$(cat "$CILIUM/stamp" 2> /dev/null)" != "$want" ] || return 0
  cilium_programs_built || {
    go_present
    step "cilium-$LAB_CILIUM" cilium_programs
  }
  step cilium-image all_of_cilium
  drop_go_caches
  echo "$want" > "$CILIUM/stamp"
}

cilium_programs_built() {
  local pair
  [ "$(cat "$CILIUM/programs/version" 2> /dev/null)" = "$LAB_CILIUM" ] || return 1
  for pair in "${CILIUM_PROGRAMS[@]}"; do [ -x "$CILIUM/programs/${pair#*:}" ] || return 1; done
}

# The module's files that are no programs are copied beside them: the cache of modules is dropped.
cilium_programs() {
  local work out=$CILIUM/programs pair name source packages=()
  rm -rf "$out"
  mkdir -p "$out"
  work=$(mktemp -d "$CILIUM/tmp.XXXXXX")
  cd "$work" || exit
  for pair in "${CILIUM_PROGRAMS[@]}"; do packages+=("$CILIUM_MODULE/${pair%%:*}"); done
  printf 'module lab\n\ngo 1.26.0\n\nreplace sigs.k8s.io/controller-tools => github.com/cilium/controller-tools v0.21.0-1\n' > go.mod
  go get "$CILIUM_GOBGP" "$CILIUM_MODULE@v$LAB_CILIUM" "${packages[@]/%/@v$LAB_CILIUM}"
  CGO_ENABLED=0 nice go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X '$CILIUM_MODULE/pkg/version.ciliumVersion=$LAB_CILIUM lab 2026-01-01T00:00:00+00:00'" -o "$work/out/" "${packages[@]}"
  for pair in "${CILIUM_PROGRAMS[@]}"; do
    name=${pair%%:*}
    mv "$work/out/${name##*/}" "$out/${pair#*:}"
  done
  source=$(go list -m -f '{{.Dir}}' $CILIUM_MODULE)
  mkdir -p "$out/bpf" "$out/crds" "$out/scripts"
  (cd "$source/bpf" && find . -name '*.[ch]' ! -path './tests/*' ! -path './complexity-tests/*' -exec cp --parents '{}' "$out/bpf/" \;)
  cp -r "$source/install/kubernetes/cilium" "$out/chart"
  cp "$source"/pkg/k8s/apis/cilium.io/client/crds/v2*/*.yaml "$out/crds/"
  cp "$source"/images/cilium/init-container.sh "$source"/plugins/cilium-cni/{install-plugin,cni-uninstall}.sh "$out/scripts/"
  chmod -R u+w "$out"
  echo "$LAB_CILIUM" > "$out/version"
  cd "$LAB" || exit
  rm -rf "$work"
}

all_of_cilium() {
  local work root
  rm -rf --one-file-system "$CILIUM/oci" "$CILIUM/files" "$CILIUM"/tmp.*
  mkdir -p "$CILIUM/oci"
  work=$(mktemp -d "$CILIUM/tmp.XXXXXX")
  root=$work/root
  # Links to the files of the base, beside which the package's own lie.
  cp -al "$BASE" "$root"
  cilium_clang "$work/debs" "$root"
  cilium_image "$work" "$root"
  cilium_other_images
  cilium_chart
  rm -rf --one-file-system "$work"
}

# cilium_clang FOLDER ROOT: what it needs in addition to a host's packages, unpacked over ROOT; nothing of it is configured
cilium_clang() {
  local deb
  mkdir -p "$1/partial"
  apt-get update -qq
  apt-get install -qq -y --no-install-recommends --download-only -o APT::Sandbox::User=root \
    -o Dir::State::status="$BASE/var/lib/dpkg/status" -o Dir::Cache::archives="$1" "clang-$CILIUM_CLANG"
  # `dpkg-deb -x` would put a folder in the place of the link /lib.
  for deb in "$1"/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$2"; done
}

# cilium_image WORK ROOT
cilium_image() {
  local root=$2 programs=$CILIUM/programs pair name l file words=()
  for pair in "${CILIUM_PROGRAMS[@]}"; do
    name=${pair#*:}
    case $name in
      cilium-cni) words+=(--file "$programs/$name:/opt/cni/bin/$name:755") ;;
      *) words+=(--file "$programs/$name:/usr/bin/$name:755") ;;
    esac
  done
  for file in "$programs"/scripts/*.sh; do words+=(--file "$file:/$(basename "$file"):755"); done
  while read -r file; do words+=(--file "$programs/bpf/$file:/var/lib/cilium/bpf/$file:644"); done \
    < <(cd "$programs/bpf" && find . -type f -printf '%P\n')
  # bash, and what its scripts and the agent call
  for file in /bin/bash /usr/bin/nsenter /usr/bin/mount /usr/bin/find /usr/sbin/ip /usr/sbin/tc /usr/sbin/ipset /usr/bin/kmod \
    /usr/sbin/xtables-nft-multi /usr/sbin/xtables-legacy-multi; do
    [ -e "$root$file" ] || file=${file#/usr}
    words+=(--closure "$root:$file")
  done
  # Its loader finds a library by a path with `..` in it, which no layer may have.
  local clang=/usr/lib/llvm-$CILIUM_CLANG/bin/clang
  words+=(--file "$root$clang:$clang:755" --symlink "/usr/bin/clang:$clang")
  while read -r file; do words+=(--file "$root$file:$file:755"); done \
    < <(chroot "$root" ldd $clang | awk '{ print $2 == "=>" ? $3 : $1 }' | grep '^/' | xargs realpath -ms)
  words+=(--glob "$root:/usr/lib/x86_64-linux-gnu/xtables/*.so" --file "$BASE/etc/protocols:/etc/protocols:644"
    --file "$BASE/etc/ssl/certs/ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt" --file "$BIN/loopback:/cni/loopback:755"
    --file "$BASE/bin/busybox:/bin/busybox")
  for l in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    words+=(--symlink "/usr/sbin/$l:xtables-nft-multi" --symlink "/usr/sbin/${l/tables/tables-nft}:xtables-nft-multi"
      --symlink "/usr/sbin/${l/tables/tables-legacy}:xtables-legacy-multi")
  done
  for l in modprobe lsmod modinfo; do words+=(--symlink "/usr/sbin/$l:$(cilium_path "$root" kmod)"); done
  for l in awk cat chmod cp cut dirname basename env grep head id ls mkdir mv nslookup pgrep ping ps rm sed sh sleep sort tail timeout touch \
    tr uname wc wget; do
    words+=(--symlink "/usr/local/bin/$l:/bin/busybox")
  done
  # scripts name their shell by its whole path
  words+=(--symlink /bin/sh:busybox --dir lib/modules --dir var/run/cilium --dir home/cilium --cmd '["/usr/bin/cilium-dbg"]')
  "$HERE/mkimg.py" "$CILIUM/oci/quay.io/cilium/cilium" "quay.io/cilium/cilium:v$LAB_CILIUM" "${words[@]}" | tee -a "$CILIUM/oci/images.tsv"
}

# cilium_path ROOT NAME: where the program is in the image
cilium_path() { if [ -e "$1/usr/bin/$2" ]; then echo "/usr/bin/$2"; else echo "/bin/$2"; fi; }

cilium_other_images() {
  local ref
  for ref in "${CILIUM_OTHERS[@]/#/quay.io/cilium/}"; do
    "$HERE/mkimg.py" "$CILIUM/oci/${ref%:*}" "$ref" --file "$BASE/bin/busybox:/bin/busybox" | tee -a "$CILIUM/oci/images.tsv"
  done
}

# The chart as upstream publishes it, and the definitions that upstream's operator makes: it cannot be built, one of its modules is
# published nowhere.
cilium_chart() {
  local work name=cilium-$LAB_CILIUM.tgz at=$CILIUM/files/helm.cilium.io
  mkdir -p "$at"
  work=$(mktemp -d "$CILIUM/tmp.XXXXXX")
  cp -r "$CILIUM/programs/chart" "$work/cilium"
  mkdir -p "$work/cilium/crds"
  cp "$CILIUM"/programs/crds/*.yaml "$work/cilium/crds/"
  tar -C "$work" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' --format=gnu -cf - cilium | gzip -n -6 > "$at/$name"
  printf 'apiVersion: v1\nentries:\n  cilium:\n  - {apiVersion: v2, name: cilium, version: %s, digest: %s, urls: ["https://helm.cilium.io/%s"]}\n' \
    "$LAB_CILIUM" "$(sha256sum < "$at/$name" | cut -d ' ' -f 1)" "$name" > "$at/index.yaml"
  rm -rf "$work"
}
