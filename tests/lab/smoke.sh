# shellcheck shell=bash
# Two hosts, kubeadm by hand, these programs and these images: if this does not work, no installer can. Runs in a namespace of
# its own beside the lab's, under watch, and leaves nothing (with LAB_KEEP set: the cluster, in the namespace $LAB_NET-smoke).
. "$HERE/origins.sh"
. "$HERE/watch.sh"

SMOKE_CIDRS='{podSubnet: 10.233.64.0/18, serviceSubnet: 10.233.0.0/18}'

lab_smoke() {
  need_root "lab smoke"
  [ "$LAB_NET" = "$LAB_PREFIX" ] && [[ $LAB_NET == *-smoke ]] || exec env LAB_NET="$LAB_NET-smoke" LAB_PREFIX="$LAB_NET-smoke" "$0" smoke
  . "$HERE/net.sh"
  smoke_down
  [ -n "${LAB_KEEP:-}" ] || trap smoke_down EXIT
  lab_origins up > /dev/null           # fills the registry's storage, which the one inside shares
  net_up
  step registry smoke_registry
  step host-1 host_up s1 10.77.0.21
  step host-2 host_up s2 10.77.0.22
  watch_start s1 s2
  step prepare-1 smoke_prepare s1
  step prepare-2 smoke_prepare s2
  step init smoke_init
  step flannel smoke_kubectl apply -f - < "$HERE/kube-flannel.yaml"
  step join smoke_join
  step ready smoke_kubectl wait --for=condition=Ready nodes --all --timeout=120s
  step system-pods smoke_system_pods
  step pod-service-dns smoke_pods < "$HERE/smoke-pods.yaml"
  smoke_kubectl get pods -A -o wide
  watch_report | python3 -c 'import json, sys
r = json.load(sys.stdin)
print("outside:", r["packets"], "packets; names asked:", r["dns"], "missing:", r["missing"])'
  step control watch_control s1
}

smoke_down() {
  trap - EXIT
  watch_stop
  stop "$NETRUN/registry.pid" "$NETRUN/registry.yml"
  host_down --all
  net_down
}

smoke_registry() {
  registry_config "$NETRUN/registry.yml" "$GATEWAY:5000"
  OTEL_TRACES_EXPORTER=none detached "$NETRUN/registry.log" "$NETRUN/registry.pid" \
    nsenter --net="/run/netns/$LAB_NET" "$BIN/registry" serve "$NETRUN/registry.yml"
  until_true 60 in_net curl -fsS "http://$GATEWAY:5000/v2/"
}

smoke_kubectl() { host_root s1 "KUBECONFIG=/etc/kubernetes/admin.conf kubectl $(printf '%q ' "$@")"; }

# smoke_prepare NAME: programs through the back door, as an installer would leave them; then units and configuration
smoke_prepare() {
  local root=$NETRUN/hosts/$1/root registry
  install -m 755 "$K8S_BIN"/{kubeadm,kubelet,kubectl} "$BIN"/{containerd,containerd-shim-runc-v2,ctr,runc} "$root/usr/local/bin/"
  install -d "$root/opt/cni/bin" "$root/etc/containerd"
  install -m 755 "${CNI_PROGRAMS[@]/#/$BIN/}" "$root/opt/cni/bin/"
  for registry in registry.k8s.io docker.io ghcr.io; do
    install -d "$root/etc/containerd/certs.d/$registry"
    cat > "$root/etc/containerd/certs.d/$registry/hosts.toml" << TOML
[host."http://$GATEWAY:5000/v2/$registry"]
  capabilities = ["pull", "resolve"]
  override_path = true
TOML
  done
  cat > "$root/etc/containerd/config.toml" << TOML
version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "registry.k8s.io/pause:$LAB_PAUSE"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = true
TOML
  cat > "$root/etc/systemd/system/containerd.service" << 'UNIT'
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
  cat > "$root/etc/systemd/system/kubelet.service" << 'UNIT'
[Unit]
After=containerd.service
StartLimitIntervalSec=0
[Service]
Environment="KUBECONFIGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/kubelet $KUBECONFIGS --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=3
[Install]
WantedBy=multi-user.target
UNIT
  host_root "$1" 'systemctl daemon-reload && systemctl enable -q --now containerd && systemctl enable -q kubelet'
}

smoke_init() {
  cat > "$NETRUN/hosts/s1/root/root/kubeadm.yaml" << YAML
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 10.77.0.21}
nodeRegistration: {criSocket: "unix:///run/containerd/containerd.sock"}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v$LAB_K8S
controlPlaneEndpoint: 10.77.0.21:6443
networking: $SMOKE_CIDRS
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
failCgroupV1: false
evictionHard: {nodefs.available: 1Gi, imagefs.available: 1Gi, memory.available: 200Mi}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {maxPerCore: 0, min: 0}
YAML
  host_root s1 'kubeadm init --config /root/kubeadm.yaml'
}

smoke_join() {
  local join
  join=$(host_root s1 'KUBECONFIG=/etc/kubernetes/admin.conf kubeadm token create --print-join-command')
  host_root s2 "$join"
}

smoke_system_pods() {
  local from=$SECONDS
  until smoke_kubectl wait --for=condition=Ready pods --all -A --timeout=10s; do
    [ $((SECONDS - from)) -lt 120 ] || { smoke_kubectl get pods -A -o wide; smoke_kubectl describe pods -A | tail -n 60; return 1; }
  done
}

smoke_pods() {
  local from=$SECONDS
  smoke_kubectl apply -f -
  smoke_kubectl rollout status deployment/web --timeout=90s
  smoke_kubectl wait --for=condition=Ready pod/client --timeout=60s
  until smoke_kubectl exec client -- timeout 3 wget -qO- http://web.default.svc.cluster.local/; do
    [ $((SECONDS - from)) -lt 120 ] || { echo "the service does not answer by its name"; return 1; }
    sleep 1
  done
}
