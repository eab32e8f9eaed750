# shellcheck shell=bash
# tier: always
# seconds: 60
# needs: lab
# What a tired operator gets wrong, each with its own exit code and nothing lost.
say "bad input"
HOME_NAME=home-bad
variant() { sed "$1" "$WORK/cluster.yaml" > "$WORK/$2"; }

variant 's/kubernetes:/kubernetesss:/' unknown-key.yaml
check "an unknown key is named with the nearest one" exits 20 "$BUNDLE" build -f "$WORK/unknown-key.yaml" --dry-run
variant 's/v1.34.4/v1.99.0/' unknown-version.yaml
check "an unknown version is named with the nearest" exits 21 "$BUNDLE" build -f "$WORK/unknown-version.yaml" --dry-run
variant 's|registry: {type: embedded}|registry: {type: embedded, namespaceOverride: mirror}|' later.yaml
check "the builder says what kubexm-install cannot install yet" says 0 'spec.registry.namespaceOverride: "mirror" is known, and not supported yet' \
  "$BUNDLE" build -f "$WORK/later.yaml" --dry-run
sed 's/kubeadm: .*/kubeadm: {versions: {"1.34.4": {amd64: {sha256: 0000000000000000000000000000000000000000000000000000000000000000, size: 74494114}}}, default: "1.34.4"}/' \
  "$LAB_OVERLAY" > "$WORK/wrong-digest.yaml"
check "a digest that does not match is refused, and no file is left" bash -c "
  code=0; '$BUNDLE' build -f '$WORK/cluster.yaml' --zone '$LAB_ZONE' --catalogue '$WORK/wrong-digest.yaml' --cache '$WORK/cache-bad' -o '$WORK/wrong.tar.zst' || code=\$?
  [ \$code = 41 ] && [ ! -e '$WORK/wrong.tar.zst' ]"
sed 's/127.0.0.1:[0-9]*/127.0.0.1:1/' "$LAB_ZONE" > "$WORK/down.yaml"
check "an origin that is down is named" exits 40 "$BUNDLE" build -f "$WORK/cluster.yaml" --zone "$WORK/down.yaml" --catalogue "$LAB_OVERLAY" --cache "$WORK/cache-down" -o "$WORK/down.tar.zst"
rm -rf "$WORK/cache-bad" "$WORK/cache-down"

cp "$FILE" "$WORK/flipped.tar.zst"
# Turned over, not overwritten: whatever stood there, it is another byte now.
python3 - "$WORK/flipped.tar.zst" 200000000 << 'FLIP'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]))
    byte = file.read(1)[0]
    file.seek(-1, 1)
    file.write(bytes([byte ^ 0x55]))
FLIP
check "one flipped byte is found" exits 30 "$BUNDLE" verify "$WORK/flipped.tar.zst"
check "the installer refuses it before it touches a host" exits 30 install --bundle "$WORK/flipped.tar.zst" --allow-unsigned -y
truncate -s 200000000 "$WORK/flipped.tar.zst"
check "a truncated bundle is refused" exits 31 install --bundle "$WORK/flipped.tar.zst" --allow-unsigned -y
rm -f "$WORK/flipped.tar.zst"

check "what is not supported yet is refused before a host is touched" says 22 'spec.registry.namespaceOverride: "mirror" is known, and not supported yet' \
  install --bundle "$FILE" -f "$WORK/later.yaml" -y
check "a host that is not there is named" exits 50 install --bundle "$FILE" --allow-unsigned -y --accept-new-host-keys
lab host up n1 10.77.0.11
check "without a terminal and without -y nothing is changed" exits 11 install --bundle "$FILE" --accept-new-host-keys
check "hosts and secrets of an unsigned bundle want more than -y" says 36 "NOT SIGNED" install --bundle "$FILE" -y --accept-new-host-keys
lab host root n1 'mkdir -p /etc/kubernetes; echo x > /etc/kubernetes/admin.conf'
check "leftovers of another cluster stop it in preflight" exits 53 install --bundle "$FILE" --allow-unsigned -y --accept-new-host-keys
lab host root n1 rm -rf /etc/kubernetes
lab host root n1 systemd-run --quiet --unit squatter busybox nc -l -p 6443
check "a port that is taken is refused, naming who has it" says 53 "6443/tcp in use by busybox (pid " \
  install --bundle "$FILE" --allow-unsigned -y --accept-new-host-keys
# It accepts one connection, which may have been a check of ours, and ends.
lab host root n1 'systemctl stop squatter 2> /dev/null || true'
lab host root n1 'cp /etc/resolv.conf /root/; : > /etc/resolv.conf'
check "an empty resolv.conf is said and stops nothing" says 0 "no name server in /etc/resolv.conf" \
  install preflight --bundle "$FILE" --allow-unsigned --accept-new-host-keys
lab host root n1 cp /root/resolv.conf /etc/resolv.conf
lab host root n1 rm /etc/sudoers.d/operator
check "a user who cannot sudo is named" exits 52 install --bundle "$FILE" --allow-unsigned -y --accept-new-host-keys
lab host down n1
HOME_NAME=home-bare
lab host up n1 10.77.0.11 --bare
check "a host without the programs that kubelet calls is refused, naming them" says 53 "no conntrack" \
  install --bundle "$FILE" --allow-unsigned -y --accept-new-host-keys
lab host down --all
HOME_NAME=home
