# shellcheck shell=bash
# tier: long
# seconds: 480
# needs: lab packages age jq
# starts-from: fleet
# A backup, and an etcd of nobody's that starts with it; the loss of etcd's data on every member, and its restore: the objects of before are
# there again. Then a second restore on the cluster that runs, which is rolled back.
. "$ROOT/tests/e2e/fleet.sh"
say "backup and restore"
HOME_NAME=home-backup
check "the fleet is up again, for its backup" start_from fleet
[ "$HELD" = 1 ] || return 0
write_fleet_yaml with_packages
BACKUPS=$WORK/backups
rm -rf "$BACKUPS"

backup() { install backup --to "$BACKUPS" -f "$FLEET_YAML" --accept-new-host-keys "$@"; }
restore() { install restore "$1" -f "$FLEET_YAML" --accept-new-host-keys "${@:2}"; }
last_backup() { find "$BACKUPS" -mindepth 1 -maxdepth 1 -name 'lab-*' | sort | tail -n 1; }

check "objects are made" kubectl_on n1 create configmap kept --from-literal=a=1
check "a backup is made" backup
first=$(last_backup)
check "it is whole, and opens here" says 0 "is whole" install backup verify "$first"
nothing_left() { lab host root "$1" '[ ! -e /var/lib/kubexm/snapshots ]'; }
check "nothing of it stays on a host" nothing_left n1
not_readable() { ! grep -rqa "kubernetes.io/service-account-token\|BEGIN RSA" "$BACKUPS"; }
check "it shows nothing" not_readable

# An etcd beside the cluster has everything that the backup has: its snapshot is restored, started and asked.
scratch() {
  local data=$WORK/scratch-etcd job found
  rm -rf "$data" "$WORK/etcd.db"
  rm -rf "$WORK/extracted"
  install backup extract "$1" --to "$WORK/extracted" || return 1
  cp "$WORK/extracted/etcd.db" "$WORK/etcd.db" || return 1
  "$LAB/bin/etcdutl" snapshot restore "$WORK/etcd.db" --data-dir "$data" > "$WORK/scratch.log" 2>&1 || { tail "$WORK/scratch.log"; return 1; }
  lab in-net "$LAB/bin/etcd" --data-dir "$data" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 >> "$WORK/scratch.log" 2>&1 & job=$!
  # shellcheck disable=SC2015  # either way it is ended
  within 60 lab in-net "$LAB/bin/etcdctl" endpoint health > /dev/null 2>&1 &&
    found=$(lab in-net "$LAB/bin/etcdctl" get /registry/ --prefix --keys-only | grep -c /registry/) || true
  kept=$(lab in-net "$LAB/bin/etcdctl" get /registry/configmaps/default/kept --keys-only || true)
  pkill -f -- "--data-dir $data" || true
  wait "$job" 2> /dev/null || true
  echo "${found:-no} keys, ${kept:-and not the object}"
  [ "${found:-0}" -gt 100 ] && [[ $kept = */kept* ]]
}
check "an etcd of its own starts with it, and has the objects" scratch "$first"
private() { [ "$(stat -c %a "$WORK/extracted")" = 700 ] && [ "$(stat -c %a "$WORK/extracted/files/etc/kubernetes/pki/ca.key")" = 600 ]; }
check "what was taken out is its user's alone" private
check "and is not overwritten" says 53 "is there already" install backup extract "$first" --to "$WORK/extracted"
# As docs/operations/backup-and-restore.md has it for machines without kubexm-install.
without_us() {
  (umask 077; jq -r .sealed "$first/backup.json" | age -d -i "$WORK/$HOME_NAME/identity" | jq -r .key > "$WORK/archive.key") || return 1
  age -d -i "$WORK/archive.key" "$first/archive.age" | tar x -O etcd.db | cmp - "$WORK/extracted/etcd.db"
}
check "age alone opens it as documented" without_us
rm -rf "$WORK/extracted" "$WORK/archive.key"

# Each kind of bad backup, before any host is changed.
copy_of() { rm -rf "$WORK/bad" && cp -a "$first" "$WORK/bad"; }
cut_off() { copy_of && truncate -s -1 "$WORK/bad/archive.age" && says 57 "was cut off" restore "$WORK/bad" -y; }
altered() { copy_of && printf x | dd of="$WORK/bad/archive.age" bs=1 seek=5000 conv=notrunc 2> /dev/null && says 57 "are not those that were written" restore "$WORK/bad" -y; }
of_another() { copy_of && sed -i 's/"clusterId": ".\{8\}/"clusterId": "00000000/' "$WORK/bad/backup.json" && says 57 "somebody changed it" restore "$WORK/bad" -y; }
for_others() {
  mv "$WORK/$HOME_NAME/identity" "$WORK/identity" || return 1
  local rc=0
  says 57 "and not for the identity of this home" restore "$first" -y || rc=1
  mv "$WORK/identity" "$WORK/$HOME_NAME/identity"
  return "$rc"
}
check "a backup that was cut off is refused" cut_off
check "one that was altered" altered
check "one whose cluster was changed" of_another
check "one that is sealed for others" for_others

check "more objects are made, after it" kubectl_on n1 create configmap later --from-literal=a=1
lose() {
  local host
  for host in n1 n2; do
    lab host root "$host" 'rm -rf /var/lib/etcd/member; pkill -KILL -x etcd || true'
  done
  ! within 5 kubectl_on n1 get configmap kept
}
check "etcd's data is lost on every member" lose
check "it is restored" restore "$first" -y
check "every node is Ready" fleet_becomes_ready 240
check "what was there at the backup is there" within 60 kubectl_on n1 get configmap kept
gone() { ! kubectl_on n1 get configmap later; }
check "what was made since is not" gone
check "every pod runs" within 180 all_running n1
members() { kubectl_on n1 -n kube-system exec etcd-n1 -- etcdctl --cacert /etc/kubernetes/pki/etcd/ca.crt --cert /etc/kubernetes/pki/etcd/server.crt --key /etc/kubernetes/pki/etcd/server.key member list; }
both() { [ "$(members | grep -c started)" = 2 ]; }
check "etcd has both members" both
check "a create has nothing to do" fleet_changes_nothing

check "an object is made after that" kubectl_on n1 create configmap second --from-literal=a=1
check "the same backup is restored once more, while the cluster runs" restore "$first" -y
check "every node is Ready" fleet_becomes_ready 240
is_gone() { ! kubectl_on n1 get configmap second; }
check "that object is not there" is_gone
check "its rollback wants the name of the run" says 2 "name it:" restore "$first" -y --roll-back
check "the second restore is rolled back" restore "$first" -y --roll-back "$(basename "$(last_run)")"
check "every node is Ready once more" fleet_becomes_ready 240
check "what was made before it is there again" within 60 kubectl_on n1 get configmap second
check "etcd has both members after that" both
check "every pod runs after that" within 180 all_running n1
# A create's last check may fail now: what watches the API server has seen later revisions than etcd has (docs/limits/backup-restore.md).

sleep 1
check "with --keep 1 another backup replaces the first" backup --keep 1
one() { [ "$(find "$BACKUPS" -mindepth 1 -maxdepth 1 | wc -l)" = 1 ] && [ ! -e "$first" ]; }
check "there is one" one
lab host down --all
HOME_NAME=home
