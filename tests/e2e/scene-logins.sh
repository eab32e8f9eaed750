# shellcheck shell=bash
# tier: long
# seconds: 420
# needs: lab
# Registries that demand a login. First the cluster's own, depot and distribution, whose password changes meanwhile; then the user's:
# Debian's distribution with TLS and htpasswd, which is seeded below a prefix.
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/registry.sh"
say "logins: the cluster's own registry demands one, and then the user's"
HOME_NAME=home-logins
# shellcheck disable=SC2034  # fleet.sh reads it
FLEET=(n1 n2)
LOGINS=$WORK/logins
OWN=registry.lab.kubexm.internal
SITE=10.77.0.1:8443
FIRST=first-4711-secret
SECOND=second-4711-secret
OF_ROBOT=robot-4711-secret
mkdir -p "$LOGINS"
secret() { (umask 077; printf '%s\n' "$2" > "$LOGINS/$1"); }
secret own "$FIRST"
secret robot wrong-4711-secret
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=site CA" \
  -keyout "$LOGINS/ca.key" -out "$LOGINS/ca.crt" 2> /dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=registry -keyout "$LOGINS/tls.key" 2> /dev/null |
  openssl x509 -req -CA "$LOGINS/ca.crt" -CAkey "$LOGINS/ca.key" -CAcreateserial -days 2 -extfile <(echo subjectAltName=IP:10.77.0.1) \
    -out "$LOGINS/tls.crt" 2> /dev/null
# shellcheck disable=SC2016  # crypt's
python3 -W ignore -c 'import crypt, sys; print("robot:" + crypt.crypt(sys.argv[1], "$2b$08$abcdefghijklmnopqrstuu"))' "$OF_ROBOT" > "$LOGINS/htpasswd"
# registry_of HOSTS... WORDS: cluster.yaml of these hosts with this registry
registry_of() { lab cluster-yaml "${@:1:$#-1}" | sed "s|registry: {type: embedded}|registry: {${*: -1}}|"; }
registry_of n1 10.77.0.11 n2 10.77.0.12 \
  "type: registry, auths: {$OWN: {username: puller, passwordFrom: {file: $LOGINS/own}}}" > "$LOGINS/own.yaml"
registry_of n1 10.77.0.11 "type: external, privateRegistry: \"$SITE/mirror\", caFile: $LOGINS/ca.crt, \
auths: {\"$SITE\": {username: robot, passwordFrom: {file: $LOGINS/robot}}}" > "$LOGINS/site.yaml"

