# shellcheck shell=bash
# What the whole-program checks share: counting, running both programs, and looking at a host.

PASSED=0
FAILED=0

say() { printf '\n== %s  (%s s)\n' "$*" "$SECONDS"; }

# check NAME CMD...: one fact about the product, counted; its output is shown only when it does not hold, and HELD is 0 then: what
# comes after may not be worth its time
HELD=1
# shellcheck disable=SC2034  # the scenes use HELD
check() {
  local name=$1 out; shift
  if out=$("$@" 2>&1); then
    HELD=1
    PASSED=$((PASSED + 1)); printf 'ok    %s\n' "$name"
  else
    HELD=0
    FAILED=$((FAILED + 1)); printf 'FAIL  %s\n' "$name"
    printf '%s\n' "$out" | tail -40 | cut -c 1-2000 | sed 's/^/      /'
  fi
}

# exits CODE CMD...: the command ends with exactly this exit code
exits() {
  local want=$1 got=0; shift
  "$@" || got=$?
  [ "$got" = "$want" ] || { echo "exit code $got, wanted $want: $*"; return 1; }
}

# says CODE TEXT CMD...: it ends with this exit code, and says this
says() {
  local want=$1 text=$2 out got=0; shift 2
  out=$("$@" 2>&1) || got=$?
  printf '%s\n' "$out"
  [ "$got" = "$want" ] || { echo "exit code $got, wanted $want: $*"; return 1; }
  [[ $out == *"$text"* ]] || { echo "it does not say: $text"; return 1; }
}

lab() { "$ROOT/scripts/lab" "$@"; }

# Snapshots of clusters have the name of the whole run's network in front; lanes add theirs to LAB_NET.
CLUSTERS_OF=$LAB_NET
clusters_forget() { rm -rf --one-file-system "$LAB/run/snapshots/$CLUSTERS_OF"-*; }

# The installer as its user calls it: from inside the network that has no way out. What takes longer than LIMIT seconds hangs:
# it is ended, with 124.
LIMIT=600
install() { lab in-net env KUBEXM_HOME="$WORK/$HOME_NAME" timeout --kill-after=10 "$LIMIT" "$INSTALL" "$@"; }

# Its cache goes where a reboot takes it away: one in root's home would be ours, and still there after a reset.
kubectl_on() {
  local host=$1; shift
  lab host root "$host" env KUBECONFIG=/etc/kubernetes/admin.conf KUBECACHEDIR=/run/e2e-kubectl /usr/local/bin/kubectl "$@"
}

# Every file of the host, one line each: kind, mode, path, and the digest unless the content is random by nature.
tree() { lab host root "$1" sh -s < "$ROOT/tests/e2e/tree.sh"; }

# Every object of the API, without what is random by nature.
objects() { kubectl_on "$1" get -A -o json "$(cat "$ROOT/tests/e2e/kinds")" | python3 "$ROOT/tests/e2e/objects.py"; }

same() { diff -u "$1" "$2"; }
