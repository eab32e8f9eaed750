# shellcheck shell=bash
# tier: long
# seconds: 600
# needs: lab
# kubeadm's authorities end soon, and are renewed under their own keys while the cluster runs: no pod is restarted but the control plane's,
# what was handed out before still works, and it can be rolled back. Then the cluster's CA has ended, and everything comes back.
. "$ROOT/tests/e2e/fleet.sh"
say "authorities that end"
HOME_NAME=home-authorities
FLEET=(n1 n2)
AUTHORITIES=(ca.crt front-proxy-ca.crt etcd/ca.crt)
# ca_yaml FILE FIELD HOSTS...
# Control planes are workers from the beginning: a taint is one of kubeadm's settings.
ca_yaml() { lab cluster-yaml --control-planes 2 "${@:3}" | sed "s|^  kubernetes:|&\n    $2|; s|worker: \[n3\]|worker: [n1, n2, n3]|" > "$WORK/ca-$1.yaml"; }
SHORT='certificateValidityPeriod: 25d\n    caCertificateValidityPeriod: 30d'
ca_yaml first "$SHORT" n1 10.77.0.11 n2 10.77.0.12
ca_yaml whole "$SHORT" n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13
ca_yaml later 'caCertificateValidityPeriod: 3650d' n1 10.77.0.11 n2 10.77.0.12
ca_yaml all-later 'caCertificateValidityPeriod: 3650d' n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13
lab host down --all
lab host up n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13
of_cluster() { install "$1" --bundle "$FILE" -f "$WORK/ca-$2.yaml" --accept-new-host-keys -y "${@:3}"; }
certs() { install certs "$1" -f "$WORK/ca-$2.yaml" --accept-new-host-keys "${@:3}"; }
check "a cluster whose authorities are valid for 30 days" of_cluster create first
[ "$HELD" = 1 ] || return 0
check "both nodes are Ready" fleet_becomes_ready 180
check "every pod runs (authorities)" within 120 all_running n1

