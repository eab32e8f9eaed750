#!/bin/sh
# Runs on a host: every file of its root file system. What is left out, and why:
#   logs, journals, caches and /run            times and sizes of events
#   containerd's state, pods, etcd's data      ids made by chance; what is in the content store is listed by name
#   our own ledger, runs and stamp             names of runs
# Keys, certificates and what holds them are listed without their digest: they are made anew for each cluster.
set -eu
cd /
find . -xdev \
  \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp -o -path ./var/tmp -o -path ./var/log \
  -o -path ./var/cache -o -path ./var/lib/etcd -o -path ./var/lib/apt -o -path ./var/lib/systemd \
  -o -path './var/lib/containerd/*' -o -path './var/lib/kubelet/pods/*' -o -path './var/lib/kubelet/pki/*' \
  -o -path './var/lib/kubelet/plugins*' -o -path './var/lib/kubelet/device-plugins/*' -o -path './var/lib/kubelet/checkpoints/*' \
  -o -path './var/lib/cni/*' -o -path './var/lib/kubexm/ledger/*' -o -path './var/lib/kubexm/runs/*' \
  -o -path './etc/kubernetes/tmp/*' -o -path './home/*/.cache' -o -path './root/.cache' -o -path './root/.kube/cache' \) -prune -o -printf '%y %m %p %l\n' \
  | LC_ALL=C sort -k3 | while read -r kind mode path link; do
    digest=$link
    if [ "$kind" = f ]; then
      case $path in
        ./etc/kubernetes/pki/* | ./etc/kubernetes/*.conf | ./etc/kubexm/*.crt | ./etc/kubexm/*.key | ./etc/kubexm/*/*.crt | ./etc/kubexm/*/*.key \
          | */.kube/config | ./etc/machine-id | ./var/lib/kubexm/stamp.json | ./var/lib/kubelet/*_state | ./var/lib/kubelet/instance* \
          | ./var/lib/kubexm/placed* | ./etc/ld.so.cache) digest=random ;;
        *) digest=$(sha256sum "$path" 2> /dev/null | cut -d' ' -f1) || digest=gone ;;
      esac
    fi
    printf '%s %s %s %s\n' "$kind" "$mode" "$path" "$digest"
  done
ls var/lib/containerd/io.containerd.content.v1.content/blobs/sha256 2> /dev/null | sed 's/^/content /'
