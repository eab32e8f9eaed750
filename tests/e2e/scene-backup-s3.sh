# shellcheck shell=bash
# tier: long
# seconds: 420
# needs: lab minio
# Backups in S3: a real server (MinIO, over https) takes them, gives them back, and refuses; etcd's data is lost, and comes from there.
. "$ROOT/tests/e2e/fleet.sh"
say "backups in S3"
HOME_NAME=home-backup-s3
FLEET=(n1 n2)
FLEET_ADDRESSES=(n1 10.77.0.11 n2 10.77.0.12)
FLEET_YAML=$WORK/backup-s3.yaml
FLEET_FILE=$WORK/backup-s3.tar.zst
S3=$WORK/s3
rm -rf "$S3" "${WORK:?}/$HOME_NAME"
mkdir -p "$S3/certs" "$S3/data"

# In the network without a way out, at an address of the controller.
S3_AT=10.77.0.1:9443
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=site CA" \
  -keyout "$S3/ca.key" -out "$S3/ca.crt" 2> /dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=s3 -keyout "$S3/certs/private.key" -out "$S3/s3.csr" 2> /dev/null
openssl x509 -req -in "$S3/s3.csr" -CA "$S3/ca.crt" -CAkey "$S3/ca.key" -CAcreateserial -days 2 -out "$S3/certs/public.crt" \
  -extfile <(echo subjectAltName=IP:10.77.0.1) 2> /dev/null
S3_SECRET=$(head -c 18 /dev/urandom | base64)
(umask 077; printf '[default]\naws_access_key_id = lab\naws_secret_access_key = %s\n\n[other]\naws_access_key_id = lab\naws_secret_access_key = wrong-secret-key\n' \
  "$S3_SECRET" > "$S3/keys")
(umask 077; printf 'user = "lab:%s"\n' "$S3_SECRET" > "$S3/curl")
s3_starts() {
  MINIO_ROOT_USER=lab MINIO_ROOT_PASSWORD=$S3_SECRET MINIO_BROWSER=off MINIO_UPDATE=off HOME=$S3 \
    nsenter --net="/run/netns/$LAB_NET" timeout 1800 "$LAB/bin/minio" server --quiet --address "$S3_AT" --certs-dir "$S3/certs" "$S3/data" > "$S3/log" 2>&1 < /dev/null &
  S3_PID=$!
}
# s3 ARGS...: another client's signature
s3() { lab in-net curl -fsS --config "$S3/curl" --aws-sigv4 aws:amz:us-east-1:s3 --cacert "$S3/ca.crt" "$@"; }
bucket() { s3 -X PUT "https://$S3_AT/backups"; }

# The client alone, with a server of its own: 1 GiB in bounded memory, what is refused, a bucket with a lock.
check "the client passes its own tests with this MinIO" env KUBEXM_LAB="$LAB" cargo test --quiet --locked --manifest-path "$ROOT/Cargo.toml" \
  -p kubexm-s3 --features minio --test it minio:: -- --test-threads 1

lab host down --all
fleet_up whole
lab cluster-yaml --control-planes 1 --sudo-password "$SUDO_PASSWORD" "${FLEET_ADDRESSES[@]}" > "$FLEET_YAML"
s3_starts
check "a server of S3 is there, with a bucket" within 60 bucket
check "a bundle is built for a control plane and a worker" fleet_bundle
[ "$HELD" = 1 ] || return 0
check "they become a cluster" fleet_create
[ "$HELD" = 1 ] || return 0
check "objects are made" kubectl_on n1 create configmap kept --from-literal=a=1

S3_OPTIONS=(--s3-endpoint "https://$S3_AT" --s3-credentials "$S3/keys" --s3-ca-file "$S3/ca.crt")
PLACE=s3://backups/sites/lab
# A home and an environment without keys of anybody.
to_s3() { install backup --to "${1:-$PLACE}" -f "$FLEET_YAML" --accept-new-host-keys "${S3_OPTIONS[@]}" "${@:2}"; }

