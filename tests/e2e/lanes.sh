# shellcheck shell=bash
# Two lanes of scenes side by side, each with hosts and a network of its own: what one waits for, the other computes.

# scenes_say CHOSEN: for people
scenes_say() {
  local what where scene why
  while read -r what where scene why; do
    case $what in
      run) printf 'run       %s (%s, lane %s, about %s s)\n' "$scene" "$(declared "$scene" tier)" "$where" "$(declared "$scene" seconds)" ;;
      left) printf 'left out  %s: %s %s\n' "$where" "$scene" "$why" ;;
    esac
  done <<< "$1"
}

scenes() {
  local scene from why
  for scene in "$@"; do
    from=$SECONDS
    why=$(scene_lacks "$scene")
    if [ -n "$why" ]; then
      # The cause is counted where it is.
      printf -- '-- not run: %s, which needs:%s\n' "$scene" "$why"
    else
      # What a scene left that ended early is nobody else's.
      lab host down --all
      HOME_NAME=home LIMIT=600
      # shellcheck disable=SC1090  # one file per scene
      . "$ROOT/tests/e2e/scene-$scene.sh"
      printf -- '-- scene %s: %s s\n' "$scene" "$((SECONDS - from))"
    fi
    : > "$TOP/ended-$scene"
  done
}

# reached SCENE FILE...: it has left these, for others to compare with
reached() {
  [ "$#" = 1 ] || cp "${@:2}" "$TOP/"
  : > "$TOP/reached-$1"
}

# comparable SCENE: it has left what to compare with; it may be running in the other lane
comparable() {
  within 1200 test -e "$TOP/reached-$1" -o -e "$TOP/ended-$1" || true
  [ -e "$TOP/reached-$1" ] || { echo "there is nothing to compare with: the scene $1 did not come far enough"; return 1; }
}

# lane NUMBER SCENE...: in a shell of its own; how many checks held is in its folder at the end
lane() {
  trap lane_ends EXIT
  export LAB_NET=$LAB_NET-$1
  WORK=$TOP/$1
  PASSED=0 FAILED=0
  mkdir "$WORK"
  ln -s ../cluster.yaml ../cache ../stick ../delta.tar.zst ../release.pub ../lab.sig "$WORK/"
  # A name of its own: programs of one lane are distinguished from those of the other by their arguments.
  ln "$FILE" "$WORK/"
  FILE=$WORK/$(basename "$FILE")
  lab host down --all
  lab net up
  scenes "${@:2}"
}
lane_ends() {
  local code=$?
  [ -n "${E2E_KEEP:-}" ] || { lab host down --all; lab net down; } > /dev/null 2>&1 || true
  [ "$code" = 0 ] || { FAILED=$((FAILED + 1)); echo "FAIL  the lane itself ended with $code"; }
  echo "$PASSED $FAILED" > "$WORK/counts"
}

# lanes CHOSEN
lanes() {
  local number passed failed
  local numbers
  numbers=$(sed -n 's/^run \([12]\) .*/\1/p' <<< "$1" | sort -u)
  for number in $numbers; do
    # shellcheck disable=SC2046  # names of scenes
    (lane "$number" $(sed -n "s/^run $number //p" <<< "$1")) 2>&1 | sed -u "s/^/$number | /" &
  done
  wait
  for number in $numbers; do
    passed=0 failed=1
    read -r passed failed < "$TOP/$number/counts" || true
    PASSED=$((PASSED + passed)) FAILED=$((FAILED + failed))
  done
}
