# shellcheck shell=bash
# tier: long
# seconds: 110
# needs: lab
# compares-with: online
# kill -9 of the installer inside `kubeadm init`, then `resume`: the same end as an uninterrupted run.
. "$ROOT/tests/e2e/host.sh"
say "killed inside kubeadm init, then resumed"
HOME_NAME=home-resume
lab host up n1 10.77.0.11

killed_inside_init() {
  install --bundle "$FILE" --allow-unsigned -y --accept-new-host-keys > "$WORK/killed.log" 2>&1 &
  local pid=$! deadline=$((SECONDS + 240))
  # /proc of the host shows kubeadm itself, not only its unit
  until lab host root n1 pgrep -x kubeadm > /dev/null; do
    kill -0 "$pid" 2> /dev/null || { cat "$WORK/killed.log"; echo "the installer ended before kubeadm began"; return 1; }
    [ "$SECONDS" -lt "$deadline" ] || { cat "$WORK/killed.log"; echo "kubeadm never began"; return 1; }
    sleep 0.2
  done
  pkill -9 -f "^$INSTALL --bundle $FILE" || true
  wait "$pid" || true
}

check "the installer is killed inside kubeadm init" killed_inside_init
check "resume continues to the end" install resume --bundle "$FILE"
check "the node is Ready after resume" ready n1
check "every pod runs after resume" all_running n1
objects n1 > "$WORK/objects-resumed" || true
tree n1 > "$WORK/tree-resumed"
check "the scene online has left what to compare with" comparable online
[ "$HELD" = 1 ] || return 0
check "the API objects are those of an uninterrupted run" same "$TOP/objects-online" "$WORK/objects-resumed"
check "the files are those of an uninterrupted run" same "$TOP/tree-online" "$WORK/tree-resumed"
lab host down --all
HOME_NAME=home
