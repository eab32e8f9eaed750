#!/usr/bin/env bash
# What a person without KubeXM would write: ssh, kubeadm, kubectl, as parallel as kubeadm lets it be. Same programs, images and
# settings as the bundle's. It is given what it would have to care for itself: a filled registry, programs that need no check.
#   HOSTS      NAME=ADDRESS of each, control planes first      CONTROL_PLANES   how many of them (1)      KEY    for ssh
#   FILES      upstream's downloads, as folders                REGISTRY         address of the registry
#   FLANNEL    flannel's manifest                              WORK             for known_hosts
#   ETCD       kubeadm's `etcd`, on one line (its own)
set -euo pipefail
read -ra hosts <<< "$HOSTS"
masters=${CONTROL_PLANES:-1}
first=${hosts[0]#*=}
K8S=dl.k8s.io/release/v1.34.4/bin/linux/amd64
GITHUB=github.com
# The oldest of several: those of a later minor version of Kubernetes may lie beside it.
one() {
  local found; found=$(cd "$FILES" && compgen -G "$1") || { echo "not among the downloads: $1" >&2; return 1; }
  sort -V <<< "$found" | sed -n 1p
}
on() { local address=$1; shift; ssh -i "$KEY" -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile="$WORK/known_hosts" "operator@$address" "$@"; }
remote() { on "$first" "$@"; }

# programs
containerd=$(one "$GITHUB/containerd/containerd/releases/download/v2.*/containerd-static-2.*-linux-amd64.tar.gz")
runc=$(one "$GITHUB/opencontainers/runc/releases/download/*/runc.amd64")
cni=$(one "$GITHUB/containernetworking/plugins/releases/download/*/cni-plugins-linux-amd64-*.tgz")
etcd=$(one "$GITHUB/etcd-io/etcd/releases/download/*/etcd-*-linux-amd64.tar.gz")
helm=$(one "get.helm.sh/helm-*-linux-amd64.tar.gz")

# prepare NAME ADDRESS: everything before kubeadm
prepare() {
local HOST=$1 ADDRESS=$2
tar c -C "$FILES" "$K8S"/{kubeadm,kubelet,kubectl} "$containerd" "$runc" "$cni" "$etcd" "$helm" |
  on "$ADDRESS" "mkdir -p parts && tar x -C parts"
on "$ADDRESS" sudo bash -euo pipefail -s << REMOTE
cd /home/operator/parts
install -m 755 $K8S/kubeadm $K8S/kubelet $K8S/kubectl /usr/local/bin/
install -m 755 $runc /usr/local/bin/runc
tar xzf $containerd -C /usr/local
mkdir -p /opt/cni/bin && tar xzf $cni -C /opt/cni/bin
tar xzf $etcd -C /usr/local/bin --strip-components=1 --wildcards '*/etcdctl' '*/etcdutl'
tar xzf $helm -C /usr/local/bin --strip-components=1 linux-amd64/helm
rm -rf /home/operator/parts

hostname $HOST && echo $HOST > /etc/hostname
sed -i '/^127\.0\.1\.1/s/^/#/' /etc/hosts
printf '%s\n' "$first lb.lab.kubexm.internal" ${hosts[*]} | sed -E 's/^([^=]*)=(.*)/\2 \1/' >> /etc/hosts
printf 'overlay\nbr_netfilter\n' > /etc/modules-load.d/kubernetes.conf
printf 'net.bridge.bridge-nf-call-ip6tables=1\nnet.bridge.bridge-nf-call-iptables=1\nnet.ipv4.ip_forward=1\n' > /etc/sysctl.d/99-kubernetes.conf
sysctl -q -p /etc/sysctl.d/99-kubernetes.conf

for registry in registry.k8s.io ghcr.io; do
  mkdir -p /etc/containerd/certs.d/\$registry
  printf '[host."http://%s/v2/%s"]\n  capabilities = ["pull", "resolve"]\n  override_path = true\n' $REGISTRY \$registry > /etc/containerd/certs.d/\$registry/hosts.toml
done
cat > /etc/containerd/config.toml << TOML
version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "registry.k8s.io/pause:3.10.1"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = true
TOML
cat > /etc/systemd/system/containerd.service << UNIT
[Unit]
After=network.target
[Service]
ExecStart=/usr/local/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
[Install]
WantedBy=multi-user.target
UNIT
cat > /etc/systemd/system/kubelet.service << 'UNIT'
[Unit]
After=containerd.service
StartLimitIntervalSec=0
[Service]
Environment="KUBECONFIGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/kubelet \$KUBECONFIGS --config=/var/lib/kubelet/config.yaml \$KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=10
[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable -q --now containerd
systemctl enable -q kubelet

cat > /root/kubeadm.yaml << YAML
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: $ADDRESS, bindPort: 6443}
nodeRegistration:
  criSocket: unix:///run/containerd/containerd.sock
  name: $HOST
  kubeletExtraArgs: [{name: node-ip, value: "$ADDRESS"}]
$taints
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: lab
kubernetesVersion: v1.34.4
controlPlaneEndpoint: lb.lab.kubexm.internal:6443
apiServer: {certSANs: [lb.lab.kubexm.internal, localhost, 127.0.0.1, $HOST, "$ADDRESS"]}
networking: {dnsDomain: cluster.local, podSubnet: 10.233.64.0/18, serviceSubnet: 10.233.0.0/18}
${ETCD:-}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
failCgroupV1: false
evictionHard: {nodefs.available: 1Gi, imagefs.available: 1Gi, memory.available: 200Mi}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
conntrack: {maxPerCore: 0, min: 0}
YAML
REMOTE
}
taints=
# a cluster without other hosts runs its pods on the control planes
[ "$masters" != "${#hosts[@]}" ] || taints='  taints: []'
pids=()
for host in "${hosts[@]}"; do prepare "${host%%=*}" "${host#*=}" & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid"; done

# the cluster
kubectl() { remote sudo KUBECONFIG=/etc/kubernetes/admin.conf /usr/local/bin/kubectl "$@"; }
ROOT_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
upload=()
[ "$masters" = 1 ] || upload=(--upload-certs)
remote sudo PATH="$ROOT_PATH" kubeadm init --config /root/kubeadm.yaml "${upload[@]}" | tee "$WORK/init.log"
kubectl apply -f - < "$FLANNEL"
if [ "${#hosts[@]}" != 1 ]; then
  join=$(remote sudo PATH="$ROOT_PATH" kubeadm token create --print-join-command)
  key=$(sed -n 's/.*--certificate-key \([0-9a-f]*\).*/\1/p' "$WORK/init.log" | head -n 1)
  pids=()
  for host in "${hosts[@]:masters}"; do on "${host#*=}" sudo PATH="$ROOT_PATH" "$join" & pids+=($!); done
  # etcd takes one new member at a time
  for host in "${hosts[@]:1:masters-1}"; do
    on "${host#*=}" sudo PATH="$ROOT_PATH" "$join" --control-plane --certificate-key "$key" --apiserver-advertise-address "${host#*=}"
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
fi
kubectl wait --for=condition=Ready nodes --all --timeout=180s
# a daemon set has its pods by the time the node is Ready; it could not be without flannel's
kubectl wait --for=condition=Ready pods --all -A --timeout=300s
