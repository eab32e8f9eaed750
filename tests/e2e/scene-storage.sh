# shellcheck shell=bash
# tier: long
# seconds: 290
# needs: lab storage
# `spec.storage` on a real host: OpenEBS' stand-in comes into a cluster that has no image of its registry, makes a volume for an add-on of the same run, is
# compared and removed by `addons`, and what volumes hold outlives its removal and a reset. An NFS server that the host cannot mount from is refused before anything is changed.
. "$ROOT/tests/e2e/host.sh"
. "$ROOT/tests/e2e/fleet.sh"
say "storage: volumes of a node, made before the first add-on"
HOME_NAME=home-storage
# shellcheck disable=SC2034  # fleet.sh reads it
FLEET=(n1)
VOLUMES=/srv/volumes

cat > "$WORK/claim.yaml" << 'YAML'
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  selector: {matchLabels: {app: app}}
  strategy: {type: Recreate}
  template:
    metadata: {labels: {app: app}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: app
        image: docker.io/library/busybox:1
        command: [sh, -c, 'echo kept >> /data/file; exec sleep 1000000']
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
YAML

# storage_bundle NAME STORAGE [bare]: with this of spec.storage (nothing if it is empty), and the add-on that wants a volume
storage_bundle() {
  {
    lab cluster-yaml n1 10.77.0.11
    [ -z "$2" ] || echo "  storage: $2"
    [ "${3:-}" = bare ] || echo "  addons:"
    [ "${3:-}" = bare ] || echo "  - {name: app, type: yaml, namespace: demo, source: {path: claim.yaml}}"
  } > "$WORK/storage-$1.yaml"
  "$BUNDLE" build -f "$WORK/storage-$1.yaml" --zone "$LAB_ZONE" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache" -o "$WORK/storage-$1.tar.zst"
}
# storage NAME VERB ARGS...: the installer with that bundle
storage() { install "$2" --bundle "$WORK/storage-$1.tar.zst" --allow-unsigned --accept-new-host-keys "${@:3}"; }
# storage_addons NAME VERB ARGS...
storage_addons() { install addons "$2" --bundle "$WORK/storage-$1.tar.zst" --allow-unsigned --accept-new-host-keys "${@:3}"; }
storage_again() {
  storage "$1" create -y --json > "$WORK/again.jsonl" || { tail -n 3 "$WORK/again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/again.jsonl"
}
# class: the default one, with the folder of cluster.yaml
class() {
  local said
  said=$(kubectl_on n1 get storageclass openebs-hostpath -o yaml)
  echo "$said"
  [[ $said == *"$1"* && $said == *'is-default-class: "true"'* ]]
}
no_class() { [ -z "$(kubectl_on n1 get storageclass -o name)" ]; }
claim_is() { [ "$(kubectl_on n1 -n demo get pvc data -o 'jsonpath={.status.phase}')" = "$1" ]; }
volume() { kubectl_on n1 -n demo get pvc data -o 'jsonpath={.spec.volumeName}'; }
# data VOLUME: what its pod has written
data() { lab host root n1 cat "$VOLUMES/$1/file"; }
no_data() { ! lab host root n1 test -e "$VOLUMES/$1"; }
listed() {
  install addons list -f "$WORK/storage-$1.yaml" --accept-new-host-keys > "$WORK/listed" || return 1
  cat "$WORK/listed"
  grep -qE "$2" "$WORK/listed"
}

# Everybody may write to a volume itself.
closed() {
  [ "$(lab host root n1 stat -c %a:%u "$VOLUMES")" = 700:0 ] && ! lab host root n1 setpriv --reuid 65534 --clear-groups ls "$VOLUMES" > /dev/null 2>&1
}
check "a folder of the system is refused for volumes" says 20 "a folder of the system or of kubexm" storage_bundle bad "{openebs: {basePath: /var/lib/kubelet/pods}}"
check "two default classes are refused" says 20 "two default classes" storage_bundle bad "{openebs: {}, nfs: {server: 10.77.0.1, path: /srv, defaultClass: true}}"
check "a bundle has the provisioner, and the image that only its environment names" storage_bundle one "{openebs: {basePath: $VOLUMES}}"
[ "$HELD" = 1 ] || return 0
check "it has both" says 0 "docker.io/openebs/linux-utils" "$BUNDLE" list "$WORK/storage-one.tar.zst"
check "a bundle with an NFS server is built" storage_bundle nfs "{openebs: {basePath: $VOLUMES}, nfs: {server: 10.77.0.1, path: /srv, mountOptions: [nfsvers=4.1]}}"
check "one without storage" storage_bundle none ""
check "and one without add-ons" storage_bundle bare "" bare
lab host up n1 10.77.0.11
states before
check "a host that mounts no NFS is refused with the package" says 53 "install nfs-common" storage nfs create -y
check "and a server that does not answer with its port" says 53 "to 10.77.0.1 port 2049/tcp" storage nfs create -y
check "nothing was changed" as_before
check "a cluster without volumes and images of docker.io is created" storage bare create -y
[ "$HELD" = 1 ] || return 0
check "volumes are applied to it, and an add-on that waits for one" storage_addons one apply -y
[ "$HELD" = 1 ] || return 0
check "its class is the default, in the folder of cluster.yaml" class "$VOLUMES"
check "the claim without a class is bound" claim_is Bound
FIRST=$(volume)
check "its data is on the host" data "$FIRST"
check "to which nobody but root gets" closed
# shellcheck disable=SC2016  # for the inner shell
check "no helper pod is left" bash -c '[ "$(wc -l)" = 1 ]' < <(kubectl_on n1 -n openebs get pods --no-headers)
# The stamp of the host still names the bundle that it was made of.
check "a create with the bundle that was applied" storage one create -y
check "changes nothing a second time" storage_again one
check "it is listed as kubexm's" listed one "^ *openebs +openebs +helm +localpv-provisioner-4.4.0 .* kubexm +no"
check "a bundle with another folder is the same for the builder" storage_bundle two "{openebs: {basePath: /srv/others, defaultClass: false}}"
# The site's own cluster.yaml with the first bundle.
check "its cluster.yaml is applied with the first bundle" install addons apply openebs --bundle "$WORK/storage-one.tar.zst" -f "$WORK/storage-two.yaml" \
  --allow-unsigned --accept-new-host-keys -y
check "the class is that of cluster.yaml" bash -c 'grep -q /srv/others && ! grep -q is-default' \
  < <(kubectl_on n1 get storageclass openebs-hostpath -o yaml)
check "and the volume is where it was" data "$FIRST"
check "a bundle without storage says what it would remove" says 0 "openebs-hostpath" storage_addons none diff
check "what stays after its removal is said before it" says 0 "volumes, claims and their data stay" storage_addons none apply -y
check "the class is gone" no_class
check "the claim is bound" claim_is Bound
check "and its data is there" data "$FIRST"
check "a second time there is nothing to do" says 0 "nothing to do" storage_addons none apply -y
check "it comes back" storage_addons one apply openebs -y
check "as it was" class "$VOLUMES"
kubectl_on n1 -n demo delete deployment app > /dev/null
kubectl_on n1 -n demo delete pvc data > /dev/null
check "a claim that somebody deletes takes its data along, by a helper pod" within 60 no_data "$FIRST"
check "the next create gives the add-on a new one" storage one create -y
check "which is bound" within 60 claim_is Bound
SECOND=$(volume)
check "with data" within 60 data "$SECOND"
check "a reset says what it keeps" says 0 "spec.storage.openebs.basePath" storage one reset -f "$WORK/storage-one.yaml" -y
check "and keeps it" data "$SECOND"
lab host root n1 rm -rf "$VOLUMES" /srv/others
check "without it the host is as it was before" as_before
check "a cluster with volumes from the beginning is created" storage one create -y
check "and its claim is bound" claim_is Bound
lab host down --all
HOME_NAME=home
