# shellcheck shell=bash
# tier: long
# seconds: 560
# needs: lab
# What a site adds of its own: an audit log that is also sent away, and scripts before and after everything else, on a real
# kube-apiserver and real units. Then the policy is changed, the depot reloaded, and an older bundle refused. With folders of its own for etcd and
# images, a time zone, taints and annotations.
. "$ROOT/tests/e2e/fleet.sh"
say "a site's own policy, receiver and scripts"
HOME_NAME=home-site
# shellcheck disable=SC2034  # fleet.sh reads it
FLEET=(n1)
SITE=$WORK/site
mkdir -p "$SITE"
TOKEN=only-the-receiver-knows-4711
cat > "$SITE/policy.yaml" << 'YAML'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, resources: [{resources: [configmaps]}]}
- {level: None}
YAML
# client-go sends no token where there is no TLS.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=receiver -addext "subjectAltName=IP:10.77.0.1" \
  -keyout "$SITE/receiver.key" -out "$SITE/receiver.crt" 2> /dev/null
(umask 077; cat > "$SITE/receiver.kubeconfig" << YAML
apiVersion: v1
kind: Config
clusters: [{name: receiver, cluster: {server: "https://10.77.0.1:9080/events", certificate-authority-data: $(base64 -w0 "$SITE/receiver.crt")}}]
users: [{name: apiserver, user: {token: $TOKEN}}]
contexts: [{name: receiver, context: {cluster: receiver, user: apiserver}}]
current-context: receiver
YAML
)
# A CA of the site's that its root has signed; the cluster gets the intermediate alone.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3000 -subj /CN=root -keyout "$SITE/root.key" -out "$SITE/root.crt" 2> /dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=clusters of the site" -keyout "$SITE/ca.key" -out "$SITE/ca.csr" 2> /dev/null
openssl x509 -req -in "$SITE/ca.csr" -CA "$SITE/root.crt" -CAkey "$SITE/root.key" -CAcreateserial -days 2000 -out "$SITE/ca.crt" \
  -extfile <(printf 'basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign,cRLSign\n') 2> /dev/null