# What is wrong is said before a host is asked for a snapshot.
check "a wrong secret is refused by name" says 43 "computes another signature" to_s3 "$PLACE" --s3-profile other
check "a bucket that is not there" says 42 "has no bucket other-bucket" to_s3 s3://other-bucket/x
check "a certificate that nobody known has signed" says 40 "--s3-ca-file" \
  install backup --to "$PLACE" -f "$FLEET_YAML" --s3-endpoint "https://$S3_AT" --s3-credentials "$S3/keys"
check "http without permission" says 20 "--s3-plain-http" \
  install backup --to "$PLACE" -f "$FLEET_YAML" --s3-endpoint "http://$S3_AT" --s3-credentials "$S3/keys"
check "a secret in the address, which is not repeated" says 2 "no place in the address" to_s3 "s3://lab:secret@backups/x"

check "a backup is made" to_s3
[ "$HELD" = 1 ] || return 0
objects() { s3 "https://$S3_AT/backups?list-type=2" | grep -o '<Key>[^<]*</Key>' | sed 's/<[^>]*>//g'; }
last() { objects | sed -n 's,/backup.json$,,p' | sort | tail -n 1; }
FIRST=s3://backups/$(last)
two_objects() { objects; [ "$(objects | sed 's,.*/,,' | sort | tr '\n' ' ')" = "archive.age backup.json " ]; }
check "it is two objects" two_objects
from_s3() { install "$@" "${S3_OPTIONS[@]}"; }
check "it is whole, and opens here" says 0 "is whole" from_s3 backup verify "$FIRST"
staged() { [ -z "$(find "$WORK/$HOME_NAME/staging" -mindepth 1 -not -name .lock)" ]; }
check "nothing of it stays on the controller" staged
nothing_left() { lab host root n1 '[ ! -e /var/lib/kubexm/snapshots ]'; }
check "nor on a host" nothing_left
no_secret() { ! grep -rqF -e "$S3_SECRET" "$WORK/$HOME_NAME" && ! grep -rqaF "kubernetes.io/service-account-token" "$S3/data"; }
check "no journal has the key, and no object shows anything" no_secret
check "a place without a backup is no backup" says 57 "is no backup" from_s3 backup verify "$PLACE/none"

# Somebody who can write there.
altered() {
  local key=${FIRST#s3://backups/}
  s3 -o "$S3/archive" "https://$S3_AT/backups/$key/archive.age" && printf x | dd of="$S3/archive" bs=1 seek=5000 conv=notrunc 2> /dev/null &&
    s3 -T "$S3/archive" "https://$S3_AT/backups/bad/archive.age" && s3 -o "$S3/header" "https://$S3_AT/backups/$key/backup.json" &&
    s3 -T "$S3/header" "https://$S3_AT/backups/bad/backup.json" || return 1
  says 57 "s3://backups/bad/archive.age is damaged" from_s3 restore s3://backups/bad -f "$FLEET_YAML" --accept-new-host-keys -y
}
check "one that somebody altered is refused" altered

check "more objects are made, after it" kubectl_on n1 create configmap later --from-literal=a=1
lose() { lab host root n1 'rm -rf /var/lib/etcd/member; pkill -KILL -x etcd || true'; ! within 5 kubectl_on n1 get configmap kept; }
check "etcd's data is lost" lose
check "it is restored from there" from_s3 restore "$FIRST" -f "$FLEET_YAML" --accept-new-host-keys -y
check "what was there at the backup is there" within 120 kubectl_on n1 get configmap kept
gone() { ! kubectl_on n1 get configmap later; }
check "what was made since is not" gone
check "every pod runs" within 240 all_running n1

check "with --keep 1 another backup replaces the first" to_s3 "$PLACE" --keep 1
one() { objects; [ "$(objects | grep -c '^sites/lab/.*/backup.json$')" = 1 ] && [ "s3://backups/$(last)" != "$FIRST" ]; }
check "there is one" one
check "and that one is whole" says 0 "is whole" from_s3 backup verify "s3://backups/$(last)"

kill "$S3_PID"
wait "$S3_PID" 2> /dev/null || true
check "a server that does not answer is named" says 40 "does not answer" to_s3
lab host down --all
HOME_NAME=home