# As it is nine years later: only the authorities end soon.
years() {
  local host
  for host in "${FLEET[@]}"; do
    printf 'apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.34.4\ncertificateValidityPeriod: 8760h\n' |
      lab host root "$host" 'cat > /run/year.yaml' && lab host root "$host" kubeadm certs renew all --config /run/year.yaml || return 1
  done
}
check "what they have signed is valid for a year" years
check "certs check names them" says 56 "/etc/kubernetes/pki/ca.crt" certs check first --within 40d
check "a renewal names the option" says 0 "certs renew --authorities" certs renew first --within 40d -y
# what each pod is, and how often its containers were started; those of the control plane apart
others() { kubectl_on n1 get pods -A --no-headers -o 'custom-columns=:.metadata.uid,:.metadata.name,:.status.containerStatuses[*].restartCount' | grep -vE ' (etcd|kube-(apiserver|controller-manager|scheduler))-' | sort; }
others > "$WORK/ca-pods"
# of_hosts NAME FILE...: digests of these files, of every host
of_hosts() {
  local host
  for host in "${FLEET[@]}"; do lab host root "$host" "cd /etc/kubernetes/pki && sha256sum ${*:2}" || return 1; done > "$WORK/ca-$1"
}
of_hosts before "${AUTHORITIES[@]}"
of_hosts leaves apiserver.crt etcd/server.crt front-proxy-client.crt
lab host root n1 cat /etc/kubernetes/pki/ca.crt > "$WORK/ca-before.crt"
cp "$WORK/$HOME_NAME/clusters/lab/kubeconfig" "$WORK/ca-kubeconfig"
check "they are renewed while the cluster runs" certs renew later --within 40d --authorities -y
alike() {
  local path
  of_hosts now "${AUTHORITIES[@]}"
  for path in "${AUTHORITIES[@]}"; do
    if [ "$(grep " $path\$" "$WORK/ca-now" | sort | uniq -c | awk '{print $1}')" != "${#FLEET[@]}" ]; then
      cat "$WORK/ca-now"
      return 1
    fi
  done
}
check "every control plane has the same" alike
check "and other ones than before" exits 1 cmp -s "$WORK/ca-before" "$WORK/ca-now"
same_key() {
  lab host root n1 cat /etc/kubernetes/pki/ca.crt > "$WORK/ca-now.crt"
  openssl x509 -in "$WORK/ca-now.crt" -noout -checkend $((3600 * 24 * 3600)) || return 1
  [ "$(openssl x509 -in "$WORK/ca-now.crt" -noout -pubkey -subject -ext subjectKeyIdentifier)" = "$(openssl x509 -in "$WORK/ca-before.crt" -noout -pubkey -subject -ext subjectKeyIdentifier)" ]
}
check "under the same key and name, for ten years" same_key
leaves_stay() { of_hosts leaves-now apiserver.crt etcd/server.crt front-proxy-client.crt && cmp "$WORK/ca-leaves" "$WORK/ca-leaves-now"; }
check "what they have signed is the same" leaves_stay
valid() {
  local path
  for path in apiserver.crt apiserver-kubelet-client.crt; do
    lab host root "$1" cat "/etc/kubernetes/pki/$path" > "$WORK/ca-leaf.crt" && openssl verify -CAfile "$WORK/ca-now.crt" "$WORK/ca-leaf.crt" || return 1
  done
}
check "and valid under the renewed one" valid n1
# trusts HOST FILE: a kubeconfig has the renewed CA
trusts() { lab host root "$1" cat "$2" | sed -n 's/^ *certificate-authority-data: //p' | base64 -d | cmp - "$WORK/ca-now.crt"; }
all_trust() {
  local host path
  for host in n1 n2; do
    for path in admin.conf controller-manager.conf scheduler.conf kubelet.conf; do trusts "$host" "/etc/kubernetes/$path" || return 1; done
    trusts "$host" /root/.kube/config || return 1
  done
}
check "every kubeconfig of the hosts trusts it" all_trust
# config_map NAMESPACE NAME KEY
config_map() { kubectl_on n1 -n "$1" get configmap "$2" -o json | python3 -c 'import json, sys; sys.stdout.write(json.load(sys.stdin)["data"][sys.argv[1]])' "$3"; }
published() {
  config_map default kube-root-ca.crt ca.crt | cmp - "$WORK/ca-now.crt" || return 1
  config_map kube-public cluster-info kubeconfig | sed -n 's/^ *certificate-authority-data: //p' | base64 -d | cmp - "$WORK/ca-now.crt"
}
check "pods and joining nodes are given it" published
of_operator() {
  sed -n 's/^ *certificate-authority-data: //p' "$1" | base64 -d | cmp - "$2" || return 1
  lab host root n1 'umask 077; cat > /run/e2e-kubeconfig' < "$1" &&
    lab host root n1 env KUBECONFIG=/run/e2e-kubeconfig KUBECACHEDIR=/run/e2e-kubectl /usr/local/bin/kubectl get nodes
}
check "the operator's kubeconfig trusts it" of_operator "$WORK/$HOME_NAME/clusters/lab/kubeconfig" "$WORK/ca-now.crt"
check "the one of before still works" of_operator "$WORK/ca-kubeconfig" "$WORK/ca-before.crt"
check "both nodes are Ready after it" fleet_becomes_ready 120
check "every pod runs after it (authorities)" within 120 all_running n1
no_restart() { others | diff "$WORK/ca-pods" -; }
check "no other pod was started again" no_restart
RENEWAL=$(basename "$(last_run)")
check "a second one changes nothing" says 0 "0 steps changed something" certs renew later --within 40d --authorities -y
check "it is rolled back" certs renew later --roll-back "$RENEWAL" -y
as_then() { of_hosts now "${AUTHORITIES[@]}" && cmp "$WORK/ca-before" "$WORK/ca-now"; }
check "the earlier ones are back" as_then
check "both nodes are Ready with them" fleet_becomes_ready 120
check "and renewed again" certs renew later --within 40d --authorities -y
check "every control plane has the same again" alike
lab host root n1 cat /etc/kubernetes/pki/ca.crt > "$WORK/ca-now.crt"

