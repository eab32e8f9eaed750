# shellcheck shell=bash
# tier: long
# seconds: 700
# needs: lab packages
# compares-with: fleet
# One install of the three hosts, killed again and again: the controller at journal records drawn by a seed, an agent in the
# middle of a step, the network of a host within `kubeadm init`. Each time resume continues, and no step fails: it would be rolled
# back. The end is that of the install nobody disturbed (the scene `fleet`).
. "$ROOT/tests/e2e/fleet.sh"
. "$ROOT/tests/e2e/kills.sh"
say "one install, killed at every turn (seed $SEED)"
HOME_NAME=home-kills
lab host down --all
fleet_hosts
check "a bundle carries what its hosts lack (kills)" fleet_bundle
[ "$HELD" = 1 ] || return 0
KILLS=${E2E_KILLS:-20}
BEFORE_INIT=$((KILLS * 2 / 5))
: > "$WORK/kills.log"
# one attempt; the longest has 90 s without a network in it
# shellcheck disable=SC2034  # install uses it
LIMIT=240

# killed_at KILL RECORD VERB: an attempt that dies by itself at that record. A drill ends by SIGABRT: 134 to its caller.
killed_at() {
  local kill=$1 record=$2 code=0 from=$SECONDS
  "$3" --drill "die:$record" > "$WORK/attempt.log" 2>&1 || code=$?
  echo "kill $kill at record $record: $((SECONDS - from)) s" >> "$WORK/kills.log"
  [ "$code" = 134 ] || not_so "kill $kill was to come at record $record, but the attempt ended with $code"
}

killed_before_init() {
  local kill record
  for ((kill = 2; kill <= BEFORE_INIT; kill++)); do
    record=$(journal before-init "$SEED" "$kill" "$BEFORE_INIT")
    # how far each attempt comes is chance; those that find no room here come later
    [ -n "$record" ] || break
    killed_at "$kill" "$record" fleet_resume || return 1
    echo "$kill" > "$WORK/killed-before-init"
  done
}

killed_after_init() {
  local kill before of
  before=$(cat "$WORK/killed-before-init") of=$((KILLS - before))
  for ((kill = 1; kill <= of; kill++)); do
    killed_at "$((before + kill))" "$(journal next-kill "$SEED" "$kill" "$of")" fleet_resume || return 1
  done
}

# The agent of a host dies in the middle of a step: another one is started, and does it.
agent_killed() {
  in_background fleet_resume
  until_so 300 journal said stepPrepared n3/store.fill || return 1
  lab host root n3 pkill -9 -x kubexm-install || { end_attempt; not_so "no agent ran on n3"; return 1; }
  until_so 300 journal said stepDone n3/store.fill || return 1
  end_attempt
}

# The host where `kubeadm init` runs is cut off for 90 s; the controller that loses it comes back by itself. Who calls create again in
# place of resume begins a new run, and is no worse off.
network_cut() {
  local step host
  step=$(journal init) host=${step%%/*}
  in_background fleet_create
  until_so 500 lab host root "$host" pgrep -x kubeadm || return 1
  lab net cut "$host" 90
  until_so 400 journal said stepDone "$step" || return 1
  end_attempt
}

check "the controller is killed at its third record" killed_at 1 3 fleet_create
[ "$HELD" = 1 ] || return 0
check "an agent is killed in the middle of a step, and the run continues" agent_killed
[ "$HELD" = 1 ] || return 0
echo 1 > "$WORK/killed-before-init"
check "the controller is killed at records before kubeadm init" killed_before_init
[ "$HELD" = 1 ] || return 0
check "create again: a host is cut off for 90 s within kubeadm init, and the run continues" network_cut
[ "$HELD" = 1 ] || return 0
check "the controller is killed at records afterwards, $KILLS in all" killed_after_init
[ "$HELD" = 1 ] || return 0
check "a last resume comes to the end" fleet_resume
[ "$HELD" = 1 ] || return 0
cat "$WORK/kills.log"
check "every node is Ready after all the kills" fleet_becomes_ready 90
check "every pod runs after all the kills" within 120 all_running n1
check "every static pod is known after all the kills" fleet_objects kills
fleet_trees kills
check "the scene fleet has left what to compare with" comparable fleet
[ "$HELD" = 1 ] || return 0
check "the API objects are those of the install nobody disturbed" same "$TOP/objects-fleet" "$WORK/objects-kills"
check "the files are those of the install nobody disturbed" same_trees "$TOP/tree-fleet" "$WORK/tree-kills"
lab host down --all
# shellcheck disable=SC2034
LIMIT=600
HOME_NAME=home
