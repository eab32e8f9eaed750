# shellcheck shell=bash
# tier: always
# seconds: 230
# needs: lab
# A chart as an add-on, by the real helm on a real API server: with a hook, a definition and an object of it, a lookup, a volume.
. "$ROOT/tests/e2e/host.sh"
. "$ROOT/tests/e2e/fleet.sh"
say "charts: an add-on is installed, upgraded, mended, and goes back when its hook fails"
HOME_NAME=home-charts
# shellcheck disable=SC2034  # fleet.sh reads it
FLEET=(n1)
cp -r "$ROOT/tests/e2e/chart" "$WORK/chart"

# objects NAME...: YAML with a definition, an object of it before it, and a ConfigMap of each name
objects_of() {
  local name
  cat "$ROOT/tests/e2e/addon.yaml"
  for name in "$@"; do printf -- '---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n' "$name"; done
}
# chart_bundle NAME VALUES CONFIGMAP...: the add-on `web` with these values (none if there are none), and `site` of YAML with these
# ConfigMaps; with $NEXT as another one that waits for it
chart_bundle() {
  objects_of "${@:3}" > "$WORK/objects-$1.yaml"
  {
    lab cluster-yaml n1 10.77.0.11
    echo "  addons:"
    [ -z "$2" ] || echo "  - {name: web, type: helm, namespace: apps, source: {path: chart}, values: $2}"
    echo "  - {name: site, type: yaml, namespace: site, source: {path: objects-$1.yaml},"
    echo "     secrets: [{name: login, dataFrom: {password: {file: $WORK/login}}}]}"
    [ -z "${NEXT:-}" ] || echo "  - $NEXT"
  } > "$WORK/chart-$1.yaml"
  "$BUNDLE" build -f "$WORK/chart-$1.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$WORK/chart-$1.tar.zst"
}
# chart NAME VERB ARGS...: the installer with that bundle
chart() { install "$2" --bundle "$WORK/chart-$1.tar.zst" --allow-unsigned --accept-new-host-keys "${@:3}"; }
# addons NAME VERB ARGS...: a command about the add-ons of that bundle
addons() { install addons "$2" --bundle "$WORK/chart-$1.tar.zst" --allow-unsigned --accept-new-host-keys "${@:3}"; }
# addons_listed ARGS...: what the cluster has, compared with cluster.yaml
addons_listed() {
  install addons list -f "$WORK/chart-two.yaml" --accept-new-host-keys --json > "$WORK/listed.json" || return 1
  python3 "$ROOT/tests/e2e/addons.py" listed "$WORK/listed.json" "$@"
}
# addons_differ NAME WANTED...: what that bundle would change, with exit code 1; no Secret's value is in it
addons_differ() {
  local rc=0
  addons "$1" diff --json --exit-code > "$WORK/diff.json" || rc=$?
  [ "$rc" = 1 ] || { echo "exit code $rc"; cat "$WORK/diff.json"; return 1; }
  ! grep -F "$(base64 < "$WORK/login")" "$WORK/diff.json" || return 1
  python3 "$ROOT/tests/e2e/addons.py" changes "$WORK/diff.json" "${@:2}"
}
# What a run of add-ons does nothing to: since when kubelet and containerd run.
host_units() { lab host root n1 systemctl show -p ActiveEnterTimestamp kubelet containerd kubexm-depot; }
helm_on() { lab host root n1 env HOME=/run/e2e-helm KUBECONFIG=/etc/kubernetes/admin.conf /usr/local/bin/helm "$@"; }
# release REVISION MESSAGE REPLICAS: what helm and the API server say of it
release() {
  local listed said ready
  listed=$(helm_on list -A --no-headers); echo "$listed"
  [[ $listed == web*apps*"$1"*deployed*e2e-1.0.0* ]] || return 1
  said=$(kubectl_on n1 -n apps get configmap web -o 'jsonpath={.data.message}/{.data.api}/{.data.namespace}')
  ready=$(kubectl_on n1 -n apps get deployment web -o 'jsonpath={.status.readyReplicas}'); echo "$said, $ready ready"
  [ "$said" = "$2/true/kube-system" ] && [ "$ready" = "$3" ]
  [ "$(kubectl_on n1 -n apps get thing web -o 'jsonpath={.spec.message}')" = "$2" ]
}
# site CONFIGMAP...: the objects of YAML are there, and of ConfigMaps these alone
site() {
  [ "$(kubectl_on n1 -n site get widget first -o 'jsonpath={.spec.size}')" = 3 ] || return 1
  [ "$(kubectl_on n1 -n site get deployment site -o 'jsonpath={.status.readyReplicas}')" = 1 ] || return 1
  local names; names=$(kubectl_on n1 -n site get configmap -o name | grep -v kube-root-ca | sed 's,.*/,,' | tr '\n' ' '); echo "$names"
  [ "$names" = "$* " ]
}
# login VALUE: the Secret of the add-on has it, and it is in no file of the controller's home or of kubexm's on the host, as it is or in base64
login() {
  local form rc=0
  [ "$(kubectl_on n1 -n site get secret login -o 'jsonpath={.data.password}' | base64 -d)" = "$1" ] || { echo "the Secret has another value"; return 1; }
  for form in "$1" "$(printf %s "$1" | base64)"; do
    ! grep -rlF "$form" "$WORK/$HOME_NAME" || rc=1
    ! lab host root n1 "grep -rlF $form /var/lib/kubexm /etc/kubexm /var/log /tmp /run/kubexm 2>/dev/null; journalctl -q --no-pager | grep -F $form" | grep . || rc=1
  done
  return "$rc"
}
volume_is_bound() { [ "$(kubectl_on n1 -n apps get pvc web -o 'jsonpath={.status.phase}')" = Bound ]; }
chart_again() {
  chart "$1" create -y --json > "$WORK/again.jsonl" || { tail -n 3 "$WORK/again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/again.jsonl"
}
# What looking at the release took, by the run's own log of it.
look_takes() {
  local from to
  from=$(date +%s%N)
  kubectl_on n1 version > /dev/null
  to=$(date +%s%N); echo "one call of kubectl: $(((to - from) / 1000000)) ms"
}
leftovers() { kubectl_on n1 -n apps get jobs,pods --no-headers 2> /dev/null; }

echo hunter2-of-the-shop > "$WORK/login"
check "a bundle with a chart is built, and has the images of its hook" chart_bundle one '{message: one}' both dropped
[ "$HELD" = 1 ] || return 0
sed 's/exclude: \[crictl\]/exclude: [crictl, helm]/' "$WORK/chart-one.yaml" > "$WORK/chart-none.yaml"
check "helm cannot be left out of it" says 20 "helm cannot be left out" \
  "$BUNDLE" build -f "$WORK/chart-none.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$WORK/none.tar.zst"
lab host up n1 10.77.0.11
states before
check "a cluster with a chart is created" chart one create -y
[ "$HELD" = 1 ] || return 0
check "the release is there, with what only a cluster can tell" release 1 one 1
check "its volume is bound" volume_is_bound
check "objects of YAML are there, after their definition and their namespace" site both dropped
check "a Secret has the value that is in no file" login hunter2-of-the-shop
check "a second create changes nothing" chart_again one
look_takes
check "a bundle with other values is built" chart_bundle two '{message: two, replicas: 2}' both
echo hunter3-of-the-shop > "$WORK/login"
check "with it the release is upgraded" chart two create -y
check "and the Secret has the value of now" login hunter3-of-the-shop
check "and is as its values say" release 2 two 2
check "what the YAML no longer has is gone" site both
check "somebody deletes an object of it" kubectl_on n1 -n apps delete configmap web
check "which the next create mends" chart two create -y
check "by an upgrade" release 3 two 2
check "a bundle with a hook that fails is built" chart_bundle bad '{message: three, hookFails: true}' both
check "a hook that fails is named with its log, and the revision before is back" says 70 "the hook says no" chart bad create -y --on-failure keep
check "as helm and the API server say" release 5 two 2
check "nothing of the failed one is left" bash -c '! grep -q check' < <(leftovers)
check "the volume is still there, bound" volume_is_bound
check "a create with the bundle before" chart two create -y
check "changes nothing of the release" release 5 two 2
check "what the cluster has of add-ons is listed, and is as it was installed" addons_listed helm/web=0 yaml/site=0 secrets/site=0
host_units > "$WORK/units-before"
kubectl_on n1 -n apps delete configmap web > /dev/null
check "a deleted object is listed as drifted" addons_listed helm/web=1 yaml/site=0 secrets/site=0
check "which a script can ask" says 58 "v1.ConfigMap.apps.web" install addons list -f "$WORK/chart-two.yaml" --accept-new-host-keys --exit-code
echo 'apiVersion: v1
kind: ConfigMap
metadata: {name: later}
---
apiVersion: e2e.kubexm.io/v1
kind: Widget
metadata: {name: second}
spec: {size: 4}' > "$WORK/later.yaml"
NEXT='{name: later, type: yaml, namespace: site, source: {path: later.yaml}, after: [site]}'
check "a bundle with other add-ons is built" chart_bundle three '{message: three, replicas: 1}' both extra
check "what it would change is shown by object, and nothing else" addons_differ three changed:ConfigMap/web changed:Deployment/web \
  changed:Thing/web installed:ConfigMap/extra installed:ConfigMap/later installed:Widget/second
check "and by field" python3 "$ROOT/tests/e2e/addons.py" field "$WORK/diff.json" Thing/web spec.message two three
check "the add-ons are applied, and a chart with a deleted object is mended" addons three apply -y
check "as they say" release 6 three 1
site_is() { local rc=0; site "$@" || rc=1; [ "$(kubectl_on n1 -n site get widget second -o 'jsonpath={.spec.size}')" = 4 ] || rc=1; return "$rc"; }
check "with what waits for another's definition" site_is both extra later
# shellcheck disable=SC2016  # for the inner shell
check "and nothing of the host was restarted" bash -c 'diff "$1" -' _ "$WORK/units-before" < <(host_units)
check "a second time there is nothing to do" says 0 "nothing to do" addons three apply -y
check "nor anything to show" says 0 "are as cluster.yaml and the bundle have them" addons three diff --exit-code
NEXT='{name: odd, type: yaml, namespace: site, source: {path: odd.yaml}}'
printf 'apiVersion: nobody.example/v1\nkind: Odd\nmetadata: {name: one}\n' > "$WORK/odd.yaml"
check "a bundle with an object that nobody defines is built" chart_bundle odd '{message: four}' both
check "it is refused by name before anything is changed" says 33 "Odd one of nobody.example/v1" addons odd apply -y
check "nothing was" release 6 three 1
NEXT=
check "a bundle without the chart is built" chart_bundle gone '' both
check "what it would remove is shown, with what stays" addons_differ gone removed:ConfigMap/web removed:Deployment/web removed:Thing/web \
  removed:Job/web-check "removed(kept):PersistentVolumeClaim/web" "removed(kept):PersistentVolume/web" removed:ConfigMap/extra \
  removed:ConfigMap/later removed:Widget/second
check "an add-on that cluster.yaml no longer has is removed, and the operator is told" says 0 "add-on web in namespace apps is not in cluster.yaml any more" \
  addons gone apply -y
# shellcheck disable=SC2016  # for the inner shell
check "there is no release any more" bash -c '[ -z "$(cat)" ]' < <(helm_on list -A --all --no-headers)
nothing_of_web() {
  local left try
  # Pods of a hook end after it.
  for try in 1 2 3 4 5 6; do
    left=$(kubectl_on n1 -n apps get deployment,configmap,job,pod -o name | grep -v kube-root-ca); echo "$try: $left"
    [ -n "$left" ] || return 0
    sleep 2
  done
  return 1
}
check "nor anything of it" nothing_of_web
check "but its volume, bound" volume_is_bound
check "what waited for the other is gone, too" site both
# Of a run that has succeeded it has to be named.
# shellcheck disable=SC2012  # names of runs
last_run() { ls "$WORK/$HOME_NAME/clusters/lab/runs" | sort | tail -n 1; }
check "a rollback brings it back" install rollback "$(last_run)" --bundle "$WORK/chart-gone.tar.zst" --allow-unsigned --accept-new-host-keys -y
check "as it was" release 7 three 1
check "with its volume" volume_is_bound
check "and with what was removed of the YAML" site_is both extra later
check "create removes it as well" says 0 "add-on web in namespace apps is not in cluster.yaml any more" chart gone create -y
# shellcheck disable=SC2016  # for the inner shell
check "as apply does" bash -c '[ -z "$(cat)" ]' < <(helm_on list -A --all --no-headers)
check "and once only" chart_again gone
check "it comes again with the bundle before" addons two apply -y
check "as a release of its own, with the volume that was there" release 1 two 2
check "the cluster is reset" chart two reset -f "$WORK/chart-two.yaml" -y
check "and the host is as it was before" as_before
check "a first install that fails" says 70 "nothing of it was left" chart bad create -y --on-failure keep
# shellcheck disable=SC2016  # for the inner shell
check "has left no release" bash -c '[ -z "$(cat)" ]' < <(helm_on list -A --all --no-headers)
check "no definition" bash -c '! grep -q things' < <(kubectl_on n1 get crd --no-headers 2> /dev/null)
check "and is rolled back" chart bad rollback -y
check "to the host as it was before" as_before
lab host down --all
HOME_NAME=home