echo "the site's own words" > "$SITE/words.txt"
# site_yaml LAST: cluster.yaml whose last script ends with these commands
site_yaml() {
  sed "s|^  kubernetes:|&\n    audit: {policyFile: policy.yaml, webhook: {kubeconfigFrom: {file: $SITE/receiver.kubeconfig}}}\
\n    ca: {certFile: ca.crt, keyFrom: {file: $SITE/ca.key}}\
\n    certificateValidityPeriod: 100d\
\n    featureGates: {ContextualLogging: true}\
\n    apiServerArgs: {event-ttl: 2h}\
\n    controllerManagerArgs: {terminated-pod-gc-threshold: '500'}\
\n    schedulerArgs: {profiling: false}|
    s|{name: n1,|& taints: ['site=special:PreferNoSchedule'], annotations: {example.com/owner: 'team a, rack 7'},|
    s|^  etcd: {|&quota: 4Gi, snapshots: {keep: 7}, dataDir: /data/etcd, |" "$WORK/cluster.yaml"
  cat << YAML
  runtime: {dataDir: /data/containerd, extraConfig: {oom_score: -900}}
  system:
    timezone: Asia/Shanghai
    preInstall:
    - name: words of the site
      bash: |
        test ! -e /etc/kubernetes/admin.conf
        cp words.txt /etc/site-words
        date +%s%N > /var/tmp/site-pre
      undo: rm -f /etc/site-words /var/tmp/site-pre
      materials: [words.txt]
    postInstall:
    - name: last words
      timeout: 20
      bash: |
        test -e /etc/kubernetes/admin.conf
        date +%s%N >> /var/tmp/site-post
        $1
      undo: rm -f /var/tmp/site-post
YAML
}
# site_bundle NAME SEQUENCE LAST
site_bundle() {
  site_yaml "$3" > "$SITE/$1.yaml"
  "$BUNDLE" build -f "$SITE/$1.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$SITE/$1.tar.zst" &&
    "$BUNDLE" sign --key "$TOP/release.key" --sequence "$2" "$SITE/$1.tar.zst"
}
site() { install "$1" --bundle "$SITE/$2.tar.zst" --key "$WORK/release.pub" -f "$SITE/$2.yaml" "${@:3}"; }
site_create() { site create "$1" -y --accept-new-host-keys "${@:2}"; }
on_host() { lab host root n1 "$@"; }

check "a bundle carries the policy and the scripts' files" site_bundle newer 7 true
check "so does one that was signed before it" site_bundle older 6 'true # older'
check "and one whose last script never ends" site_bundle endless 5 'sleep 1000'
check "the receiver's kubeconfig is in no bundle" bash -c "! tar --zstd -xOf '$SITE/newer.tar.zst' | grep -qaF $TOKEN"
nsenter --net="/run/netns/$LAB_NET" timeout 1800 "$ROOT/tests/e2e/audit-sink.py" 10.77.0.1:9080 "$SITE/received" "$SITE/receiver.crt" "$SITE/receiver.key" > "$SITE/sink.log" 2>&1 &
SINK=$!
lab host up n1 10.77.0.11
states before
check "a script that does not end is stopped, and all of it is rolled back" \
  says 70 "last words" site_create endless
check "its host is as before, with the scripts undone" as_before
check "a cluster comes up with an audit log, a receiver and scripts" site_create newer
check "every pod runs (site)" within 90 all_running n1
# shellcheck disable=SC2016  # for the host's shell
check "the scripts ran once each, the first before and the last after everything" on_host '
  [ "$(cat /etc/site-words)" = "the site'"'"'s own words" ] && [ "$(wc -l < /var/tmp/site-post)" = 1 ] && [ "$(cat /var/tmp/site-pre)" -lt "$(cat /var/tmp/site-post)" ]'
signed_by_site() {
  local name
  on_host cat /etc/kubernetes/pki/ca.crt | cmp - "$SITE/ca.crt" || return 1
  for name in apiserver apiserver-kubelet-client; do
    on_host cat "/etc/kubernetes/pki/$name.crt" > "$SITE/$name.crt"
    openssl verify -partial_chain -CAfile "$SITE/ca.crt" "$SITE/$name.crt" &&
      openssl x509 -in "$SITE/$name.crt" -noout -checkend $((99 * 86400)) && ! openssl x509 -in "$SITE/$name.crt" -noout -checkend $((101 * 86400)) || return 1
  done
}
check "the cluster's certificates are signed by the site's CA, for as long as cluster.yaml says" signed_by_site
ca_key_hidden() {
  local part found
  part=$(sed -n 2p "$SITE/ca.key")
  found=$(on_host grep -rlsF "$part" /etc /var/lib/kubexm /var/log /run/kubexm /tmp)
  echo "$found"; [ "$found" = /etc/kubernetes/pki/ca.key ] && ! grep -rqF "$part" "$WORK/$HOME_NAME" && [ "$(on_host stat -c %a:%u /etc/kubernetes/pki/ca.key)" = 600:0 ]
}
check "its key is in the one file of the host, and nowhere on the controller" ca_key_hidden
mv "$SITE/ca.key" "$SITE/ca.key.gone"
# flag PROGRAM FLAG: the program runs with it
flag() { on_host "tr '\\0' '\\n' < /proc/\$(pgrep -xo '$1')/cmdline | grep -qxF -- '$2'"; }
all_flags() {
  flag kube-apiserver --event-ttl=2h && flag kube-apiserver --feature-gates=ContextualLogging=true &&
    flag kube-controller --terminated-pod-gc-threshold=500 && flag kube-scheduler --profiling=false &&
    flag etcd --quota-backend-bytes=4294967296 && flag etcd --max-snapshots=7 && flag etcd --data-dir=/data/etcd
}
check "control plane and etcd run with the flags of cluster.yaml" all_flags
check "kubelet and kube-proxy have its feature gates" on_host '
  grep -q "ContextualLogging: true" /var/lib/kubelet/config.yaml &&
    kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system get configmap kube-proxy -o yaml | grep -q "ContextualLogging: true"'
check "the node has its taint" on_host '
  kubectl --kubeconfig /etc/kubernetes/admin.conf get node n1 -o jsonpath="{.spec.taints[*].key}={.spec.taints[*].value}" | grep -qx site=special'
# shellcheck disable=SC2016
check "etcd and containerd have their data in the folders of cluster.yaml alone" on_host '
  test -d /data/etcd/member && ! test -e /var/lib/etcd && test -d /data/containerd/io.containerd.content.v1.content && ! test -e /var/lib/containerd &&
    containerd config dump | grep -qx "oom_score = -900"'
zone() { on_host 'readlink /etc/localtime; cat /etc/timezone'; }
zone_is() { local found; found=$(zone | tr '\n' ' '); echo "$found"; [ "$found" = "$1 $2 " ]; }
check "the host has its time zone" zone_is ../usr/share/zoneinfo/Asia/Shanghai Asia/Shanghai
logged() {
  on_host 'cd /var/log/kubernetes/audit && grep -c "\"resource\":\"configmaps\"" audit.log && ! grep -q "\"resource\":\"pods\"" audit.log'
}
check "the API server writes the log that the policy asks for" within 60 logged
check "the receiver gets events, with its token" within 60 grep -q "^Bearer $TOKEN .*/configmaps" "$SITE/received"
token_hidden() {
  local found
  found=$(on_host grep -rlsF "$TOKEN" /etc /var/lib/kubexm /var/log /run/kubexm /tmp | grep -vx /etc/kubexm/audit/webhook.kubeconfig)
  echo "$found"; [ -z "$found" ] && ! grep -rqF "$TOKEN" "$WORK/$HOME_NAME" &&
    [ "$(on_host stat -c %a:%u /etc/kubexm/audit/webhook.kubeconfig)" = 600:0 ]
}
check "the token is in the one file of the host, and nowhere on the controller" token_hidden
site_changes_nothing() {
  site_create newer --json > "$SITE/again.jsonl" || { tail -n 3 "$SITE/again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$SITE/again.jsonl"
}
check "a second create changes nothing, and runs no script again" site_changes_nothing
# shellcheck disable=SC2016
check "the last script ran once" on_host '[ "$(wc -l < /var/tmp/site-post)" = 1 ]'
# changed SED: the site's cluster.yaml with that change
changed() { sed "$1" "$SITE/newer.yaml" > "$SITE/changed.yaml"; }
create_changed() { install create --bundle "$SITE/newer.tar.zst" --key "$WORK/release.pub" -f "$SITE/changed.yaml" -y --accept-new-host-keys "$@"; }
other_folders_are_refused() {
  changed 's|dataDir: /data/etcd|dataDir: /data/other|' && says 53 "etcd.local.dataDir: /data/etcd -> /data/other" create_changed || return 1
  changed 's|dataDir: /data/containerd|dataDir: /data/other|' && says 53 "whose images and containers are in /data/containerd" create_changed
}
check "other folders of a cluster that runs are refused by name" other_folders_are_refused
no_such_zone() { changed 's|timezone: .*|timezone: Asia/Nowhere|' && says 53 'no time zone "Asia/Nowhere"' create_changed; }
check "so is a time zone that the host does not have" no_such_zone
own_key() { changed 's|oom_score: -900|version: 2|' && says 20 "version: kubexm sets it" create_changed; }
check "and a field of containerd's configuration that is not the site's" own_key
theirs() { on_host 'kubectl --kubeconfig /etc/kubernetes/admin.conf taint node n1 theirs=x:PreferNoSchedule && kubectl --kubeconfig /etc/kubernetes/admin.conf annotate node n1 example.com/theirs=x'; }
taints() { on_host 'kubectl --kubeconfig /etc/kubernetes/admin.conf get node n1 -o jsonpath="{.spec.taints[*].key},{.metadata.annotations.example\.com/owner},{.metadata.annotations.example\.com/theirs}"'; }
ours_go() {
  theirs || return 1
  changed "s|taints: \['site=special:PreferNoSchedule'\], annotations: {example.com/owner: 'team a, rack 7'},||"
  create_changed --json > "$SITE/pruned.jsonl" || { tail -n 3 "$SITE/pruned.jsonl"; return 1; }
  local left; left=$(taints); echo "$left"
  [ "$left" = theirs,,x ] || return 1
  site_create newer > "$SITE/back.log" || { tail -n 3 "$SITE/back.log"; return 1; }
  left=$(taints); echo "$left"
  # In no order of ours.
  case $left in "theirs site,team a, rack 7,x" | "site theirs,team a, rack 7,x") ;; *) return 1 ;; esac
}
check "a taint and an annotation that cluster.yaml no longer has go, those of others stay, and they come back with it" ours_go
# kube-apiserver reads its policy when it starts, and then never again.
# policy RULE: the site's policy from now on; kubexm-install takes the file beside cluster.yaml before the bundle's
policy() {
  printf '%s\n' 'apiVersion: audit.k8s.io/v1' 'kind: Policy' 'omitStages: [RequestReceived]' 'rules:' "- $1" '- {level: None}' > "$SITE/policy.yaml"
}
leases() { policy '{level: Metadata, resources: [{group: coordination.k8s.io, resources: [leases]}]}'; }
policy_restarts_the_api_server() {
  leases
  site_create newer --json > "$SITE/changed.jsonl" || { tail -n 3 "$SITE/changed.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" only-done "$SITE/changed.jsonl" n1/control-plane.audit n1/control-plane.audit-loaded
}
check "a create with another policy writes it, restarts the API server, and does nothing else" policy_restarts_the_api_server
# Components of the control plane renew their leases every two seconds.
only_leases() {
  # shellcheck disable=SC2016  # for the host's shell
  on_host '[ "$(tail -n 20 /var/log/kubernetes/audit/audit.log | grep -c "\"resource\":\"leases\"")" = 20 ]'
}
check "the log is by the new policy" within 90 only_leases
check "the receiver gets what the new policy asks for" within 60 grep -q "^Bearer $TOKEN .*/leases" "$SITE/received"
check "a third create changes nothing" site_changes_nothing
refused_policy() {
  # A level that kubexm-install knows and a stage that kube-apiserver does not: it ends at every start.
  policy '{level: Metadata, omitStages: [Whenever]}'
  says 70 control-plane.audit-loaded site_create newer || return 1
  leases
}
check "a policy that the API server does not start with fails and is rolled back" refused_policy
check "the log is by the policy before it again" within 90 only_leases
check "every pod runs after that (site)" within 240 all_running n1
check "and a create with the policy before it changes nothing" site_changes_nothing
depot_log_has() { on_host journalctl -u kubexm-depot.service -n 20 --no-pager | grep -q "$1"; }
depot_reloads() {
  local before after
  before=$(on_host systemctl show -p MainPID --value kubexm-depot.service)
  on_host systemctl reload kubexm-depot.service || return 1
  after=$(on_host systemctl show -p MainPID --value kubexm-depot.service)
  [ "$before" = "$after" ] && [ "$before" != 0 ] &&
    within 60 depot_log_has reloaded
}
check "the depot is reloaded by its unit and goes on as the same process" depot_reloads
check "an older bundle of the same signer is refused" says 34 "--allow-older" site_create older
check "and nothing was changed by it" site_changes_nothing
check "with --allow-older its plan is made" site plan older create --allow-older --accept-new-host-keys
check "the cluster is reset" site reset newer -y
check "its folders of data are gone" on_host '! test -e /data'
check "the host has the time zone that it had" zone_is /usr/share/zoneinfo/Etc/UTC Etc/UTC
check "the audit log is the operator's and stays" on_host test -s /var/log/kubernetes/audit/audit.log
# A reset can be rolled back, and nobody could bring back what an undo of theirs removed.
check "what the scripts made is theirs and stays" on_host test -s /etc/site-words
kill "$SINK" 2> /dev/null || true
lab host down --all
HOME_NAME=home
