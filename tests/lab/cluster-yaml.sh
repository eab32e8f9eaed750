# shellcheck shell=bash
# A cluster.yaml for lab hosts. What is special about it is the lab's: limits in bytes, since the defaults are shares of the
# machine's own disk, and conntrack sysctls that belong to the whole machine.

lab_cluster_yaml() {
  local masters=1 names=() hosts="" list worker sudo=""
  while [[ ${1:-} == --* ]]; do
    case $1 in
      --control-planes) masters=${2:-} ;;
      --sudo-password) sudo=", sudoPasswordFrom: {file: ${2:-}}" ;;
      *) die "cluster-yaml: unknown option $1" ;;
    esac
    shift 2 || die "cluster-yaml: $1 wants a value"
  done
  [[ $masters =~ ^[1-9][0-9]*$ ]] || die "--control-planes wants a number"
  [ "$#" -ge 2 ] && [ $(($# % 2)) = 0 ] || die "usage: lab cluster-yaml [--control-planes N] [--sudo-password FILE] NAME IP [NAME IP ...]"
  while [ "$#" -gt 0 ]; do
    names+=("$1")
    hosts+="  - {name: $1, address: $2, user: operator, privateKeyPath: $KEY$sudo}"$'\n'
    shift 2
  done
  [ "$masters" -le "${#names[@]}" ] || die "$masters control planes of ${#names[@]} hosts"
  list=$(joined "${names[@]:0:masters}")
  # a cluster without other hosts runs its pods on the control planes
  worker=$list
  [ "$masters" = "${#names[@]}" ] || worker=$(joined "${names[@]:masters}")
  cat << YAML
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: lab}
spec:
  hosts:
${hosts%$'\n'}
  roleGroups: {etcd: [$list], master: [$list], worker: [$worker]}
  kubernetes:
    version: v$LAB_K8S
    kubelet: {failCgroupV1: false, evictionHard: {nodefs.available: 1Gi, imagefs.available: 1Gi, memory.available: 200Mi}}
    kubeProxy: {conntrack: {maxPerCore: 0, min: 0}}
  etcd: {type: kubeadm}
  network: {plugin: flannel}
  registry: {type: embedded}
  bundle: {platforms: [linux/amd64], exclude: [crictl]}
YAML
}

# joined WORD...: with ", " between them
joined() { local list; list=$(printf ', %s' "$@"); echo "${list:2}"; }
