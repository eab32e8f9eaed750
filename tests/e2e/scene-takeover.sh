# shellcheck shell=bash
# tier: long
# seconds: 330
# needs: lab
# The machine from which a cluster was made is lost in the middle of a run; another operator goes on from his own, with cluster.yaml and the
# bundle, and nothing else of hers.
. "$ROOT/tests/e2e/network.sh"
say "takeover: an operator's machine is lost, and another one goes on"
FLEET=(n1 n2)
HERS=home-takeover-hers
HIS=home-takeover-his
hers() { HOME_NAME=$HERS; }
his() { HOME_NAME=$HIS; }
his
RECIPIENT=$(install identity | grep -o 'age1[0-9a-z]*' | head -n 1)
check "his machine has a key of its own" test -n "$RECIPIENT"
# operated HOSTS...: cluster.yaml, with him among the operators
operated() { lab cluster-yaml "$@" | sed "s|^spec:|spec:\n  operators: [{name: other, recipient: $RECIPIENT}]|"; }
operated n1 10.77.0.11 n2 10.77.0.12 > "$WORK/taken.yaml"
operated n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13 > "$WORK/taken-more.yaml"
lab host up n1 10.77.0.11 n2 10.77.0.12 n3 10.77.0.13
FLEET=(n1 n2 n3)
states before
FLEET=(n1 n2)
hers
check "a bundle" bundle_of taken
[ "$HELD" = 1 ] || return 0
cp "$WORK/taken.tar.zst" "$WORK/taken-more.tar.zst"
check "a cluster of two hosts comes up from her machine" install_of taken create
[ "$HELD" = 1 ] || return 0
# The worker has joined then, and the record does not name it yet.
killed_after_the_join() {
  local code=0
  install_of taken-more add-node n3 --json --on-failure keep --drill fail:n1/check.pods > "$WORK/taken-killed.jsonl" 2>&1 || code=$?
  [ "$code" != 0 ] || { echo "exit code $code"; return 1; }
  within 60 nodes_ready 3
}
check "her machine is lost after a worker has joined, and before that was recorded" killed_after_the_join
rm -rf "${WORK:?}/$HERS"
his
check "from his machine the cluster is seen" install status -f "$WORK/taken-more.yaml" --accept-new-host-keys
recorded() { kubectl_on n1 -n kube-system get configmap kubexm-cluster -o json | grep -q 'n3'; }
not_recorded() { ! recorded; }
check "the record does not have the worker" not_recorded
check "add-node without names brings it to its end" install_of taken-more add-node
check "the record has it now" recorded
check "all of them are Ready" within 120 nodes_ready 3
check "every pod runs" within 90 all_running n1
check "his create finds nothing to do" nothing_to_do taken-more
fingerprint() { openssl x509 -noout -fingerprint -sha256; }
serves_the_same_ca() {
  local hosts his
  hosts=$(lab host root n1 cat /etc/kubexm/depot/ca.crt | fingerprint) his=$(fingerprint < "$WORK/$HIS/clusters/lab/pki/registry-ca.pem")
  echo "hosts: $hosts; his: $his"
  [ "$hosts" = "$his" ]
}
check "with the CA that the hosts trust, and no other" serves_the_same_ca
FLEET=(n1 n2 n3)
check "a pod on each host is reached, and a service by its name" across_hosts
check "certificates are renewed from his machine" install certs renew --force -f "$WORK/taken-more.yaml" --accept-new-host-keys -y
check "a backup is made from it" install backup -f "$WORK/taken-more.yaml" --accept-new-host-keys --to "$WORK/taken-backup"
check "which opens there" says 0 "is whole" install backup verify "$(find "$WORK/taken-backup" -mindepth 1 -maxdepth 1 -name 'lab-*' | head -n 1)"
check "the worker is deleted from it" install_of taken-more delete-node n3
FLEET=(n3)
check "it is as it was before" as_before
FLEET=(n1 n2)
check "the cluster is reset from it" install_of taken reset
check "every host is as it was before" as_before
lab host down --all
HOME_NAME=home
