#!/usr/bin/env bash
# The cluster of by-hand.sh gets another patch version as upstream's "Upgrading kubeadm clusters" says, by a person who knows what comes
# next and copies to all hosts at once. No snapshot of etcd is taken, nothing is compared with what runs, no image is looked for before.
#   HOSTS   NAME=ADDRESS of each, one control plane first      KEY    for ssh
#   FILES   upstream's downloads, as folders                   WORK   for known_hosts
#   VERSION the version
set -euo pipefail
read -ra hosts <<< "$HOSTS"
first=${hosts[0]#*=}
PROGRAMS=dl.k8s.io/release/v$VERSION/bin/linux/amd64
ROOT_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
on() { local address=$1; shift; ssh -i "$KEY" -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile="$WORK/known_hosts" "operator@$address" "$@"; }
root() { local address=$1; shift; on "$address" sudo PATH="$ROOT_PATH" "$@"; }
kubectl() { root "$first" KUBECONFIG=/etc/kubernetes/admin.conf kubectl "$@"; }

copy() { tar c -C "$FILES/$PROGRAMS" kubeadm kubelet kubectl | on "$1" "mkdir -p parts && tar x -C parts && sudo install -m 755 parts/kubeadm /usr/local/bin/"; }
pids=()
for host in "${hosts[@]}"; do copy "${host#*=}" & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid"; done

# kubelet HOST: in its drain
kubelet() {
  kubectl drain "${1%%=*}" --ignore-daemonsets --delete-emptydir-data
  on "${1#*=}" "sudo sh -ec 'install -m 755 parts/kubelet parts/kubectl /usr/local/bin/ && rm -r parts && systemctl daemon-reload && systemctl restart kubelet'"
  kubectl uncordon "${1%%=*}"
}
root "$first" kubeadm upgrade apply "v$VERSION" --yes
kubelet "${hosts[0]}"
for host in "${hosts[@]:1}"; do
  root "${host#*=}" kubeadm upgrade node
  kubelet "$host"
done
until [ "$(kubectl get nodes -o "jsonpath={.items[*].status.nodeInfo.kubeletVersion}" | tr ' ' '\n' | sort -u)" = "v$VERSION" ]; do sleep 0.5; done
kubectl wait --for=condition=Ready nodes --all --timeout=180s
# Not of pods of before, which kubectl would wait for until they are gone, and then call them not found.
kubectl rollout status --namespace kube-system daemonset/kube-proxy --timeout=300s
kubectl wait --for=condition=Ready pods --all -A --timeout=300s
