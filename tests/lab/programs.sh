# shellcheck shell=bash
# Programs built from published Go modules with the ordinary Go client: the lab downloads no binaries.
. "$HERE/tools.sh"

# Go's caches grow to tens of GB: they live with the lab and are dropped after a build.
export GOCACHE=$LAB/go/cache GOMODCACHE=$LAB/go/mod GOFLAGS=-modcacherw

drop_go_caches() { [ -n "${KEEP_GO:-}" ] || rm -rf "$LAB/go"; }

kubernetes_built() {
  local version=$1 program
  shift
  for program in "$@"; do [ -x "$LAB/k8s/$version/$program" ] || return 1; done
}

kubernetes_programs() {
  kubernetes_built "$LAB_K8S" "${K8S_PROGRAMS[@]}" || {
    go_present
    step "kubernetes-$LAB_K8S" build_kubernetes "$LAB_K8S" "${K8S_PROGRAMS[@]}"
  }
}

# An upgrade of a patch needs programs of another version, not other code: these have the other version's text. A second build would
# cost minutes and gigabytes.
kubernetes_next() {
  local program
  for program in "${K8S_PROGRAMS[@]}"; do
    [ "$K8S_NEXT_BIN/$program" -nt "$K8S_BIN/$program" ] || {
      step "kubernetes-$LAB_K8S_NEXT" relabel_kubernetes
      return
    }
  done
}

relabel_kubernetes() {
  local program
  [ "${#LAB_K8S}" = "${#LAB_K8S_NEXT}" ] || die "$LAB_K8S_NEXT is not as long as $LAB_K8S"
  rm -rf "$K8S_NEXT_BIN.tmp"
  mkdir -p "$K8S_NEXT_BIN.tmp"
  for program in "${K8S_PROGRAMS[@]}"; do
    LC_ALL=C sed "s/v${LAB_K8S//./\\.}/v$LAB_K8S_NEXT/g" "$K8S_BIN/$program" > "$K8S_NEXT_BIN.tmp/$program"
    chmod 755 "$K8S_NEXT_BIN.tmp/$program"
  done
  [ "$("$K8S_NEXT_BIN.tmp/kubeadm" version -o short)" = "v$LAB_K8S_NEXT" ] || die "kubeadm does not call itself v$LAB_K8S_NEXT"
  rm -rf "$K8S_NEXT_BIN"
  mv "$K8S_NEXT_BIN.tmp" "$K8S_NEXT_BIN"
}

