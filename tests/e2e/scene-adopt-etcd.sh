# shellcheck shell=bash
# tier: long
# seconds: 420
# needs: lab
# shellcheck disable=SC2016,SC2031,SC2034,SC2153
# A cluster that kubeadm has made over an etcd outside of its control, as KubeKey and kubespray make them: a unit on the control plane,
# certificates in /etc/ssl/etcd/ssl and /etc/kubernetes/ssl. It is looked at, adopted, left and adopted again; its certificates are renewed, it is backed up, and it
# gets the next patch version. Its etcd is never touched.
. "$ROOT/tests/e2e/host.sh"
. "$ROOT/tests/e2e/by-hand.sh"
. "$ROOT/tests/lab/versions.sh"
say "adopt: a cluster of kubeadm's with an etcd of others"
HOME_NAME=home-adopt-etcd
SSL=/etc/ssl/etcd/ssl
PKI=$WORK/adopt-pki
ENDPOINT=https://10.77.0.31:2379
# The cluster as it is, with the next version, and as somebody who knows nothing of its etcd would write it.
OLD_YAML=$WORK/adopt-etcd.yaml
NEXT_YAML=$WORK/adopt-etcd-next.yaml
PLAIN_YAML=$WORK/adopt-etcd-plain.yaml
NEXT_FILE=$WORK/adopt-etcd-next.tar.zst

