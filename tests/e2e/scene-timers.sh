# shellcheck shell=bash
# tier: long
# seconds: 420
# needs: lab age
# Timers of one control plane: started by hand, they renew certificates that end soon and back up etcd, which is restored from one;
# they go with their fields.
. "$ROOT/tests/e2e/host.sh"
say "timers"
HOME_NAME=home-timers
lab host down --all
lab host up t1 10.77.0.31
# timers_yaml KUBERNETES ETCD
timers_yaml() {
  lab cluster-yaml t1 10.77.0.31 | sed "s|^  kubernetes:|&\n    $1|; s|etcd: {type: kubeadm}|etcd: {type: kubeadm$2}|"
}
TIMERS_YAML=$WORK/timers.yaml
timers_yaml 'autoRenewCerts: true' ', backup: {schedule: "*-*-* 02:00:00", dir: /srv/backups/etcd, keep: 2}' > "$TIMERS_YAML"
timers() { install "$1" --bundle "$FILE" -f "$TIMERS_YAML" --accept-new-host-keys "${@:2}"; }
timers_nothing_done() {
  timers create -y --json > "$WORK/timers-again.jsonl" || { tail -n 3 "$WORK/timers-again.jsonl"; return 1; }
  python3 "$ROOT/tests/e2e/journal.py" nothing-done "$WORK/timers-again.jsonl"
}
check "a cluster with both timers is created" timers create -y
[ "$HELD" = 1 ] || return 0
waits() { lab host root t1 systemctl is-active --quiet "$1" && lab host root t1 systemctl is-enabled --quiet "$1"; }
check "the timer of certificates waits" waits kubexm-certs.timer
check "and that of backups" waits kubexm-etcd-backup.timer
check "a create has nothing to do (timers)" timers_nothing_done

fire() { lab host root t1 systemctl start "$1.service"; }
journal_of() { lab host root t1 journalctl --unit "$1.service" --lines 5 --output cat --no-pager; }
# fails_with UNIT TEXT: its service fails, and says why
fails_with() { ! fire "$1" && journal_of "$1" | tee /dev/stderr | grep -q "$2"; }
# done_with UNIT TEXT
done_with() { fire "$1" && journal_of "$1" | tee /dev/stderr | grep -q "$2"; }
backups() { lab host root t1 'find /srv/backups/etcd -type f | sort'; }
check "a backup lands" done_with kubexm-etcd-backup "etcd was backed up to /srv/backups/etcd/etcd-lab-[0-9a-f]*-t1-"
first=$(backups)
private() { [ "$(lab host root t1 stat -c %a:%U /srv/backups/etcd)" = 700:root ] && [ "$(lab host root t1 stat -c %a "$first")" = 600 ]; }
check "it is root's alone" private
check "etcd's own tool reads it" lab host root t1 etcdutl snapshot status "$first"
twice_more() { sleep 1 && fire kubexm-etcd-backup && sleep 1 && fire kubexm-etcd-backup; }
check "two more are made" twice_more
old_goes() { backups; [ "$(backups | wc -l)" = 2 ] && ! backups | grep -qx "$first"; }
check "and the first is gone" old_goes
lab host root t1 mount -t tmpfs -o mode=700 tmpfs /srv/backups/etcd
check "on a disk of its own a backup lands too" done_with kubexm-etcd-backup "was backed up"
lab host root t1 umount /srv/backups/etcd
check "without that disk none is made" fails_with kubexm-etcd-backup "is not mounted"
check "status says so" says 0 "FAILED" install status -f "$TIMERS_YAML" --accept-new-host-keys
lab host root t1 rm /var/lib/kubexm/timers/kubexm-etcd-backup.json

