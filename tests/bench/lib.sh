# shellcheck shell=bash disable=SC2034,SC2031,SC2153
# What the parts of scripts/bench share. Figures go to $WORK/samples.tsv, talk goes to standard error: standard output is the
# report's alone.

HOST=b1
ADDRESS=10.77.0.31
CACHE=$WORK/cache
FILE=$WORK/lab.tar.zst
BUNDLE=$WORK/bin/kubexm-bundle
INSTALL=$WORK/bin/kubexm-install

say() { printf '== %s  (%s s)\n' "$*" "$SECONDS" >&2; }
lab() { "$ROOT/scripts/lab" "$@"; }

# in_lab FUNCTION ARGS...: one of the lab's own functions, in a shell of its own
in_lab() (
  . "$ROOT/tests/lab/lib.sh"
  . "$ROOT/tests/lab/origins.sh"
  . "$ROOT/tests/lab/tools.sh"
  . "$ROOT/tests/lab/smoke.sh"
  "$@"
)

# tools PART...: the Debian packages that they lack, before the first of them runs. GNU time knows the peak memory of what it runs;
# bash's own keyword does not.
tools() {
  local part pair pairs=(/usr/bin/time:time zstd:zstd python3:python3 musl-gcc:musl-tools) missing=()
  for part in "$@"; do
    case $part in
      archive) pairs+=(jq:jq) ;;
      fetch) pairs+=(docker-registry:docker-registry skopeo:skopeo curl:curl) ;;
      seed) pairs+=(docker-registry:docker-registry skopeo:skopeo pkill:procps) ;;
      fan-out) pairs+=(ip:iproute2 tc:iproute2 /usr/sbin/sshd:openssh-server ssh-keygen:openssh-client) ;;
      fleet) pairs+=(ensurepip:python3-venv nft:nftables) ;;
      many-hosts) pairs+=(/usr/sbin/sshd:openssh-server ssh-keygen:openssh-client) ;;
    esac
  done
  for pair in "${pairs[@]}"; do
    case $pair in
      ensurepip:*) python3 -c 'import ensurepip, venv' 2> /dev/null ;;
      *) command -v "${pair%%:*}" > /dev/null ;;
    esac || missing+=("${pair##*:}")
  done
  [ "${#missing[@]}" = 0 ] || in_lab step apt apt_install "${missing[@]}" >&2
}

# origins up|down: upstream for this run alone, from the lab's cache. The lab's own may be taken down by others meanwhile.
origins() {
  local folder
  mkdir -p "$WORK/origins" "$LAB/registry"
  for folder in bin k8s oci oci-balancers origin packages registry; do ln -sfn "$LAB/$folder" "$WORK/origins/$folder"; done
  KUBEXM_LAB=$WORK/origins lab origins "$1" >&2
}

# prepare: a bundle in a filled cache
prepare() {
  origins up
  lab cluster-yaml "$HOST" "$ADDRESS" > "$WORK/cluster.yaml"
  say "the first build, which fills the cache"
  build > "$WORK/first-build.log" 2>&1 || { tail -n 20 "$WORK/first-build.log" >&2; return 1; }
  stat -c %s "$FILE" > "$WORK/bundle.size"
}

build() {
  "$BUNDLE" build -f "$WORK/cluster.yaml" --zone "$WORK/origins/run/zone.yaml" --catalogue "$WORK/origins/run/overlay.yaml" --cache "$CACHE" -o "$FILE"
}

# timed ROUND WHAT CMD...: one sample: seconds by the clock, peak memory of the largest process (kB), seconds of CPU
timed() {
  local round=$1 what=$2
  shift 2
  /usr/bin/time -q -o "$WORK/time" -f '%e\t%M\t%U\t%S' "$@" > "$WORK/out.log" 2>&1 || { tail -n 40 "$WORK/out.log" >&2; echo "bench: $what failed" >&2; return 1; }
  printf '%s\t%s\t%s\n' "$round" "$what" "$(cat "$WORK/time")" >> "$WORK/samples.tsv"
  echo "$what: $(cut -f 1 "$WORK/time") s" >&2
}

# warm FILE...: into the page cache
warm() { cat "$@" > /dev/null; }

# settle FILE: what the last sample left in memory goes to the disk now, not while the next one runs
settle() { sync "$@"; }

finish() {
  local code=$?
  [ -z "${BENCH_KEEP:-}" ] || exit "$code"
  # These use no host and no network of the lab.
  [[ $FLIGHT != @(fetch|fan-out|packages) ]] || { rm -rf "$WORK"; exit "$code"; }
  lab host down --all > /dev/null 2>&1 || true
  in_lab registry_down > /dev/null 2>&1 || true
  lab net down > /dev/null 2>&1 || true
  origins down > /dev/null 2>&1 || true
  rm -rf "$WORK"
  exit "$code"
}

# Runs within in_lab: the registry that by-hand.sh is given, in the network without a way out, filled already.
registry_down() { stop "$NETRUN/registry.pid" "$NETRUN/registry.yml"; }
