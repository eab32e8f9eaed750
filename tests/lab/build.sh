# shellcheck shell=bash
# `lab build` and `lab kubeadm`: everything that takes long, made once and kept.
. "$HERE/programs.sh"
. "$HERE/base.sh"
. "$HERE/images.sh"
. "$HERE/artifacts.sh"

lab_build() {
  . "$HERE/tools.sh"
  lab_tools
  lock
  kubernetes_programs
  kubernetes_next
  other_programs
  drop_go_caches
  host_base
  lab_images
  lab_artifacts
}

# Only what a host is made of: no program of a cluster, so no Go.
lab_host_base() {
  . "$HERE/tools.sh"
  debian_tools
  lock
  host_base
}

host_base() {
  [ -f "$KEY" ] || ssh-keygen -q -t ed25519 -N '' -C lab -f "$KEY"
  lab_base
}

lab_kubeadm() {
  local version=${1:-}
  version=${version#v}
  [[ $version =~ ^1\.[0-9]+\.[0-9]+$ ]] || die "usage: lab kubeadm VERSION, as in 1.34.0"
  lock
  kubernetes_built "$version" kubeadm || {
    . "$HERE/tools.sh"
    go_present
    step "kubeadm-$version" build_kubernetes "$version" kubeadm
    drop_go_caches
  }
}
