# shellcheck shell=bash
# `lab storage`: what stands for OpenEBS and for the NFS provisioner in the scene that runs them. Neither's images are in a registry that a build
# may ask: charts with upstream's names and values, and images under upstream's names with programs of the lab's own. Seconds; 60 MB are kept.
. "$HERE/artifacts.sh"

# The catalogue's.
LAB_LOCALPV=4.4.0
LAB_LINUX_UTILS=4.3.0
LAB_NFS_CHART=4.0.18
LAB_NFS=4.0.2

lab_storage() {
  local want
  [ -d "$BASE/etc" ] && [ -x "$K8S_BIN/kubectl" ] || die "nothing is built yet: scripts/lab build"
  need_root "lab storage"
  lock
  want=$(find "$HERE/storage.sh" "$HERE/mkimg.py" "$HERE/storage" -type f -exec sha256sum {} + | sort)
  [ "$(cat "$STORAGE/stamp" 2> /dev/null)" != "$want" ] || return 0
  rm -rf "$STORAGE"
  mkdir -p "$STORAGE/oci"
  step storage-images storage_images
  storage_chart openebs.github.io dynamic-localpv-provisioner localpv-provisioner $LAB_LOCALPV
  storage_chart kubernetes-sigs.github.io nfs-subdir-external-provisioner nfs-subdir-external-provisioner $LAB_NFS_CHART
  echo "$want" > "$STORAGE/stamp"
}

storage_images() {
  local words=(--file "$BASE/bin/busybox:/bin/busybox" --symlink /bin/sh:busybox --symlink /bin/mkdir:busybox --symlink /bin/rm:busybox) l bash=/bin/bash
  storage_image docker.io/openebs/linux-utils:$LAB_LINUX_UTILS "${words[@]}"
  storage_image registry.k8s.io/sig-storage/nfs-subdir-external-provisioner:v$LAB_NFS "${words[@]}" --cmd '["/bin/busybox", "sleep", "2147483647"]'
  [ -e "$BASE$bash" ] || bash=/usr$bash
  words+=(--closure "$BASE:$bash" --file "$K8S_BIN/kubectl:/usr/bin/kubectl:755"
    --file "$HERE/storage/provisioner-localpv:/usr/local/bin/provisioner-localpv:755" --cmd '["/usr/local/bin/provisioner-localpv"]')
  for l in awk cat sed seq sleep; do words+=(--symlink "/usr/local/bin/$l:/bin/busybox"); done
  storage_image docker.io/openebs/provisioner-localpv:$LAB_LOCALPV "${words[@]}"
}

# storage_image REFERENCE WORD...
storage_image() { "$HERE/mkimg.py" "$STORAGE/oci/${1%:*}" "$1" "${@:2}" | tee -a "$STORAGE/oci/images.tsv"; }

# storage_chart HOST REPOSITORY NAME VERSION: as upstream publishes it
storage_chart() {
  local at=$STORAGE/files/$1/$2 file=$3-$4.tgz
  mkdir -p "$at"
  tar -C "$HERE/storage" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' --format=gnu -cf - "$3" | gzip -n -6 > "$at/$file"
  printf 'apiVersion: v1\nentries:\n  %s:\n  - {apiVersion: v2, name: %s, version: %s, digest: %s, urls: ["https://%s/%s/%s"]}\n' \
    "$3" "$3" "$4" "$(sha256sum < "$at/$file" | cut -d ' ' -f 1)" "$1" "$2" "$file" > "$at/index.yaml"
}
