# shellcheck shell=bash
# What scenes of registries share: pulls as kubelet does them, requests of a registry by its name, and whether a second create changes
# anything.

# image NAME: the image of that name, in the version of the cluster
image() { lab host root n1 "ctr -n k8s.io images ls -q 2> /dev/null | grep '/kube-proxy:' | head -n 1" | sed "s/kube-proxy/$1/"; }

# cri_pulls HOST IMAGE: kubelet there pulls it for a pod; what it runs does not matter, but images of the lab name no command
cri_pulls() {
  local pod=pull-$RANDOM code=0
  printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default}\nspec: {nodeName: %s, restartPolicy: Never, tolerations: [{operator: Exists}], containers: [{name: a, image: "%s", imagePullPolicy: Always, command: [none]}]}\n' \
    "$pod" "$1" "$2" | kubectl_on n1 apply -f - || return 1
  within 90 has_image "$pod" || { code=1; kubectl_on n1 describe pod "$pod" | tail -n 8; }
  kubectl_on n1 delete pod "$pod" --force --grace-period=0 > /dev/null 2>&1 || return 1
  return "$code"
}
has_image() { kubectl_on n1 get pod "$1" --no-headers -o 'custom-columns=:.status.containerStatuses[0].imageID' | grep -q sha256:; }

# registry_asks NAME ADDRESS PORT CA CURL...: over https, by its name, which only hosts of the cluster know
registry_asks() {
  lab in-net curl --silent --show-error --noproxy '*' --cacert "$4" --resolve "$1:$3:$2" "${@:5}"
}

# knowing NAME ADDRESS CMD...: in the lab's network, with this name in /etc/hosts, for programs that ask for names themselves
knowing() {
  { cat /etc/hosts; echo "$2 $1"; } > "$WORK/hosts"
  # shellcheck disable=SC2016  # for the shell within
  lab in-net unshare --mount sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$WORK/hosts" "${@:3}"
}

# nothing_done CMD...: a create with --json in which no step does anything
nothing_done() {
  "$@" --json > "$WORK/nothing-done.jsonl" || { tail -n 3 "$WORK/nothing-done.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/nothing-done.jsonl"
}