issue() { # issue NAME EXTENSIONS
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$PKI/$1-key.pem" -out "$PKI/$1.csr" -subj "/CN=etcd-$1" &&
    printf '%s\n' "$2" > "$PKI/$1.ext" &&
    openssl x509 -req -in "$PKI/$1.csr" -CA "$PKI/ca.pem" -CAkey "$PKI/ca-key.pem" -CAcreateserial -days 300 -extfile "$PKI/$1.ext" -out "$PKI/$1.pem"
}
their_certificates() {
  rm -rf "$PKI"; mkdir -p "$PKI"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$PKI/ca-key.pem" -out "$PKI/ca.pem" -subj /CN=etcd-ca -days 3000 || return 1
  issue member-a1 $'subjectAltName=IP:10.77.0.31,IP:127.0.0.1,DNS:a1\nextendedKeyUsage=serverAuth,clientAuth' || return 1
  issue admin-a1 extendedKeyUsage=clientAuth && issue node-a1 extendedKeyUsage=clientAuth || return 1
  cp "$PKI/ca.pem" "$WORK/etcd-ca.pem" && cp "$PKI/node-a1.pem" "$WORK/etcd-client.pem"
}
their_etcd() {
  local file
  lab host root a1 "mkdir -p $SSL /usr/local/bin && cat > /usr/local/bin/etcd && chmod 755 /usr/local/bin/etcd && chmod 700 $SSL" < "$LAB/bin/etcd" || return 1
  for file in ca.pem {member-a1,admin-a1,node-a1}{,-key}.pem; do lab host root a1 "umask 077; cat > $SSL/$file" < "$PKI/$file" || return 1; done
  lab host root a1 bash -s << SH
cat > /etc/etcd.env << 'ENV'
ETCD_NAME=etcd-a1
ETCD_DATA_DIR=/var/lib/etcd
ETCD_LISTEN_CLIENT_URLS=$ENDPOINT,https://127.0.0.1:2379
ETCD_ADVERTISE_CLIENT_URLS=$ENDPOINT
ETCD_LISTEN_PEER_URLS=https://10.77.0.31:2380
ETCD_INITIAL_ADVERTISE_PEER_URLS=https://10.77.0.31:2380
ETCD_INITIAL_CLUSTER=etcd-a1=https://10.77.0.31:2380
ETCD_TRUSTED_CA_FILE=$SSL/ca.pem
ETCD_CERT_FILE=$SSL/member-a1.pem
ETCD_KEY_FILE=$SSL/member-a1-key.pem
ETCD_CLIENT_CERT_AUTH=true
ETCD_PEER_TRUSTED_CA_FILE=$SSL/ca.pem
ETCD_PEER_CERT_FILE=$SSL/member-a1.pem
ETCD_PEER_KEY_FILE=$SSL/member-a1-key.pem
ETCD_PEER_CLIENT_CERT_AUTH=true
ENV
printf '%s\n' '[Unit]' 'After=network.target' '[Service]' 'Type=notify' 'EnvironmentFile=/etc/etcd.env' 'ExecStart=/usr/local/bin/etcd' 'Restart=always' '[Install]' 'WantedBy=multi-user.target' > /etc/systemd/system/etcd.service
systemctl daemon-reload && systemctl enable -q --now etcd
SH
}
# Certificates of the cluster as kubespray has them: kubeadm's folder is a link.
over_their_etcd() {
  local host
  for host in a1 a2; do lab host root "$host" 'mkdir -p /etc/kubernetes/ssl && ln -s /etc/kubernetes/ssl /etc/kubernetes/pki' || return 1; done
  ETCD_OF_KUBEADM="certificatesDir: /etc/kubernetes/ssl
etcd: {external: {endpoints: [\"$ENDPOINT\"], caFile: $SSL/ca.pem, certFile: $SSL/node-a1.pem, keyFile: $SSL/node-a1-key.pem}}" by_hand
}

adopt() { install adopt -f "$OLD_YAML" --accept-new-host-keys "$@"; }
looks() { install adopt --dry-run -f "${YAML:-$OLD_YAML}" --accept-new-host-keys "$@"; }
next_bundle() { "$BUNDLE" build -f "$NEXT_YAML" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$NEXT_FILE"; }
upgrade() { install upgrade --bundle "$NEXT_FILE" -f "$NEXT_YAML" -y --accept-new-host-keys "$@"; }

lab host up "${ADOPTED[@]}"
in_lab smoke_registry > "$WORK/registry.log" 2>&1
check "somebody makes certificates for an etcd" their_certificates
check "and runs it as a unit of the control plane's host" their_etcd
check "a cluster is made over it by hand, with kubeadm" over_their_etcd
[ "$HELD" = 1 ] || { in_lab registry_down || true; return 0; }
in_lab registry_down
kubeadm_config() { kubectl_on a1 -n kube-system get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}'; }
recorded() { kubeadm_config | tee "$WORK/kubeadm-config-before" | grep -q "certFile: $SSL/node-a1.pem" && ! lab host root a1 test -e /etc/kubernetes/manifests/etcd.yaml; }
check "kubeadm has recorded it, and runs none of its own" recorded
etcd_start() { lab host root a1 systemctl show --property=InvocationID --value etcd; }
etcd_start > "$WORK/etcd-start"
etcd_files() { lab host root a1 "stat -c '%a %u:%g %Y %n' $SSL $SSL/* /etc/etcd.env /etc/systemd/system/etcd.service && sha256sum $SSL/*"; }
etcd_files > "$WORK/etcd-files"
trees_of before

lab cluster-yaml "${ADOPTED[@]}" | sed "s/registry: {type: embedded}/registry: {type: none}/" > "$PLAIN_YAML"
YAML=$PLAIN_YAML
check "kubeadm's etcd in cluster.yaml is in the way, with the lines to write" says 53 "write \`etcd: {type: external, externalConfig: {endpoints: [\"$ENDPOINT\"]" looks
YAML=
# The very lines of the finding.
written() {
  install adopt --dry-run -f "$PLAIN_YAML" --json > "$WORK/adopt-plain.json" || true
  python3 - "$WORK/adopt-plain.json" "$PLAIN_YAML" > "$OLD_YAML" << 'PY'
import json, re, sys
[finding] = [one for one in json.load(open(sys.argv[1]))["items"] if one["verdict"] == "inTheWay"]
print(finding, file=sys.stderr)
line = re.search("`(etcd: {.*})`", finding["fix"]).group(1)
text = open(sys.argv[2]).read()
assert "etcd: {type: kubeadm}" in text and "leave roleGroups.etcd out" in finding["fix"]
print(re.sub(r"roleGroups: \{etcd: \[[^\]]*\], ", "roleGroups: {", text.replace("etcd: {type: kubeadm}", line)), end="")
PY
}
check "nothing else is, and these lines are written" written
check "with them nothing is" says 0 " 0 in the way, " looks
sed "s/version: v$LAB_K8S\$/version: v$LAB_K8S_NEXT/" "$OLD_YAML" > "$NEXT_YAML"
check "a bundle of v$LAB_K8S_NEXT is built, without etcd and without a registry" next_bundle
[ "$HELD" = 1 ] || return 0
as_document() {
  looks --bundle "$NEXT_FILE" --json > "$WORK/adoption.json" || return 1
  python3 - "$WORK/adoption.json" << 'PY'
import json, sys
seen = json.load(open(sys.argv[1]))
print(json.dumps(seen, indent=1))
known = {(one.get("host"), one["what"]): one["found"] for one in seen["items"] if one["verdict"] == "known"}
assert seen["exitCode"] == 0
assert known[None, "endpoints of etcd"] == "https://10.77.0.31:2379"
assert known[None, "member of etcd"] == "etcd-a1: healthy"
for what in "etcd of the API server", "prefix in etcd", "files for etcd", "CA of etcd":
    assert ("a1", what) in known, what
PY
}
check "as a document: endpoints, prefix, files, CA and members agree" as_document
YAML=$WORK/adopt-etcd-other.yaml
sed "s,$ENDPOINT,https://10.77.0.32:2379," "$OLD_YAML" > "$YAML"
check "another endpoint in cluster.yaml is in the way" says 53 "write \`endpoints: [\"$ENDPOINT\"]\`" looks
sed "s,keyFrom: {env: ETCD_CLIENT_KEY},&\, prefix: /lab," "$OLD_YAML" > "$YAML"
check "and so is another prefix" says 53 'write `prefix: /registry`' looks
YAML=
check "to look has changed nothing, on no host" same_trees_as before

check "it is adopted" says 0 "cluster lab is adopted: 2 steps changed something" adopt -y
check "only kubexm's own folder and its agent are new" only_stamps
check "the adoption is rolled back" says 0 "not adopted any more" adopt -y --roll-back "$(last_run_of_lab)"
check "every host is as it was" same_trees_as before
check "it is adopted again" says 0 "cluster lab is adopted: 2 steps changed something" adopt -y
ADOPTION=$(last_run_of_lab)
check "a second adoption has nothing to do" says 0 "nothing to do" adopt -y
has_member() {
  install status -f "$OLD_YAML" --json > "$WORK/status.json" || return 1
  python3 - "$WORK/status.json" << 'PY'
import json, sys
facts = json.load(open(sys.argv[1]))["clusters"][0]["facts"]
print(facts["id"], facts["etcd"], facts["gaps"])
assert facts["id"] and [(one["name"], one["healthy"]) for one in facts["etcd"]] == [("etcd-a1", True)]
PY
}
check "status shows its nodes, and the member of its etcd" has_member
has_certificates() {
  install certs check -f "$OLD_YAML" --json > "$WORK/certs.json" || return 1
  python3 - "$WORK/certs.json" "$SSL" << 'PY'
import json, sys
seen = {one["path"] for one in json.load(open(sys.argv[1]))["certificates"] if one["host"] == "a1"}
print(sorted(seen))
assert {f"{sys.argv[2]}/{name}.pem" for name in ("ca", "member-a1", "admin-a1", "node-a1")} <= seen
assert "/etc/kubernetes/pki/apiserver.crt" in seen
PY
}
check "certs check reads kubeadm's certificates, and those of etcd" has_certificates
check "it has a backup" install backup --to "$WORK/backups-adopt-etcd" -f "$OLD_YAML"
in_backup() {
  rm -rf "$WORK/extracted"
  install backup verify "$(find "$WORK"/backups-adopt-etcd -mindepth 1 -maxdepth 1 -name 'lab-*' | tail -n 1)" || return 1
  install backup extract "$(find "$WORK"/backups-adopt-etcd -mindepth 1 -maxdepth 1 -name 'lab-*' | tail -n 1)" --to "$WORK/extracted" || return 1
  find "$WORK/extracted" -type f
  [ -n "$(find "$WORK/extracted" -path "*$SSL/node-a1-key.pem")" ] && [ -n "$(find "$WORK/extracted" -path '*/etc/kubernetes/pki/ca.key')" ]
}
check "which verifies, and has what the API server asks etcd with" in_backup

sums() { lab host root a1 'cd /etc/kubernetes && find . -follow \( -path "./pki/*.crt" -o -name "*.conf" \) | sort | xargs sha256sum'; }
sums > "$WORK/sums-before"
of_plain() { install "$1" "${@:2}" -f "$PLAIN_YAML"; }
check "a renewal by a cluster.yaml with kubeadm's etcd is refused, with what to write" says 22 "write \`etcd: {type: external" of_plain certs renew --force -y
check "and so is a backup" says 22 "write \`etcd: {type: external" of_plain backup --to "$WORK/backups-adopt-etcd"
check "nothing was changed by that" only_stamps
check "the certificates are renewed" says 0 "the certificates of cluster lab are renewed, and in use" install certs renew -f "$OLD_YAML" --force -y
renewed() {
  sums > "$WORK/sums-now"
  diff "$WORK/sums-before" "$WORK/sums-now" | sed -n 's/^> [0-9a-f]*  //p' | sort > "$WORK/renewed"
  printf './%s\n' {admin,super-admin,controller-manager,scheduler}.conf pki/{apiserver,apiserver-kubelet-client,front-proxy-client}.crt | sort > "$WORK/renewed-wanted"
  same "$WORK/renewed-wanted" "$WORK/renewed"
}
check "they are those of kubeadm" renewed
untouched() { etcd_files | same "$WORK/etcd-files" - && etcd_start | same "$WORK/etcd-start" -; }
check "and nothing of etcd, which was not started again" untouched
check "every pod runs" within 120 all_running a1
check "a second renewal has nothing to do" says 0 "nothing to do" install certs renew -f "$OLD_YAML" -y
check "a create is refused by name" says 22 '`kubexm-install create` does not work on adopted clusters' install create --bundle "$NEXT_FILE" -f "$NEXT_YAML" -y

# A kubelet says some seconds late that a static pod was started again, and is Ready.
settled() { sleep 15; kubectl_on a1 -n kube-system wait --for=condition=Ready pods -l tier=control-plane --timeout=5s; }
check "its control plane is Ready with the new certificates" within 120 settled
check "it is upgraded, and no snapshot of its etcd is taken" says 0 "no snapshot is taken" upgrade
kubelets_are() { [ "$(kubectl_on a1 get nodes --no-headers -o custom-columns=:.status.nodeInfo.kubeletVersion | sort -u)" = "v$LAB_K8S_NEXT" ]; }
check "every kubelet has the new version" kubelets_are
pods_are() { [ "$(kubectl_on a1 -n kube-system get pods -l tier=control-plane --no-headers -o 'custom-columns=:.spec.containers[0].image' | sed 's/.*://' | sort -u)" = "v$LAB_K8S_NEXT" ]; }
check "and every static pod" within 60 pods_are
check "every pod runs with it" within 120 all_running a1
check "nothing of etcd is another one, and it was not started again" untouched
no_snapshot() { lab host root a1 '! ls /var/lib/kubexm/snapshots/before-*'; }
check "no snapshot is there" no_snapshot
same_config() {
  kubeadm_config > "$WORK/kubeadm-config-now"
  diff <(grep -v kubernetesVersion "$WORK/kubeadm-config-before") <(grep -v kubernetesVersion "$WORK/kubeadm-config-now") || return 1
  grep -q "kubernetesVersion: v$LAB_K8S_NEXT" "$WORK/kubeadm-config-now"
}
check "kubeadm's configuration has the new version, and the same etcd" same_config
nothing_done() {
  trees_of still-before
  upgrade --json > "$WORK/upgraded-again.jsonl" || { tail -n 3 "$WORK/upgraded-again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/upgraded-again.jsonl"
  same_trees_as still-before
}
check "a second upgrade changes nothing" nothing_done
check "it has a backup of the new version" install backup --to "$WORK/backups-adopt-etcd" -f "$NEXT_YAML"
check "drift compares it with the bundle" exits 58 install drift --bundle "$NEXT_FILE" -f "$NEXT_YAML"
check "the adoption is rolled back, and the new version stays" says 0 "not adopted any more" adopt -y --roll-back "$ADOPTION"
check "nothing of etcd is another one" untouched
lab host down --all
HOME_NAME=home
