#!/bin/sh
# Runs on a host: every file of its root file system, by size and CRC (what somebody else wrote is distinguished from what was there; nobody
# forges anything here, and SHA-256 of a host takes seconds). What is left out, and why:
#   logs, journals, caches and /run            times and sizes of events
#   containerd's state, pods, etcd's data      ids made by chance; what is in the content store is listed by name
#   /var/lib/cni                             there where a pod of the cluster's network has been: the scheduler's choice
#   our own ledger, runs, marks and stamp      names of runs
#   what the depot serves of packages          signed by a key of each cluster's, named by digest
# Keys, certificates and what holds them (the host's own SSH keys and its salted passwords too) are listed without their digest:
# they are made anew for each cluster or host.
set -eu
cd /
find . -xdev \
  \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp -o -path ./var/tmp -o -path ./var/log \
  -o -path ./var/cache -o -path ./var/lib/etcd -o -path ./var/lib/apt -o -path ./var/lib/systemd \
  -o -path './var/lib/containerd/*' -o -path './var/lib/kubelet/pods/*' -o -path './var/lib/kubelet/pki/*' \
  -o -path './var/lib/kubelet/plugins*' -o -path './var/lib/kubelet/device-plugins/*' -o -path './var/lib/kubelet/checkpoints/*' \
  -o -path ./var/lib/cni -o -path './var/lib/kubexm/depot/*' -o -path './var/lib/kubexm/ledger/*' -o -path './var/lib/kubexm/runs/*' \
  -o -path './etc/kubernetes/tmp/*' -o -path './home/*/.cache' -o -path './root/.cache' -o -path './root/.kube/cache' \) -prune -o -printf '%y\t%m\t%p\t%l\n' \
  | LC_ALL=C sort -t "$(printf '\t')" -k3 > /run/tree.list
# What is random by nature is named, not hashed.
cut -f1,3 /run/tree.list | awk -F'\t' '$1 == "f" { print $2 }' | grep -vE \
  -e '^\./etc/kubernetes/pki/' -e '^\./etc/kubernetes/[^/]*\.conf$' -e '^\./etc/kubexm/.*\.(crt|key)$' -e '^\./etc/kubexm/authorities\.json$' -e '/\.kube/config$' \
  -e '^\./etc/kubexm/depot/config\.json$' -e '^\./var/lib/kubexm/repos/[^/]*/(InRelease|kubexm\.asc)$' \
  -e '^\./etc/ssh/ssh_host_' -e '^\./etc/shadow-?$' -e '^\./etc/kubernetes/manifests/etcd\.yaml$' -e '^\./etc/machine-id$' -e '^\./etc/ld\.so\.cache$' -e '^\./var/lib/kubexm/(stamp\.json|placed|acts/|units/)' \
  -e '^\./var/lib/kubelet/([^/]*_state|instance[^/]*)$' | tr '\n' '\0' | xargs -0 -r cksum 2> /dev/null > /run/tree.sums || true
# etcd gives the members in the order of their ids, which are made by chance: kubeadm writes them so into a joining member's manifest.
etcd=./etc/kubernetes/manifests/etcd.yaml
[ ! -f "$etcd" ] || awk '/--initial-cluster=/ {
    at = index($0, "cluster=") + 8; count = split(substr($0, at), member, ","); text = substr($0, 1, at - 1)
    for (i = 1; i <= count; i++) for (j = i + 1; j <= count; j++)
      if (member[j] < member[i]) { swap = member[i]; member[i] = member[j]; member[j] = swap }
    for (i = 1; i <= count; i++) text = text (i > 1 ? "," : "") member[i]
    $0 = text
  } { print }' "$etcd" | cksum | sed "s|\$| $etcd|" >> /run/tree.sums
awk -F'\t' 'NR == FNR { at = match($0, / [^0-9]/); sums[substr($0, at + 1)] = substr($0, 1, at - 1); next }
  { what = $4; if ($1 == "f") what = ($3 in sums) ? sums[$3] : "random"; print $1, $2, $3, what }' /run/tree.sums /run/tree.list
rm -f /run/tree.list /run/tree.sums
find var/lib/containerd/io.containerd.content.v1.content/blobs/sha256 -type f -printf 'content %f\n' 2> /dev/null | LC_ALL=C sort
