# shellcheck shell=bash
# Upstream's download hosts as folders: $FILES/HOST/PATH is https://HOST/PATH. Archives have upstream's names and inner paths
# and the same bytes every time.

lab_artifacts() {
  local want
  want=$(
    sha256sum "$HERE/artifacts.sh" "$HERE/versions.sh"
    stat -c '%n %s %Y' "${K8S_PROGRAMS[@]/#/$K8S_BIN/}" "${K8S_PROGRAMS[@]/#/$K8S_NEXT_BIN/}" "${CNI_PROGRAMS[@]/#/$BIN/}" \
      "${CONTAINERD_PROGRAMS[@]/#/$BIN/}" "${CONTAINERD_PROGRAMS[@]/#/$BIN_CONTAINERD_1/}" \
      "$BIN"/{runc,etcd,etcdctl,etcdutl,helm,registry}
  )
  [ "$(cat "$FILES/.stamp" 2> /dev/null)" != "$want" ] || return 0
  rm -rf "$FILES.tmp"
  step artifacts all_artifacts
  echo "$want" > "$FILES.tmp/.stamp"
  rm -rf "$FILES"
  mv "$FILES.tmp" "$FILES"
}

# components: NAME VERSION PATH of each component a bundle can take from here; the first version of a name is the default
components() {
  local name
  local version
  for version in "$LAB_K8S" "$LAB_K8S_NEXT"; do
    for name in kubeadm kubelet kubectl; do
      echo "$name $version dl.k8s.io/release/v$version/bin/linux/amd64/$name"
    done
  done
  echo "containerd $LAB_CONTAINERD github.com/containerd/containerd/releases/download/v$LAB_CONTAINERD/containerd-static-$LAB_CONTAINERD-linux-amd64.tar.gz"
  echo "containerd $LAB_CONTAINERD_1 github.com/containerd/containerd/releases/download/v$LAB_CONTAINERD_1/containerd-static-$LAB_CONTAINERD_1-linux-amd64.tar.gz"
  echo "runc $LAB_RUNC github.com/opencontainers/runc/releases/download/v$LAB_RUNC/runc.amd64"
  echo "cni-plugins $LAB_CNI github.com/containernetworking/plugins/releases/download/v$LAB_CNI/cni-plugins-linux-amd64-v$LAB_CNI.tgz"
  echo "etcd $LAB_ETCD github.com/etcd-io/etcd/releases/download/v$LAB_ETCD/etcd-v$LAB_ETCD-linux-amd64.tar.gz"
  echo "helm $LAB_HELM get.helm.sh/helm-v$LAB_HELM-linux-amd64.tar.gz"
  echo "registry $LAB_REGISTRY github.com/distribution/distribution/releases/download/v$LAB_REGISTRY/registry_${LAB_REGISTRY}_linux_amd64.tar.gz"
}

all_artifacts() {
  local name version path file files sum
  # the control plane's programs as files, for installs without kubeadm; the components are among the loop below
  for name in "${K8S_PROGRAMS[@]}"; do
    put "$K8S_BIN/$name" "dl.k8s.io/release/v$LAB_K8S/bin/linux/amd64/$name"
    put "$K8S_NEXT_BIN/$name" "dl.k8s.io/release/v$LAB_K8S_NEXT/bin/linux/amd64/$name"
  done
  while read -r name version path; do
    case $name in
      kube*) ;;
      runc) put "$BIN/runc" "$path" ;;
      containerd)
        case $version in
          1.*) archive "$path" bin "${CONTAINERD_PROGRAMS[@]/#/$BIN_CONTAINERD_1/}" ;;
          *) archive "$path" bin "${CONTAINERD_PROGRAMS[@]/#/$BIN/}" ;;
        esac
        ;;
      cni-plugins) archive "$path" . "${CNI_PROGRAMS[@]/#/$BIN/}" ;;
      etcd) archive "$path" "etcd-v$version-linux-amd64" "$BIN"/{etcd,etcdctl,etcdutl} ;;
      helm) archive "$path" linux-amd64 "$BIN/helm" ;;
      registry) archive "$path" . "$BIN/registry" ;;
    esac
  done < <(components)
  # digests beside the files, each in the form its upstream publishes
  mapfile -t files < <(find "$FILES.tmp" -type f)
  for file in "${files[@]}"; do
    sum=$(sha256sum < "$file")
    sum=${sum%% *} name=$(basename "$file")
    case $file in
      */dl.k8s.io/*) printf '%s' "$sum" > "$file.sha256" ;;
      *)
        printf '%s  %s\n' "$sum" "$name" > "$file.sha256"
        case $name in
          containerd-* | helm-*) cp "$file.sha256" "$file.sha256sum" ;;
          etcd-*) cp "$file.sha256" "$(dirname "$file")/SHA256SUMS" ;;
          runc.*) cp "$file.sha256" "$(dirname "$file")/runc.sha256sum" ;;
        esac
        ;;
    esac
  done
}

# put SOURCE PATH: one name more for a file of ours
put() {
  mkdir -p "$(dirname "$FILES.tmp/$2")"
  ln "$1" "$FILES.tmp/$2" 2> /dev/null || cp -p "$1" "$FILES.tmp/$2"
}

# archive PATH FOLDER FILE...: FOLDER is their place in the archive; `.` gives ./NAME, as the CNI plugins have it
archive() {
  local path=$FILES.tmp/$1 folder=$2 work
  shift 2
  work=$(mktemp -d "$LAB/tmp.XXXXXX")
  mkdir -p "$work/$folder" "$(dirname "$path")"
  cp "$@" "$work/$folder/"
  tar -C "$work" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' --format=gnu -cf - "$folder" |
    gzip -n -6 > "$path"
  rm -rf "$work"
}

# overlay: the catalogue's additions for this lab, own builds with their digests
overlay() {
  local name version path ref digest
  local -A versions=() first=()
  while read -r name version path; do
    versions[$name]+=$(printf ', "%s": {amd64: {sha256: %s, size: %s}}' "$version" \
      "$(sha256sum < "$FILES/$path" | cut -d ' ' -f 1)" "$(stat -c %s "$FILES/$path")")
    first[$name]=${first[$name]:-$version}
  done < <(components)
  printf 'schema: kubexm.io/catalogue/v1\nname: lab\ncomponents:\n'
  while read -r name; do
    printf '  %s: {versions: {%s}, default: "%s"}\n' "$name" "${versions[$name]:2}" "${first[$name]}"
  done < <(printf '%s\n' "${!versions[@]}" | sort)
  echo "images:"
  while IFS=$'\t' read -r ref digest; do printf '  "%s": %s\n' "$ref" "$digest"; done < "$OCI/images.tsv"
}
