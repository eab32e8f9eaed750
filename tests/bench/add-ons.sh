# shellcheck shell=bash disable=SC2016
# Ten charts, each a Deployment of one pod, into a cluster of one host: `addons apply` beside ten `helm install --wait` at once on the
# host, turn by turn; and what the ten cost a create that finds them there.
. "$ROOT/tests/lab/versions.sh"
TEN=(0 1 2 3 4 5 6 7 8 9)

say "ten charts"
lab net up
mkdir -p "$WORK/add-on/templates"
cat > "$WORK/add-on/Chart.yaml" << END
apiVersion: v2
name: add-on
version: 1.0.0
END
cat > "$WORK/add-on/templates/objects.yaml" << END
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data: {name: "{{ .Release.Name }}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  selector: {matchLabels: {app: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}"}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: pause, image: "registry.k8s.io/pause:$LAB_PAUSE"}]
END
cp "$WORK/cluster.yaml" "$WORK/add-ons.yaml"
{
  echo "  addons:"
  for number in "${TEN[@]}"; do echo "  - {name: a$number, type: helm, namespace: a$number, source: {path: add-on}}"; done
} >> "$WORK/add-ons.yaml"
"$BUNDLE" build -f "$WORK/add-ons.yaml" --zone "$WORK/origins/run/zone.yaml" --catalogue "$WORK/origins/run/overlay.yaml" --cache "$CACHE" \
  -o "$WORK/add-ons.tar.zst" > "$WORK/add-ons-build.log" 2>&1 || { tail -n 20 "$WORK/add-ons-build.log" >&2; exit 1; }

# of BUNDLE VERB...: the installer
of() {
  lab in-net env KUBEXM_HOME="$WORK/home" "$INSTALL" "${@:2}" --bundle "$1" --allow-unsigned -y --json --accept-new-host-keys --known-hosts "$WORK/known_hosts"
}
on_host() { lab host root "$HOST" "export HOME=/run/bench-helm KUBECONFIG=/etc/kubernetes/admin.conf PATH=/usr/local/bin:\$PATH; $1"; }
by_hand() {
  on_host 'for number in 0 1 2 3 4 5 6 7 8 9; do helm install "a$number" /run/add-on --namespace "a$number" --create-namespace --wait & done; wait;
    [ "$(helm list -A --no-headers | grep -c deployed)" = 10 ]'
}
without() {
  on_host 'for number in 0 1 2 3 4 5 6 7 8 9; do helm uninstall "a$number" --namespace "a$number" --wait & done; wait; kubectl delete namespace a0 a1 a2 a3 a4 a5 a6 a7 a8 a9'
}
untimed() { "$@" > "$WORK/out.log" 2>&1 || { tail -n 40 "$WORK/out.log" >&2; return 1; }; }
export -f lab of on_host by_hand
export ROOT LAB WORK INSTALL HOST FILE

lab host down --all >&2
lab host up "$HOST" "$ADDRESS" >&2
rm -rf "${WORK:?}/home" "$WORK/known_hosts"
untimed of "$FILE" create
for round in $(seq "$RUNS"); do timed "$round" create-without-add-ons bash -c 'of "$FILE" create'; done
cp -r "$WORK/add-on" "$LAB/run/$LAB_NET/hosts/$HOST/root/root/add-on"
on_host 'cp -r /root/add-on /run/add-on' >&2
# Images and programs are there for both.
untimed of "$WORK/add-ons.tar.zst" create
untimed without
for round in $(seq "$RUNS"); do
  timed "$round" add-ons-by-hand bash -c by_hand
  untimed without
  timed "$round" add-ons bash -c 'of "$WORK/add-ons.tar.zst" addons apply'
  printf '%s\tadd-ons-alone\t%s\t0\t0\t0\n' "$round" "$(python3 "$ROOT/tests/bench/charts-alone.py" "$WORK/out.log")" >> "$WORK/samples.tsv"
  # The first one after a change checks the network of pods once more.
  untimed of "$WORK/add-ons.tar.zst" create
  timed "$round" create-with-add-ons bash -c 'of "$WORK/add-ons.tar.zst" create'
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/out.log" >&2
  untimed without
done
