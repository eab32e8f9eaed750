# shellcheck shell=bash
# The images of a kubeadm cluster with flannel, from the lab's own programs, under upstream's names and tags.
# $OCI/images.tsv lists reference and index digest; $OCI/HOST/REPOSITORY is an OCI layout.

lab_images() {
  local want
  want=$(
    sha256sum "$HERE/images.sh" "$HERE/mkimg.py" "$HERE/versions.sh"
    stat -c '%n %s %Y' "$K8S_BIN"/* "$K8S_NEXT_BIN"/* "$BIN"/{flanneld,flannel,etcd,etcdctl,etcdutl,pause,coredns} "$BASE/usr/sbin/xtables-nft-multi"
  )
  [ "$(cat "$OCI/stamp" 2> /dev/null)" != "$want" ] || return 0
  rm -rf "$OCI.tmp"
  mkdir -p "$OCI.tmp"
  step images all_images
  echo "$want" > "$OCI.tmp/stamp"
  rm -rf "$OCI"
  mv "$OCI.tmp" "$OCI"
}

# image REF ARGS...: one of them; mkimg.py has the arguments
image() {
  local ref=$1
  shift
  "$HERE/mkimg.py" "$OCI.tmp/${ref%:*}" "$ref" "$@" | tee -a "$OCI.tmp/images.tsv"
}

all_images() {
  local c l ca version bin iptables=() tools=()
  ca=$BASE/etc/ssl/certs/ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt
  # kube-proxy and flannel drive the host's tables with the iptables of their image
  iptables=(--closure "$BASE:/usr/sbin/xtables-nft-multi" --closure "$BASE:/usr/sbin/nft"
    --glob "$BASE:/usr/lib/x86_64-linux-gnu/xtables/*.so" --file "$BASE/etc/protocols:/etc/protocols:644")
  for l in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    iptables+=(--symlink "/usr/sbin/$l:xtables-nft-multi")
  done
  for version in "$LAB_K8S" "$LAB_K8S_NEXT"; do
    bin=$LAB/k8s/$version
    for c in kube-apiserver kube-controller-manager kube-scheduler; do
      image "registry.k8s.io/$c:v$version" --file "$bin/$c:/usr/local/bin/$c" --file "$ca"
    done
    image "registry.k8s.io/kube-proxy:v$version" --file "$bin/kube-proxy:/usr/local/bin/kube-proxy" "${iptables[@]}" \
      --closure "$BASE:/usr/sbin/conntrack" --file "$BASE/etc/services:/etc/services:644"
  done
  image "registry.k8s.io/etcd:$LAB_ETCD_TAG" --file "$BIN/etcd:/usr/local/bin/etcd" --file "$BIN/etcdctl:/usr/local/bin/etcdctl" \
    --file "$BIN/etcdutl:/usr/local/bin/etcdutl" --dir var/lib/etcd
  image "registry.k8s.io/pause:$LAB_PAUSE" --file "$BIN/pause:/pause" --entrypoint '["/pause"]'
  image "registry.k8s.io/coredns/coredns:v$LAB_COREDNS" --file "$BIN/coredns:/coredns" --file "$ca" --entrypoint '["/coredns"]'
  tools=(--file "$BASE/bin/busybox:/bin/busybox" --symlink /bin/cp:busybox --symlink /bin/sh:busybox --symlink /bin/sleep:busybox)
  image "ghcr.io/flannel-io/flannel:v$LAB_FLANNEL" --file "$BIN/flanneld:/opt/bin/flanneld" --file "$ca" "${tools[@]}" \
    "${iptables[@]}" --entrypoint '["/opt/bin/flanneld"]'
  image "ghcr.io/flannel-io/flannel-cni-plugin:$LAB_FLANNEL_CNI_TAG" --file "$BIN/flannel:/flannel" "${tools[@]}"
  for l in cat df echo env grep hostname httpd id ip ls mkdir mount nc nslookup ping ps rm sed sleep timeout touch wget; do
    tools+=(--symlink "/bin/$l:busybox")
  done
  image docker.io/library/busybox:1 "${tools[@]}" --cmd '["sh"]'
}