bundle_of() { "$BUNDLE" build -f "$LOGINS/$1.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$LOGINS/$1.tar.zst"; }
# of CLUSTER VERB ARGS...
of() { HOME_NAME=home-$1 install "$2" --bundle "$LOGINS/$1.tar.zst" --allow-unsigned --accept-new-host-keys "${@:3}"; }
again() { nothing_done of "$1" create -y; }
in_lab() { lab in-net "$@"; }
# answers PORT STATUS [PASSWORD]: of the cluster's own registry
answers() {
  local user=() status
  # The password of a test; nobody else is on this machine.
  [ -z "${3:-}" ] || user=(--user "puller:$3")
  status=$(registry_asks "$OWN" 10.77.0.11 "$1" "$LOGINS/own-ca.crt" "${user[@]}" -o /dev/null -w '%{http_code}' "https://$OWN:$1/v2/") || return 1
  [ "$status" = "$2" ] || { echo "port $1 answers $status"; return 1; }
}
demands() { answers 5443 401 && answers 5000 401 && answers 5443 401 "$2" && answers 5000 401 "$2" && answers 5443 200 "$1" && answers 5000 200 "$1"; }
# Files from which the password can be read, and one from which it cannot.
kept_for_root() {
  lab host root n2 "stat -c '%a %n' /etc/kubexm/registry-login /etc/containerd/certs.d/*/hosts.toml" | awk '$1 != 600 { print; bad = 1 } END { exit bad }' &&
    lab host root n1 "grep -q '^puller:[\$]2b[\$]08[\$]' /etc/kubexm/depot/htpasswd /etc/kubexm/registry/htpasswd"
}
# Neither as it is nor as it is sent.
said_nowhere() {
  local text
  for text in "$FIRST" "$SECOND" "$OF_ROBOT" "$(printf %s "puller:$FIRST" | base64)" "$(printf %s "robot:${OF_ROBOT%et}" | base64)"; do
    ! grep -raFl -- "${text%%=*}" "$WORK/home-own" "$WORK/home-site" || { echo "$text is kept"; return 1; }
  done
}
cat > "$LOGINS/config.yml" << YAML
version: 0.1
storage: {filesystem: {rootdirectory: $LOGINS/data}}
auth: {htpasswd: {realm: site, path: $LOGINS/htpasswd}}
http: {addr: "$SITE", tls: {certificate: $LOGINS/tls.crt, key: $LOGINS/tls.key}}
YAML
site_serves() {
  # The time bounds it, should this scene end early.
  in_lab timeout 900 docker-registry serve "$LOGINS/config.yml" > "$LOGINS/registry.log" 2>&1 &
  REGISTRY=$!
  within 60 in_lab curl --silent --noproxy '*' --cacert "$LOGINS/ca.crt" -o /dev/null "https://$SITE/v2/"
}
seeds() {
  HOME_NAME=home-site install seed --bundle "$LOGINS/site.tar.zst" --to "$SITE/mirror" --only images --ca-file "$LOGINS/ca.crt" \
    --username robot --password-from "file:$LOGINS/robot"
}
contents() { (cd "$LOGINS/data" && find . -type f -exec sha256sum {} + | sort); }

lab host up n1 10.77.0.11 n2 10.77.0.12
states before
check "a bundle whose registry demands a login" bundle_of own
check "a cluster comes up whose registry demands a login" of own create -y
[ "$HELD" = 1 ] || return 0
lab host root n1 cat /etc/kubexm/registry-ca.crt > "$LOGINS/own-ca.crt"
check "depot and distribution answer nobody without it" demands "$FIRST" "$SECOND"
check "clients keep it for root, servers as a hash" kept_for_root
# An image of the control plane, which a worker has not.
check "kubelet's runtime pulls with it" cri_pulls n2 "$(image kube-apiserver)"
check "a second create changes nothing" again own
secret own "$SECOND"
check "another password comes to all hosts" of own create -y
check "the new one is demanded, and the old one refused" demands "$SECOND" "$FIRST"
check "kubelet's runtime pulls with the new one" cri_pulls n2 "$(image kube-scheduler)"
check "and then nothing changes again" again own
check "the cluster is reset" of own reset -f "$LOGINS/own.yaml" -y
check "after reset its hosts are as they were before" as_before

check "a bundle for the user's registry" bundle_of site
site_serves
check "a wrong password is named before anything is changed" says 53 "refuses this login" of site create -y
secret robot "$OF_ROBOT"
check "images that are not there are named before anything is changed" says 53 "seed it first" of site create -y
check "they are seeded" seeds
contents > "$LOGINS/before"
check "a cluster comes up from the user's registry" of site create -y
[ "$HELD" = 1 ] || return 0
check "kubelet's runtime pulls from it" cri_pulls n1 "$(image kube-scheduler)"
check "and by its own name" cri_pulls n1 "$SITE/mirror/$(image kube-proxy)"
check "a second create changes nothing (the user's registry)" again site
check "no password is kept on this machine" said_nowhere
check "the cluster is reset (the user's registry)" of site reset -f "$LOGINS/site.yaml" -y
check "after reset the host is as it was before" as_before
contents > "$LOGINS/after"
check "nothing in the user's registry was changed" same "$LOGINS/before" "$LOGINS/after"
kill "$REGISTRY" || true
lab host down --all
HOME_NAME=home
