# shellcheck shell=bash
# `lab calico`: what stands for Calico in the scenes that run it. Neither its programs nor its manifest are in a registry that a build may ask:
# a manifest with upstream's names, and images under upstream's names with programs of the lab's own. Seconds; 80 MB are kept.
. "$HERE/artifacts.sh"

# The catalogue's for the lab's Kubernetes.
LAB_CALICO=3.31.7

lab_calico() {
  local want
  [ -d "$BASE/etc" ] && [ -x "$K8S_BIN/kubectl" ] || die "nothing is built yet: scripts/lab build"
  need_root "lab calico"
  lock
  want=$(sha256sum "$HERE/calico.sh" "$HERE"/calico/* "$HERE/mkimg.py")
  [ "$(cat "$CALICO/stamp" 2> /dev/null)" != "$want" ] || return 0
  rm -rf "$CALICO"
  mkdir -p "$CALICO/oci"
  step calico-images calico_images
  local at=$CALICO/files/github.com/projectcalico/calico/raw/v$LAB_CALICO/manifests
  mkdir -p "$at"
  cp "$HERE/calico/manifest.yaml" "$at/calico-typha.yaml"
  echo "$want" > "$CALICO/stamp"
}

calico_images() {
  local words=() file l
  # bash: busybox would take its own `ip` for the program.
  for file in /bin/bash /usr/sbin/ip /usr/sbin/bridge /usr/sbin/ipset /usr/sbin/xtables-nft-multi; do
    [ -e "$BASE$file" ] || file=${file#/usr}
    words+=(--closure "$BASE:$file")
  done
  words+=(--glob "$BASE:/usr/lib/x86_64-linux-gnu/xtables/*.so" --file "$BASE/etc/protocols:/etc/protocols:644"
    --file "$BASE/bin/busybox:/bin/busybox" --file "$K8S_BIN/kubectl:/usr/bin/kubectl:755" --file "$HERE/calico/calico-node:/bin/calico-node:755")
  for l in iptables iptables-save iptables-restore; do words+=(--symlink "/usr/sbin/$l:xtables-nft-multi"); done
  for l in awk cat cp echo grep mkdir mv printf rm sed sleep test touch tr; do words+=(--symlink "/usr/local/bin/$l:/bin/busybox"); done
  calico_image node "${words[@]}" --symlink /bin/sh:busybox --cmd '["/bin/calico-node"]'
  calico_image cni --file "$BASE/bin/busybox:/bin/busybox" --symlink /bin/sh:busybox --symlink /bin/cp:busybox --symlink /bin/mv:busybox \
    --symlink /bin/sed:busybox --symlink /bin/chmod:busybox --file "$HERE/calico/install:/opt/cni/bin/install:755" \
    --file "$HERE/calico/calico:/opt/cni/bin/calico:755" --file "$HERE/calico/nothing:/opt/cni/bin/calico-ipam:755" --file "$BIN/loopback:/opt/cni/bin/loopback:755"
  calico_image kube-controllers --file "$BASE/bin/busybox:/bin/busybox" --symlink /bin/sh:busybox --file "$HERE/calico/nothing:/usr/bin/check-status:755" --cmd '["/bin/busybox", "sleep", "2147483647"]'
  calico_image typha --file "$BASE/bin/busybox:/bin/busybox" --cmd '["/bin/busybox", "httpd", "-f", "-p", "5473"]'
}

# calico_image NAME WORD...
calico_image() {
  local ref=quay.io/calico/$1
  "$HERE/mkimg.py" "$CALICO/oci/$ref" "$ref:v$LAB_CALICO" "${@:2}" | tee -a "$CALICO/oci/images.tsv"
}
