# shellcheck shell=bash
# tier: long
# seconds: 300
# needs: lab packages
# starts-from: fleet
# Certificates of both control planes, and of two kubelets, end; nobody can use the API any more; they are renewed.
. "$ROOT/tests/e2e/fleet.sh"
say "certificates that end"
HOME_NAME=home-certs
check "the fleet is up again, for its certificates" start_from fleet
[ "$HELD" = 1 ] || return 0
write_fleet_yaml with_packages

certs() { install certs "$1" -f "$FLEET_YAML" --accept-new-host-keys "${@:2}"; }
check "no certificate ends within 90 days" says 0 "none has ended" certs check
check "all of every host are named" certs check --json
every_kind() {
  local path
  certs check --json > "$WORK/certs.json" || return 1
  for path in /etc/kubernetes/pki/etcd/peer.crt /etc/kubernetes/admin.conf /var/lib/kubelet/pki/kubelet-client-current.pem /etc/kubexm/registry-ca.crt; do
    grep -q "\"path\":\"$path\"" "$WORK/certs.json" || { echo "$path is not in it"; return 1; }
  done
  grep -q '"host":"n3"' "$WORK/certs.json"
}
check "those of etcd, kubelet, kubeconfigs and the registry, on control planes and workers" every_kind
check "a renewal has nothing to do, and asks nothing" says 0 "nothing to do" certs renew -y

# kubeadm renews with this validity; API servers reload their own certificate, and kubelets end when theirs has ended.
short_config() {
  printf 'apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.34.4\ncertificateValidityPeriod: 45s\n'
}
shorten() {
  local host
  for host in n1 n2; do
    short_config | lab host root "$host" 'cat > /run/short.yaml' || return 1
    lab host root "$host" kubeadm certs renew all --config /run/short.yaml || return 1
  done
}
check "the certificates of both control planes are renewed for 45 s" shorten
check "the kubelet of the second control plane has a certificate that ends" kubelet_ends n2 /run/short.yaml
check "and so has the worker's" kubelet_ends n3 /run/short.yaml
has_ended() { says 56 "HAS ENDED" certs check > /dev/null && ! kubectl_on n1 get nodes; }
check "they end: check says so, and the API lets nobody in" within 150 has_ended
kubelets_end() {
  local host
  for host in n2 n3; do
    lab host root "$host" systemctl start kubelet
    within 60 lab host root "$host" 'journalctl -u kubelet --since -1min | grep -q "expired\|bootstrap-kubelet.conf"' || return 1
  done
}
check "kubelets whose certificate has ended do not start" kubelets_end

DRIFTED=$WORK/ended.txt
certs check > "$DRIFTED" 2>&1 || true
check "it names them without an API" grep -q "/etc/kubernetes/pki/apiserver.crt .* HAS ENDED" "$DRIFTED"
cp "$WORK/$HOME_NAME/clusters/lab/kubeconfig" "$WORK/kubeconfig-before"
check "they are renewed" certs renew -y
check "none has ended any more" says 0 "none has ended" certs check
check "every node is Ready" fleet_becomes_ready 180
check "every pod runs" within 120 all_running n1
same_kubeconfigs() { lab host root "$1" cmp /etc/kubernetes/admin.conf /root/.kube/config; }
check "root of both control planes has the new kubeconfig" same_kubeconfigs n1
check "and the operator, too" exits 1 cmp -s "$WORK/kubeconfig-before" "$WORK/$HOME_NAME/clusters/lab/kubeconfig"
check "a second renewal has nothing to do" says 0 "nothing to do" certs renew -y
check "a create has nothing to do either" fleet_changes_nothing

serial() { lab host root "$1" sha256sum /etc/kubernetes/pki/apiserver.crt; }
serial n1 > "$WORK/serial-before"
check "with --force they are renewed again, one control plane after the other" certs renew --force -y
check "the API server has another certificate" exits 1 sh -c "[ \"\$(cat '$WORK/serial-before')\" = '$(serial n1)' ]"
check "it is rolled back" certs renew --roll-back "$(basename "$(last_run)")" -y
check "the earlier certificate is back" sh -c "[ \"\$(cat '$WORK/serial-before')\" = '$(serial n1)' ]"
check "the cluster runs on" within 120 all_running n1
lab host down --all
HOME_NAME=home
