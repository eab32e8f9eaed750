# shellcheck shell=bash
# What scenes share in which a run is interrupted: an attempt in the background, ended where its journal says so. Wants fleet.sh.

# not_so TEXT: what the attempt said last, and what was wanted
not_so() { tail -n 30 "$WORK/attempt.log"; echo "$*"; return 1; }

# in_background VERB: an attempt that nothing ends by itself; $ATTEMPT is its shell
in_background() {
  "$1" > "$WORK/attempt.log" 2>&1 &
  ATTEMPT=$!
}
# until_so SECONDS CMD...: the attempt is under way until that holds, and no longer than so many seconds
until_so() {
  local deadline=$((SECONDS + $1)) limit=$1; shift
  until "$@" > /dev/null 2>&1; do
    kill -0 "$ATTEMPT" 2> /dev/null || { not_so "the attempt ended before: $*"; return 1; }
    [ "$SECONDS" -lt "$deadline" ] || { end_attempt; not_so "not within $limit s: $*"; return 1; }
    sleep 0.2
  done
}
# end_attempt: kill -9 of the installer of the attempt, wherever it is below its shell
end_attempt() {
  local pid
  for pid in $(below "$ATTEMPT"); do
    # shellcheck disable=SC2015  # a process that has ended meanwhile is what is wanted
    [ "/proc/$pid/exe" -ef "$INSTALL" ] && kill -9 "$pid" || true
  done
  wait "$ATTEMPT" 2> /dev/null || true
}
below() {
  local pid
  for pid in $(pgrep -P "$1"); do echo "$pid"; below "$pid"; done
}
