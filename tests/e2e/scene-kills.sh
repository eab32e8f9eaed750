# shellcheck shell=bash
# One install of the three hosts, killed again and again: the controller at journal records drawn by a seed, the network of a
# host within kubeadm, an agent. Each time resume goes on; the end is that of the install nobody disturbed (the scene `fleet`).
. "$ROOT/tests/e2e/fleet.sh"
say "one install, killed at every turn (seed $SEED)"
HOME_NAME=home-kills
lab host down --all
fleet_up
KILLS=${E2E_KILLS:-20}
BEFORE_INIT=$((KILLS * 2 / 5))
: > "$WORK/kills.log"

# What was done stays when the network or an agent goes: a rollback is another scene's.
begun() { fleet_create --on-failure keep "$@"; }
gone_on() { fleet_resume --on-failure keep "$@"; }

# attempt VERB...: one attempt, to its end; its exit code is in $CODE
attempt() {
  CODE=0
  "$@" >> "$WORK/kills.log" 2>&1 || CODE=$?
}
# A drill ends by SIGABRT, without a word to anybody: 134 to its caller.
killed() { [ "$CODE" = 134 ] || { tail -n 30 "$WORK/kills.log"; echo "attempt $1 ended with $CODE, and not by its kill"; return 1; }; }

killed_before_init() {
  local kill
  attempt begun --drill die:3
  killed 1 || return 1
  for ((kill = 2; kill <= BEFORE_INIT; kill++)); do
    attempt gone_on --drill "die:$(journal before-init "$SEED" "$kill" "$BEFORE_INIT")"
    killed "$kill" || return 1
  done
}

kubeadm_host() { for host in "${FLEET[@]}"; do lab host root "$host" pgrep -x kubeadm > /dev/null && echo "$host" && return; done; return 1; }

# The host where kubeadm runs is cut off for 90 s, the controller goes on for as long as it likes.
network_cut() {
  local pid host code=0
  gone_on >> "$WORK/kills.log" 2>&1 &
  pid=$!
  until host=$(kubeadm_host); do
    kill -0 "$pid" 2> /dev/null || { tail -n 30 "$WORK/kills.log"; echo "resume ended before kubeadm began"; return 1; }
    sleep 0.2
  done
  lab net cut "$host" 90
  # what the controller makes of it is not ours to say; it must not be further than it can be undisturbed
  kill_controller "$pid"
  wait "$pid" || code=$?
  echo "$host was cut off within kubeadm; the controller ended with $code"
}

# kill_controller PID: the shell function, and the program below it
kill_controller() { pkill -9 -f "^$INSTALL resume --bundle $FILE" || true; kill -9 "$1" 2> /dev/null || true; }

killed_after_init() {
  local kill of=$((KILLS - BEFORE_INIT - 1))
  for ((kill = 1; kill <= of; kill++)); do
    attempt gone_on --drill "die:$(journal next-kill "$SEED" "$kill" "$of")"
    killed "$((BEFORE_INIT + 1 + kill))" || return 1
  done
}

# The agent of a host dies while the controller works with it. It may be started again, or the run fails and is resumed.
agent_killed() {
  local pid
  gone_on >> "$WORK/kills.log" 2>&1 &
  pid=$!
  until lab host root n3 pkill -9 -x kubexm-install; do
    kill -0 "$pid" 2> /dev/null || { echo "resume ended before an agent was seen"; return 1; }
    sleep 0.05
  done
  wait "$pid" || attempt gone_on
  [ "${CODE:-0}" = 0 ] || { tail -n 30 "$WORK/kills.log"; return 1; }
}

check "the controller is killed at $BEFORE_INIT records before kubeadm init" killed_before_init
[ "$HELD" = 1 ] || return 0
check "a host is cut off for 90 s within kubeadm" network_cut
[ "$HELD" = 1 ] || return 0
check "the controller is killed at $((KILLS - BEFORE_INIT - 1)) records afterwards" killed_after_init
[ "$HELD" = 1 ] || return 0
check "an agent is killed, and the run comes to its end" agent_killed
[ "$HELD" = 1 ] || return 0
check "every node is Ready after all the kills" fleet_becomes_ready 90
check "every pod runs after all the kills" within 120 all_running n1
objects n1 > "$WORK/objects-kills" || true
fleet_trees kills
check "the API objects are those of the install nobody disturbed" same "$WORK/objects-fleet" "$WORK/objects-kills"
check "the files are those of the install nobody disturbed" same_trees fleet kills
lab host down --all
HOME_NAME=home
