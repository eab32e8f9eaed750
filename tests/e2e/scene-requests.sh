# shellcheck shell=bash
# tier: long
# seconds: 600
# needs: lab
# The key of the cluster's CA stays with the site: certificates are requested, signed by openssl as the list says, and a cluster of two
# control planes and a worker comes up, grows, and renews what was signed anew. Nobody in it signs anything.
. "$ROOT/tests/e2e/fleet.sh"
say "a CA whose key stays with the site"
HOME_NAME=home-requests
FLEET=(n1 n2 n3)
SITE=$WORK/requests
CERTS=$SITE/certificates
mkdir -p "$SITE/people" "$CERTS"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3000 -subj /CN=root -keyout "$SITE/people/root.key" -out "$SITE/people/root.crt" 2> /dev/null
openssl req -newkey rsa:3072 -nodes -subj "/CN=clusters of the site" -keyout "$SITE/people/ca.key" -out "$SITE/people/ca.csr" 2> /dev/null
openssl x509 -req -in "$SITE/people/ca.csr" -CA "$SITE/people/root.crt" -CAkey "$SITE/people/root.key" -CAcreateserial -days 2000 -out "$SITE/people/ca.crt" \
  -extfile <(printf 'basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign,cRLSign\n') 2> /dev/null
cp "$SITE/people/ca.crt" "$SITE/ca.crt"
# requests_yaml CONTROL-PLANES HOSTS...
requests_yaml() {
  lab cluster-yaml --control-planes "$@" | sed "s|^  kubernetes:|&\n    ca: {certFile: ca.crt, certificatesFolder: $CERTS}|"
}
requests_yaml 1 n1 10.77.0.11 n3 10.77.0.13 > "$SITE/first.yaml"
requests_yaml 2 n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13 > "$SITE/whole.yaml"
check "a bundle carries the CA's certificate" "$BUNDLE" build -f "$SITE/whole.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$SITE/bundle.tar.zst"
lab host up n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13
states before
requests() { install certs requests -f "$SITE/$1.yaml" "${@:2}"; }
by_request() { install "$1" --bundle "$SITE/bundle.tar.zst" -f "$SITE/${2:-first}.yaml" "${@:3}"; }
create() { by_request create "${1:-first}" -y --accept-new-host-keys "${@:2}"; }
# As its people would: with the command of the list, where the key is.
people_sign() {
  local command
  command=$(sed -n 's/^  \(for r in .*\)/\1/p' "$CERTS/requests.txt")
  [ -n "$command" ] || return 1
  (cd "$CERTS" && cp "$SITE/people/ca.key" "$SITE/people/ca.crt" . && bash -ec "$command"; rc=$?; rm -f ca.key ca.crt ca.srl; exit "$rc")
}
check "without certificates nothing is changed" says 53 "n1-apiserver.crt is not there" create
check "requests are made without a host" says 0 "8 requests to be signed by your CA" requests first
same_requests() { sha256sum "$CERTS"/*.csr > "$SITE/sums" && requests first > /dev/null && sha256sum -c --quiet "$SITE/sums"; }
check "a second time they are the same" same_requests
check "the site's people sign them with the command of the list" people_sign
check "all of them are signed" says 0 "all of them are signed" requests first
foreign() {
  openssl x509 -req -in "$CERTS/n1-admin.csr" -CA "$SITE/people/root.crt" -CAkey "$SITE/people/root.key" -days 365 -extfile "$CERTS/n1-admin.ext" -out "$SITE/foreign.crt" 2> /dev/null
  cp "$CERTS/n1-admin.crt" "$SITE/good.crt" && cp "$SITE/foreign.crt" "$CERTS/n1-admin.crt" || return 1
  says 53 "n1-admin.crt: it is not signed by the CA" create || return 1
  cp "$SITE/good.crt" "$CERTS/n1-admin.crt"
}
check "one of another CA is refused by name" foreign
check "the hosts are as before" as_before
check "a cluster comes up" create
FLEET=(n1 n3)
check "both nodes are Ready" fleet_becomes_ready 180
check "every pod runs (requests)" within 120 all_running n1
# of_site HOST PATH: a certificate, or that of a kubeconfig, is the site's
of_site() {
  lab host root "$1" cat "$2" > "$SITE/found"
  case $2 in *.conf) sed -n 's/^ *client-certificate-data: //p' "$SITE/found" | base64 -d > "$SITE/found.crt" ;; *) mv "$SITE/found" "$SITE/found.crt" ;; esac
  openssl verify -partial_chain -CAfile "$SITE/ca.crt" "$SITE/found.crt" > /dev/null || { echo "$1 $2"; return 1; }
}
all_of_site() {
  local host path
  for host in n1 ${1:-}; do
    for path in pki/apiserver.crt pki/apiserver-kubelet-client.crt admin.conf controller-manager.conf scheduler.conf kubelet.conf; do
      of_site "$host" "/etc/kubernetes/$path" || return 1
    done
  done
  of_site n1 /etc/kubernetes/super-admin.conf && of_site n3 /etc/kubernetes/kubelet.conf
}
check "its certificates are the site's" all_of_site
no_ca_key() {
  local host part
  part=$(sed -n 3p "$SITE/people/ca.key")
  for host in n1 n2 n3; do
    ! lab host root "$host" test -e /etc/kubernetes/pki/ca.key || return 1
    ! lab host root "$host" grep -rqsF "$part" /etc /var/lib/kubexm /var/log /run/kubexm /tmp || return 1
  done
  ! grep -rqF "$part" "$WORK/$HOME_NAME"
}
check "the CA's key is on no host, and not on the controller" no_ca_key
# A key of a request is in its home, and in one file of its host.
request_key_hidden() {
  local key part found
  for key in "$WORK/$HOME_NAME"/clusters/lab/requests/*.key; do
    part=$(sed -n 2p "$key")
    found=$(lab host root n1 grep -rlsF "$part" /etc /var/lib/kubexm /var/log /run/kubexm /tmp || true)
    [ "$(wc -l <<< "$found")" -le 1 ] || { echo "$found"; return 1; }
    [ "$(grep -rlF "$part" "$WORK/$HOME_NAME" "$CERTS")" = "$key" ] || return 1
  done
}
check "keys of requests are where they belong" request_key_hidden
# shellcheck disable=SC2016  # for the host's shell
nobody_signs() {
  lab host root n1 'tr "\0" "\n" < /proc/$(pgrep -xo kube-controller)/cmdline | grep -x -- "--cluster-signing-key-file=" &&
    tr "\0" "\n" < /proc/$(pgrep -xo kubelet)/cmdline | grep -qx -- --rotate-certificates=false' &&
    [ -z "$(kubectl_on n1 get csr -o name)" ]
}
check "nobody signs in the cluster, and no kubelet asks" nobody_signs
changes_nothing() {
  create "${1:-first}" --json > "$SITE/again.jsonl" || { tail -n 3 "$SITE/again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$SITE/again.jsonl"
}
check "a second create changes nothing" changes_nothing
check "certificates that end are seen" says 0 "none has ended" install certs check -f "$SITE/first.yaml"
check "a renewal has nothing to do" says 0 "nothing to do" install certs renew -f "$SITE/first.yaml" -y

add() { by_request add-node whole -y --accept-new-host-keys; }
check "a control plane that nobody has signed for is refused" says 53 "n2-apiserver.crt is not there" add
check "its requests are made" says 0 "6 requests to be signed" requests whole --host n2
check "and signed" people_sign
check "it joins" add
FLEET=(n1 n2 n3)
check "all three are Ready" fleet_becomes_ready 180
check "every pod runs with it (requests)" within 120 all_running n1
check "the certificates of both control planes are the site's" all_of_site n2
same_shared() {
  local path
  for path in sa.key front-proxy-ca.key etcd/ca.key; do
    [ "$(lab host root n1 sha256sum "/etc/kubernetes/pki/$path")" = "$(lab host root n2 sha256sum "/etc/kubernetes/pki/$path")" ] || return 1
  done
}
check "they have the same keys of service accounts, front proxy and etcd" same_shared
check "a create of all changes nothing" changes_nothing whole

renew() { install certs renew -f "$SITE/whole.yaml" -y "$@"; }
not_signed() { renew --force; }
check "a renewal of what nobody has signed anew is refused by name" says 53 "n2: /etc/kubernetes/kubelet.conf is due" not_signed
check "everything is requested anew" says 0 "14 requests to be signed" requests whole --force
check "and signed once more" people_sign
end_of() { lab host root "$1" cat "$2" | sed -n 's/^ *client-certificate-data: //p' | base64 -d | openssl x509 -noout -serial; }
SERIAL=$(end_of n3 /etc/kubernetes/kubelet.conf)
check "what was signed anew is taken" renew
renewed() { local now; now=$(end_of n3 /etc/kubernetes/kubelet.conf); echo "$SERIAL $now"; [ -n "$now" ] && [ "$now" != "$SERIAL" ]; }
check "a kubelet has its new certificate" renewed
check "all three are Ready after it" fleet_becomes_ready 180
check "every pod runs after it (requests)" within 180 all_running n1
check "the certificates are the site's still" all_of_site n2
check "and a create of all changes nothing then" changes_nothing whole
check "a control plane leaves" by_request delete-node whole n2 -y
check "the cluster is reset" install reset -f "$SITE/first.yaml" -y
check "the hosts are what they were" as_before
lab host down --all
HOME_NAME=home
