# shellcheck shell=bash
# What scenes need, made or looked for before the first of them: what cannot be had is named once, and only the scenes that need it
# are left out.

# declared SCENE KEY: what the comment at the top of a scene says of it
declared() { sed -n "/^#/!q; s/^# $2: //p" "$ROOT/tests/e2e/scene-$1.sh"; }

# One function for each word of `needs:`. They run in a shell of their own, with set -e.
need_programs() {
  [ -z "${KUBEXM_INSTALL:-}" ] || return 0
  command -v musl-gcc > /dev/null || debian musl-tools
  ! command -v rustup > /dev/null || rustup target add "$TARGET" > /dev/null 2>&1
  (cd "$ROOT" && cargo build --quiet --profile e2e --target "$TARGET" -p kubexm-bundle -p kubexm-install)
}
need_lab() { lab build; }
need_minor() { lab minor build before; }
need_minor-next() { lab minor build next; }
need_balancers() { lab balancers; }
need_calico() { lab calico; }
need_keepalived() { lab keepalived; }
need_cilium() { lab cilium; }
need_harbor() { lab harbor; }
need_minio() { lab minio; }
need_storage() { lab storage; }
need_packages() { lab packages; }
need_age() { command -v age > /dev/null || debian age; }
need_jq() { command -v jq > /dev/null || debian jq; }
need_stock-tools() { command -v zstd > /dev/null && command -v skopeo > /dev/null || debian zstd skopeo; }

debian() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "$@"
}

# prepare CHOSEN: everything that any of them needs, once. What is not there then is in $TOP/lacking, one word a line. Nothing goes
# without the programs and the lab.
prepare() {
  local word words scene
  : > "$TOP/lacking"
  words=$(while read -r _ _ scene; do declared "$scene" needs; done < <(grep '^run ' <<< "$1") | tr ' ' '\n' | sort -u)
  # What the lab's programs are built of is in the cache still when those of `minor` are.
  ! grep -qxE 'minor(-next)?' <<< "$words" || export KEEP_GO=1
  for word in programs lab $(grep -vxE 'programs|lab' <<< "$words"); do
    [ "$(type -t "need_$word")" = function ] || { echo "a scene needs '$word', which tests/e2e/prepare.sh does not know"; exit 1; }
    # Not in a condition, where set -e would not hold within it.
    set +e
    (set -e; "need_$word") > "$TOP/need-$word.log" 2>&1
    local code=$?
    set -e
    [ "$code" != 0 ] || continue
    FAILED=$((FAILED + 1))
    printf 'FAIL  what scenes need is there: %s\n' "$word"
    tail -n 40 "$TOP/need-$word.log" | cut -c 1-2000 | sed 's/^/      /'
    case $word in programs | lab) echo "not run: any scene, since all of them need $word"; exit 1 ;; esac
    echo "$word" >> "$TOP/lacking"
  done
  ! grep -qxE 'minor(-next)?' <<< "$words" || rm -rf "$LAB/go"
}

# scene_lacks SCENE: what it needs and cannot have
scene_lacks() {
  local word
  for word in $(declared "$1" needs); do
    ! grep -qx "$word" "$TOP/lacking" || printf ' %s' "$word"
  done
}