# build_kubernetes VERSION PROGRAM...: the module k8s.io/kubernetes replaces its staging modules by folders that the module
# proxy does not have; each of them is published too, as v0.MINOR.PATCH, and is in for its folder.
build_kubernetes() {
  local version=$1 out=$LAB/k8s/$1 staging=v0.${1#1.} minor=${1#1.} program work flags pkg upstream
  shift
  minor=${minor%%.*}
  mkdir -p "$out"
  work=$(mktemp -d "$LAB/k8s/tmp.XXXXXX")
  cd "$work" || exit
  printf 'module lab\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes v%s\n' "$version" > go.mod
  upstream=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
  sed -n "s,^\t*\(k8s.io/[a-z-]*\) => \./staging.*,replace \1 => \1 $staging,p" "$upstream" >> go.mod
  {
    printf '//go:build tools\n\npackage lab\n\n'
    for program in "$@"; do echo "import _ \"k8s.io/kubernetes/cmd/$program\""; done
  } > tools.go
  go mod tidy
  flags="-s -w"
  for pkg in k8s.io/client-go/pkg/version k8s.io/component-base/version; do
    flags+=" -X $pkg.gitVersion=v$version -X $pkg.gitMajor=1 -X $pkg.gitMinor=$minor -X $pkg.gitTreeState=clean"
    flags+=" -X $pkg.buildDate=2026-01-01T00:00:00Z"
  done
  CGO_ENABLED=0 nice go build -trimpath -buildvcs=false -ldflags "$flags" -o "$work/out/" "${@/#/k8s.io/kubernetes/cmd/}"
  mv "$work"/out/* "$out/"
  cd "$LAB" || exit
  rm -rf "$work"
}

# program VERSION NAMES MODULE PACKAGE...: programs NAMES (space separated; `built:name` renames) of one module, static.
# CGO, TAGS, LD and EXTRA (one more requirement) come from the caller's environment.
program() {
  local version=$1 names=$2 module=$3 name missing=
  shift 3
  mkdir -p "$BIN/.versions"
  for name in $names; do
    name=${name#*:}
    # a program without a note of its version was built by an older lab, or by hand: adopted
    [ -x "$BIN/$name" ] && [ ! -e "$BIN/.versions/$name" ] && echo "$version" > "$BIN/.versions/$name"
    [ -x "$BIN/$name" ] && [ "$(cat "$BIN/.versions/$name")" = "$version" ] || missing=1
  done
  [ -n "$missing" ] || return 0
  go_present
  name=${names%% *}
  step "${name#*:}-$version" build_program "$version" "$names" "$module" "$@"
}

# A throwaway module requires the program's module, so that one whose own go.mod has `replace` lines can be built too.
build_program() {
  local version=$1 names=$2 module=$3 work name
  shift 3
  work=$(mktemp -d "$BIN/tmp.XXXXXX")
  cd "$work" || exit
  printf 'module lab\n\ngo 1.24.0\n' > go.mod
  # shellcheck disable=SC2086  # EXTRA is empty or one word
  go get "$module@v$version" ${EXTRA:-} "${@/%/@v$version}"
  CGO_ENABLED=${CGO:-0} nice go build -trimpath -buildvcs=false -tags "${TAGS:-}" -ldflags "-s -w ${LD:-}" -o "$work/out/" "$@"
  for name in $names; do
    mv "$work/out/${name%%:*}" "$BIN/${name#*:}"
    echo "$version" > "$BIN/.versions/${name#*:}"
  done
  cd "$LAB" || exit
  rm -rf "$work"
}

other_programs() {
  local m
  m=github.com/containernetworking/plugins
  program "$LAB_CNI" "${CNI_PROGRAMS[*]}" $m $m/plugins/main/{bridge,host-device,ipvlan,loopback,macvlan,ptp} \
    $m/plugins/ipam/host-local $m/plugins/meta/{bandwidth,firewall,portmap,tuning}
  # runc without libseccomp starts no pod
  m=github.com/opencontainers/runc
  CGO=1 TAGS="netgo osusergo seccomp" LD="-extldflags=-static -X main.version=$LAB_RUNC" program "$LAB_RUNC" runc $m $m
  m=github.com/containerd/containerd/v2
  TAGS="no_btrfs no_devmapper no_zfs" LD="-X $m/version.Version=v$LAB_CONTAINERD" \
    program "$LAB_CONTAINERD" "${CONTAINERD_PROGRAMS[*]}" $m "${CONTAINERD_PROGRAMS[@]/#/$m/cmd/}"
  m=github.com/containerd/containerd
  BIN=$BIN_CONTAINERD_1 TAGS="no_aufs no_btrfs no_devmapper no_zfs" LD="-X $m/version.Version=v$LAB_CONTAINERD_1" \
    program "$LAB_CONTAINERD_1" "${CONTAINERD_PROGRAMS[*]}" $m "${CONTAINERD_PROGRAMS[@]/#/$m/cmd/}"
  m=go.etcd.io/etcd
  program "$LAB_ETCD" server:etcd $m/server/v3 $m/server/v3
  program "$LAB_ETCD" etcdctl $m/etcdctl/v3 $m/etcdctl/v3
  program "$LAB_ETCD" etcdutl $m/etcdutl/v3 $m/etcdutl/v3
  m=github.com/coredns/coredns
  LD="-X $m/coremain.GitCommit=lab" program "$LAB_COREDNS" coredns $m $m
  # flannel's udp backend needs cgo, and one required module is only to be had in a newer version
  m=github.com/flannel-io/flannel
  CGO=1 TAGS="netgo osusergo" LD="-extldflags=-static -X $m/pkg/version.Version=v$LAB_FLANNEL" \
    EXTRA=github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common@v1.3.103 \
    program "$LAB_FLANNEL" flannel:flanneld $m $m
  # the CNI plugin `flannel`, from where it lived before it moved to a repository that is no Go module
  m=github.com/containernetworking/plugins
  program "$LAB_FLANNEL_CNI" flannel $m $m/plugins/meta/flannel
  m=github.com/distribution/distribution/v3
  program "$LAB_REGISTRY" registry $m $m/cmd/registry
  m=helm.sh/helm/v3
  program "$LAB_HELM" helm $m $m/cmd/helm
  m=github.com/sigstore/cosign/v2
  program "$LAB_COSIGN" cosign $m $m/cmd/cosign
  m=oras.land/oras
  program "$LAB_ORAS" oras $m $m/cmd/oras
  m=github.com/google/go-containerregistry
  program "$LAB_CRANE" crane $m $m/cmd/crane
  [ "$BIN/pause" -nt "$HERE/pause.c" ] || step pause build_pause
}

build_pause() {
  gcc -O2 -static -s -o "$BIN/pause.tmp" "$HERE/pause.c"
  mv "$BIN/pause.tmp" "$BIN/pause"
}
