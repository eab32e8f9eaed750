# shellcheck shell=bash
# `lab minor`: the minor version of Kubernetes before the lab's own, and the one after it. Apart from the rest, so that each is built only where
# a scene upgrades from it or to it: five minutes with empty caches, 1.2 GB.
. "$HERE/programs.sh"
. "$HERE/images.sh"
. "$HERE/artifacts.sh"
. "$HERE/origins.sh"
. "$HERE/tools.sh"

# minor_line before|next: what belongs to it
minor_line() {
  local line=minor
  case $1 in
    before)
      MINOR_K8S=1.33.13 MINOR_COREDNS=1.12.0 MINOR_PAUSE=3.10
      # The first behind etcd's gate, and what kubeadm of $MINOR_K8S names: one program, which calls itself so. As long as its own version,
      # which is written over. The module proxy has neither of them; it is behind the gate itself.
      MINOR_ETCD_BUILT=3.5.35 MINOR_ETCD=3.5.26 MINOR_ETCD_OLD=3.5.24
      ;;
    next)
      line=minor-next MINOR_K8S=1.35.4 MINOR_COREDNS=1.13.1 MINOR_PAUSE=3.10.1
      # The lab's own etcd, under the version that kubeadm of $MINOR_K8S names.
      MINOR_ETCD_BUILT=$LAB_ETCD MINOR_ETCD=3.6.6 MINOR_ETCD_OLD=
      ;;
    *) die "usage: lab minor build|up [before|next]" ;;
  esac
  MINOR_K8S_BIN=$LAB/k8s/$MINOR_K8S
  MINOR_BIN_BUILT=$LAB/bin-$line-built
  [ "$1" != next ] || MINOR_BIN_BUILT=$BIN
  MINOR_BIN=$LAB/bin-$line
  MINOR_BIN_OLD=$LAB/bin-$line-old
  MINOR_OCI=$LAB/oci-$line
  MINOR_FILES=$LAB/origin-$line
  MINOR_OVERLAY=$RUN/$line-overlay.yaml
}
ETCD_PROGRAMS=(etcd etcdctl etcdutl)

lab_minor() {
  minor_line "${2:-before}"
  case ${1:-} in
    build)
      lock
      minor_programs
      drop_go_caches
      minor_images
      minor_artifacts
      ;;
    up) minor_up ;;
    *) die "usage: lab minor build|up [before|next]" ;;
  esac
}

minor_programs() {
  local m=go.etcd.io/etcd name
  [ -f "$OCI/images.tsv" ] || die "the lab itself is not built yet: scripts/lab build"
  kubernetes_built "$MINOR_K8S" "${K8S_PROGRAMS[@]}" || {
    go_present
    step "kubernetes-$MINOR_K8S" build_kubernetes "$MINOR_K8S" "${K8S_PROGRAMS[@]}"
  }
  [ "$MINOR_BIN_BUILT" = "$BIN" ] || {
    BIN=$MINOR_BIN_BUILT program "$MINOR_ETCD_BUILT" server:etcd $m/server/v3 $m/server/v3
    BIN=$MINOR_BIN_BUILT program "$MINOR_ETCD_BUILT" etcdctl $m/etcdctl/v3 $m/etcdctl/v3
    BIN=$MINOR_BIN_BUILT program "$MINOR_ETCD_BUILT" etcdutl $m/etcdutl/v3 $m/etcdutl/v3
  }
  [ "$MINOR_BIN/etcd" -nt "$MINOR_BIN_BUILT/etcd" ] || step "etcd-$MINOR_ETCD" relabel_etcd "$MINOR_BIN" "$MINOR_ETCD"
  [ -z "$MINOR_ETCD_OLD" ] || [ "$MINOR_BIN_OLD/etcd" -nt "$MINOR_BIN_BUILT/etcd" ] ||
    step "etcd-$MINOR_ETCD_OLD" relabel_etcd "$MINOR_BIN_OLD" "$MINOR_ETCD_OLD"
  # Its CoreDNS is the lab's under another tag; the rest of the images are the lab's own.
  for name in coredns flanneld flannel pause; do ln -sfn "$BIN/$name" "$MINOR_BIN/$name"; done
}

# relabel_etcd FOLDER VERSION: etcd itself last, since it is what says that all are there
relabel_etcd() {
  local folder=$1 version=$2 name
  mkdir -p "$folder"
  for name in etcdctl etcdutl etcd; do
    LC_ALL=C sed "s/${MINOR_ETCD_BUILT//./\\.}/$version/g" "$MINOR_BIN_BUILT/$name" > "$folder/$name.tmp"
    chmod 755 "$folder/$name.tmp"
    [ "$name" != etcd ] || "$folder/$name.tmp" --version | grep -qx "etcd Version: $version" || die "etcd does not call itself $version"
    mv "$folder/$name.tmp" "$folder/$name"
  done
}

