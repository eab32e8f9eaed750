# shellcheck shell=bash
# How long a client of the API is without an answer when something of the load balancer ends: keepalived and haproxy as kubexm sets them up,
# and the same programs on the same hosts with what a person would write (the values of kubeadm's "Options for Software Load Balancing",
# the units of the distribution). Turn by turn.
VIP=10.77.0.100
VIP_NODES=(b1 10.77.0.31 b2 10.77.0.32)
BALANCERS=(l1 10.77.0.21 l2 10.77.0.22)

say "an address that moves"
lab net up
lab cluster-yaml --control-planes 2 "${VIP_NODES[@]}" "${BALANCERS[@]}" |
  sed "s|roleGroups: .*|roleGroups: {master: [b1, b2], worker: [b1, b2], loadbalancer: [l1, l2]}|; s|bundle: {|bundle: {os: [debian-12], |" > "$WORK/vip.yaml"
echo "  loadBalancer: {mode: external, external: {type: kubexm-kh}, vip: $VIP}" >> "$WORK/vip.yaml"
"$BUNDLE" build -f "$WORK/vip.yaml" --zone "$WORK/origins/run/zone.yaml" --catalogue "$WORK/origins/run/overlay.yaml" --cache "$CACHE" \
  -o "$WORK/vip.tar.zst" > "$WORK/vip-build.log" 2>&1 || { tail -n 20 "$WORK/vip-build.log" >&2; exit 1; }
lab host up "${VIP_NODES[@]}" >&2
lab host up "${BALANCERS[@]}" --bare >&2
rm -rf "${WORK:?}/home" "$WORK/known_hosts"
lab in-net env KUBEXM_HOME="$WORK/home" "$INSTALL" create --bundle "$WORK/vip.tar.zst" -f "$WORK/vip.yaml" -y --accept-new-host-keys \
  --known-hosts "$WORK/known_hosts" > "$WORK/vip.log" 2>&1 || { tail -n 40 "$WORK/vip.log" >&2; exit 1; }

has_it() { lab host root "$1" ip -4 -o address show 2> /dev/null | grep -qF " $VIP/"; }
holder() { local host; for host in l1 l2; do ! has_it "$host" || echo "$host"; done; }
# settled: for some seconds exactly one host has it, and it answers
settled() {
  local good=0 tries=0
  until [ "$good" = 8 ]; do
    [ $((tries += 1)) -le 90 ] || { echo "bench: nobody has the address for good" >&2; return 1; }
    if [ "$(holder | wc -w)" = 1 ] && lab in-net curl -sk -f -m 1 -o /dev/null "https://$VIP:6443/readyz"; then good=$((good + 1)); else good=0; fi
    sleep 1
  done
}
# gap ROUND WHAT CMD...: the longest time without an answer while that happens and 20 s after it
gap() {
  local round=$1 what=$2 job seconds; shift 2
  : > "$WORK/asking"
  lab in-net python3 "$ROOT/tests/bench/outage.py" "https://$VIP:6443/readyz" "$WORK/asking" > "$WORK/gap" & job=$!
  sleep 2
  "$@" >&2
  sleep 20
  rm "$WORK/asking"
  wait "$job"
  seconds=$(cat "$WORK/gap")
  printf '%s\t%s\t%s\t0\t0\t0\n' "$round" "$what" "$seconds" >> "$WORK/samples.tsv"
  echo "$what: $seconds s" >&2
}
address_of() { [ "$1" = l1 ] && echo 10.77.0.21 || echo 10.77.0.22; }
# ends ROUND SUFFIX PROXY-UNIT KEEPALIVED-UNIT: each of the things that may end, and back
ends() {
  local round=$1 suffix=$2 proxy=$3 keepalived=$4 host
  settled
  host=$(holder)
  gap "$round" "vip-proxy$suffix" lab host root "$host" systemctl stop "$proxy"
  lab host root "$host" systemctl start "$proxy" >&2
  settled
  host=$(holder)
  gap "$round" "vip-keepalived$suffix" lab host root "$host" pkill -9 -x keepalived
  lab host root "$host" "systemctl reset-failed $keepalived; systemctl start $keepalived" >&2
  settled
  host=$(holder)
  gap "$round" "vip-host$suffix" lab host crash "$host"
  lab host up "$host" "$(address_of "$host")" --bare >&2
  lab host root "$host" systemctl start "$proxy" "$keepalived" >&2
  settled
}
# A person's files, for the distribution's units.
hand_written() {
  local host state priority
  for host in l1 l2; do
    [ "$host" = l1 ] && state=MASTER priority=101 || state=BACKUP priority=100
    lab host root "$host" bash -s << REMOTE >&2
mkdir -p /etc/haproxy /etc/keepalived
cat > /etc/haproxy/haproxy.cfg << CFG
defaults
    mode tcp
    timeout connect 5s
    timeout client 35s
    timeout server 35s
frontend apiserver
    bind *:6443
    default_backend apiservers
backend apiservers
    option httpchk
    http-check connect ssl
    http-check send meth GET uri /healthz
    http-check expect status 200
    balance roundrobin
    server b1 10.77.0.31:6443 check verify none
    server b2 10.77.0.32:6443 check verify none
CFG
cat > /etc/keepalived/check_apiserver.sh << 'SH'
#!/bin/sh
curl -sfk --max-time 2 https://localhost:6443/healthz -o /dev/null || exit 1
SH
chmod 755 /etc/keepalived/check_apiserver.sh
cat > /etc/keepalived/keepalived.conf << CFG
global_defs {
    enable_script_security
    script_user root
}
vrrp_script check_apiserver {
    script "/etc/keepalived/check_apiserver.sh"
    interval 3
    weight -2
    fall 10
    rise 2
}
vrrp_instance VI_1 {
    state $state
    interface host0
    virtual_router_id 51
    priority $priority
    virtual_ipaddress {
        $VIP
    }
    track_script {
        check_apiserver
    }
}
CFG
REMOTE
  done
}
kubexms() { local host; for host in l1 l2; do lab host root "$host" systemctl "$1" kubexm-haproxy kubexm-keepalived >&2; done; }
theirs() { local host; for host in l1 l2; do lab host root "$host" systemctl "$1" haproxy keepalived >&2; done; }

hand_written
for round in $(seq "$RUNS"); do
  ends "$round" "" kubexm-haproxy kubexm-keepalived
  kubexms disable; kubexms stop
  theirs enable; theirs start
  ends "$round" -by-hand haproxy keepalived
  theirs disable; theirs stop
  kubexms enable; kubexms start
done