# The key that opens them is on no host, and age itself reads what the host has written.
recipient=$(install identity)
with_recipient() {
  timers_yaml 'autoRenewCerts: true' \
    ", backup: {schedule: \"*-*-* 02:00:00\", dir: /srv/backups/etcd, keep: 2, recipients: [$recipient]}" > "$TIMERS_YAML"
  timers create -y
}
check "with a recipient" with_recipient
check "a create has nothing to do (recipient)" timers_nothing_done
check "an object is made" kubectl_on t1 create configmap kept --from-literal=a=1
check "an encrypted backup lands" done_with kubexm-etcd-backup "backed up to /srv/backups/etcd/etcd-lab-[0-9a-f]*-t1-[0-9TZ]*\.db\.age "
sealed=$(backups | grep '\.age$')
check "it takes the place of an older one that is not encrypted" old_goes
in_clear() {
  [ "$(lab host root t1 stat -c %a "$sealed")" = 600 ] && [ -z "$(lab host root t1 'ls -A /var/lib/kubexm/snapshots 2> /dev/null')" ]
}
check "nothing of it is left in clear" in_clear
opened() {
  lab host root t1 cat "$sealed" > "$WORK/etcd.db.age" || return 1
  age -d -i "$WORK/$HOME_NAME/identity" -o "$WORK/etcd.db" "$WORK/etcd.db.age" || return 1
  lab host root t1 'cat > /run/etcd.db' < "$WORK/etcd.db" && lab host root t1 etcdutl snapshot status /run/etcd.db || return 1
  lab host root t1 rm /run/etcd.db && rm "$WORK/etcd.db"
}
check "the identity opens it, and etcd's own tool reads it" opened
nobody_else() { age-keygen -o "$WORK/other" 2> /dev/null && exits 1 age -d -i "$WORK/other" -o "$WORK/etcd.db" "$WORK/etcd.db.age"; }
check "another identity does not" nobody_else

SNAPSHOT=$WORK/$(basename "$sealed")
restored() { install restore "$SNAPSHOT" -f "$TIMERS_YAML" --accept-new-host-keys -y "$@"; }
lab host root t1 cat "$sealed" > "$SNAPSHOT"
check "another object is made" kubectl_on t1 create configmap later --from-literal=a=1
check "the cluster is not restored from it unasked: nobody vouches for it" says 57 "allow-unauthenticated" restored
half() { cp "$SNAPSHOT" "$WORK/whole" && truncate -s -2000 "$SNAPSHOT" && says 57 "" restored --allow-unauthenticated && mv "$WORK/whole" "$SNAPSHOT"; }
check "nor from a part of it" half
check "it is restored from it" restored --allow-unauthenticated
check "what was there then is there" within 120 kubectl_on t1 get configmap kept
later_gone() { ! kubectl_on t1 get configmap later; }
check "what was made since is not" later_gone
check "every pod runs after that" within 180 all_running t1

check "no certificate is due" done_with kubexm-certs "no certificate is due"
timers_certs() { install certs check -f "$TIMERS_YAML" --accept-new-host-keys; }
soon() {
  printf 'apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.34.4\ncertificateValidityPeriod: 48h\n' |
    lab host root t1 'cat > /run/short.yaml' && lab host root t1 kubeadm certs renew all --config /run/short.yaml
}
check "certificates end in two days" soon
check "certs check says so" says 56 "SOON" timers_certs
check "the timer's service renews them" done_with kubexm-certs "^renewed: etcd-server"
renewed() { timers_certs | tee /dev/stderr | grep -q "kubexm-certs.timer on t1: .*renewed: etcd-server"; }
check "certs check shows it, and that none ends" renewed
check "none ends" says 0 "none has ended" timers_certs
check "every pod runs (timers)" within 120 all_running t1
no_lease() { [ -z "$(kubectl_on t1 -n kube-system get lease kubexm-certs --ignore-not-found)" ]; }
check "no lease is left" no_lease
check "a create hands the new kubeconfig out" timers create -y
check "and then has nothing to do" timers_nothing_done

held() {
  lab host root t1 'flock /run/kubexm/lock sleep 6' & local job=$! from
  sleep 2
  from=$SECONDS
  fire kubexm-etcd-backup || return 1
  wait "$job"
  [ $((SECONDS - from)) -ge 3 ] || { echo "it did not wait: $((SECONDS - from)) s"; return 1; }
}
check "a service waits for a run that has the host" held

timers_yaml 'maxPods: 110' '' > "$TIMERS_YAML"
check "without the fields" timers create -y
gone() { ! lab host root t1 'ls /etc/systemd/system/kubexm-certs.* /etc/systemd/system/kubexm-etcd-backup.* /etc/kubexm/timers/* /var/lib/systemd/timers/stamp-kubexm-*' 2> /dev/null; }
check "both are gone" gone
check "systemd has forgotten them" exits 4 lab host root t1 systemctl status kubexm-certs.timer
check "the backups are there" old_goes
check "a create has nothing to do without them" timers_nothing_done
check "the cluster is reset" install reset -f "$TIMERS_YAML" --accept-new-host-keys -y
check "the backups are there still" old_goes
lab host down --all
HOME_NAME=home