# The lab's own images, of other programs and under other tags.
minor_images() {
  local old=registry.k8s.io/etcd:$MINOR_ETCD_OLD-0
  # shellcheck disable=SC2030,SC2034  # for lab_images alone
  (
    LAB_K8S=$MINOR_K8S LAB_K8S_NEXT=$MINOR_K8S K8S_BIN=$MINOR_K8S_BIN K8S_NEXT_BIN=$MINOR_K8S_BIN BIN=$MINOR_BIN OCI=$MINOR_OCI
    LAB_ETCD_TAG=$MINOR_ETCD-0 LAB_COREDNS=$MINOR_COREDNS LAB_PAUSE=$MINOR_PAUSE
    lab_images
  )
  [ -n "$MINOR_ETCD_OLD" ] && ! grep -q "^$old" "$MINOR_OCI/images.tsv" || return 0
  "$HERE/mkimg.py" "$MINOR_OCI/${old%:*}" "$old" --file "$MINOR_BIN_OLD/etcd:/usr/local/bin/etcd" \
    --file "$MINOR_BIN_OLD/etcdctl:/usr/local/bin/etcdctl" --file "$MINOR_BIN_OLD/etcdutl:/usr/local/bin/etcdutl" \
    --dir var/lib/etcd >> "$MINOR_OCI/images.tsv"
}

# minor_components: as `components` of artifacts.sh
minor_components() {
  local name
  for name in kubeadm kubelet kubectl; do
    echo "$name $MINOR_K8S dl.k8s.io/release/v$MINOR_K8S/bin/linux/amd64/$name"
  done
  echo "etcd $MINOR_ETCD github.com/etcd-io/etcd/releases/download/v$MINOR_ETCD/etcd-v$MINOR_ETCD-linux-amd64.tar.gz"
}

minor_artifacts() (
  local name version path want
  # shellcheck disable=SC2030  # for put and archive alone
  FILES=$MINOR_FILES
  want=$(minor_components; stat -c '%n %s %Y' "$MINOR_K8S_BIN"/* "$MINOR_BIN/etcd")
  [ "$(cat "$FILES/.stamp" 2> /dev/null)" != "$want" ] || return 0
  rm -rf "$FILES.tmp"
  while read -r name version path; do
    case $name in
      etcd) archive "$path" "etcd-v$version-linux-amd64" "${ETCD_PROGRAMS[@]/#/$MINOR_BIN/}" ;;
      *) put "$MINOR_K8S_BIN/$name" "$path" ;;
    esac
  done < <(minor_components)
  echo "$want" > "$FILES.tmp/.stamp"
  rm -rf "$FILES"
  mv "$FILES.tmp" "$FILES"
)

# The origins serve folders and a registry: both get more in them.
# shellcheck disable=SC2031  # the lab's own folder is meant
minor_up() {
  local name version path ref digest file
  [ -f "$RUN/origins.env" ] || die "the origins are not up: scripts/lab origins up"
  [ -f "$MINOR_FILES/.stamp" ] || die "nothing is built yet: scripts/lab minor build [before|next]"
  for file in dl.k8s.io github.com; do cp -alf "$MINOR_FILES/$file" "$FILES/"; done
  (OCI=$MINOR_OCI registry_fill "127.0.0.1:$(registry_port)")
  {
    printf 'schema: kubexm.io/catalogue/v1\nname: lab-minor\ncomponents:\n'
    while read -r name version path; do
      printf '  %s: {versions: {"%s": {amd64: {sha256: %s, size: %s}}}%s}\n' "$name" "$version" \
        "$(sha256sum < "$FILES/$path" | cut -d ' ' -f 1)" "$(stat -c %s "$FILES/$path")" \
        "$([ "$name" != etcd ] || printf ', default: "%s"' "$version")"
    done < <(minor_components)
    echo "images:"
    while IFS=$'\t' read -r ref digest; do printf '  "%s": %s\n' "$ref" "$digest"; done < <(sort -u "$MINOR_OCI/images.tsv")
  } > "$MINOR_OVERLAY.$$"
  mv "$MINOR_OVERLAY.$$" "$MINOR_OVERLAY"
  echo "$MINOR_OVERLAY"
}