check "a node joins under the renewed CA" of_cluster add-node whole n3
FLEET=(n1 n2 n3)
check "all three are Ready" fleet_becomes_ready 180
check "the new one has the renewed CA" trusts n3 /etc/kubernetes/kubelet.conf
check "a create of all has nothing to do" of_cluster create whole --json

# The same CA with an end that comes: on every host, in every kubeconfig, as if nobody had looked for ten years.
ends_soon() {
  local at host serial=1 ski
  at=$(date -u -d "+${1} seconds" +%Y%m%d%H%M%SZ)
  mkdir -p "$WORK/ca-ends" && cd "$WORK/ca-ends" && rm -f ./*
  lab host root n1 cat /etc/kubernetes/pki/ca.key > ca.key && cp "$WORK/ca-now.crt" ca.crt || return 1
  ski=$(openssl x509 -in ca.crt -noout -ext subjectKeyIdentifier | sed -n 's/^ *\([0-9A-F:]*\)$/\1/p')
  : > index && echo 0$serial > serial
  printf '[ca]\ndefault_ca=d\n[d]\ndatabase=index\nserial=serial\nnew_certs_dir=.\npolicy=p\ndefault_md=sha256\nx509_extensions=v\nunique_subject=no\n[p]\ncommonName=supplied\n[v]\nkeyUsage=critical,digitalSignature,keyEncipherment,keyCertSign\nbasicConstraints=critical,CA:TRUE\nsubjectKeyIdentifier=%s\nsubjectAltName=DNS:kubernetes\n' "$ski" > cnf
  openssl ca -batch -config cnf -selfsign -keyfile ca.key -ss_cert ca.crt -cert ca.crt -startdate 20200101000000Z -enddate "$at" -notext -out short.crt || return 1
  rm ca.key
  for host in "${FLEET[@]}"; do
    lab host root "$host" 'cat > /etc/kubernetes/pki/ca.crt' < short.crt || return 1
    # shellcheck disable=SC2016  # for the host's shell
    lab host root "$host" 'data=$(base64 -w0 /etc/kubernetes/pki/ca.crt); sed -i "s|certificate-authority-data: .*|certificate-authority-data: $data|" /etc/kubernetes/*.conf
      systemctl restart kubelet; pkill -x "kube-(apiserver|controller|scheduler)" || true' || return 1
  done
}
check "the cluster's CA is replaced by one that ends in a minute" ends_soon 60
ended() { says 56 "HAS ENDED" certs check all-later > /dev/null && ! kubectl_on n1 get nodes; }
check "it ends: nobody is let in" within 150 ended
# As every kubelet's would have: none is valid longer than the CA that signs it.
check "and so does the worker's kubelet" kubelet_ends n3 /run/year.yaml
does_not_start() {
  lab host root n3 systemctl start kubelet
  within 60 lab host root n3 'journalctl -u kubelet --since -1min | grep -q "expired\|bootstrap-kubelet.conf"'
}
check "which does not start any more" does_not_start
check "without the option that is refused, with the command that helps" says 53 "certs renew --authorities" certs renew all-later -y
check "it is renewed, with everything under it" certs renew all-later --authorities -y
check "all three are Ready again" fleet_becomes_ready 240
restarted() { kubectl_on n1 -n kube-system rollout restart daemonset/kube-proxy deployment/coredns && kubectl_on n1 -n kube-system rollout status daemonset/kube-proxy --timeout=120s; }
check "pods of the system are restarted as the output says" restarted
check "every pod runs at the end (authorities)" within 180 all_running n1
check "nothing ends tomorrow" says 0 "none has ended" certs check all-later --within 1d
lab host down --all
HOME_NAME=home
