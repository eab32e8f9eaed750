# shellcheck shell=bash
# tier: long
# seconds: 600
# needs: lab keepalived
# keepalived and nginx on two hosts that are nothing else, before three control planes: one of these joins, one loses its API server and
# gets it back, the holder of the address loses its nginx, its keepalived, its API servers. A client asks through the address all the time.
say "keepalived and nginx on hosts of their own"
HOME_NAME=home-vip-nginx
KIND=kubexm-kn PROXY=nginx
. "$ROOT/tests/e2e/vip.sh"
vip_files
check "a bundle has keepalived and nginx" vip_bundle
[ "$HELD" = 1 ] || return 0
check "as packages of the distribution" carried keepalived nginx libnginx-mod-stream
vip_hosts

say "what is refused before any change"
lab host root l1 'cp /bin/sleep /run/nginx && systemd-run --unit theirs /run/nginx 600'
check "a host with an nginx of its own that runs" says 53 "nginx running" vip vip-2 create
lab host root l1 'systemctl stop theirs; rm /run/nginx'
untouched() { ! lab host root l1 'ls -d /etc/kubexm /usr/sbin/nginx 2> /dev/null | grep .'; }
check "nothing was changed for that" untouched

vip_comes_up || return 0
# back_ends HOST: those that get connections
back_ends() { lab host root "$1" "sed -n '/ backup;/d; s/^ *server \([0-9.]*\):6443 .*/\1/p' /run/nginx-kubexm/upstream.conf | sort -u | tr '\n' ' '"; }
check "both know that both are ready" within 60 back_ends_are "10.77.0.11 10.77.0.12"
PROCESSES=$(processes)
check "a control plane is added, and the client sees nothing of it" during join 2 vip vip-3 add-node
check "it is a back-end on both" within 60 back_ends_are "10.77.0.11 10.77.0.12 10.77.0.13"
check "no process was started anew for that" same_processes
check "a further create changes nothing" vip_nothing_to_do vip-3

say "what a control plane loses"
api_down() { lab host root "$1" 'mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/ && while pgrep -x kube-apiserver > /dev/null; do sleep 0.2; done'; }
api_up() { lab host root "$1" 'mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/'; }
check "its API server, while its host lives" during server 8 api_down n2
check "it is a back-end on neither" back_ends_are "10.77.0.11 10.77.0.13"
last_resort() { lab host root "$1" "grep ' backup;' /run/nginx-kubexm/upstream.conf" | grep -F 10.77.0.12:6443; }
check "but is there for when no other one accepts" last_resort l1
check "its API server is back" during server-back 2 api_up n2
check "and a back-end again" within 120 back_ends_are "10.77.0.11 10.77.0.12 10.77.0.13"
check "the worker asks through the address still" within 60 through
check "nginx is the same process" same_processes
# The pods' own status follows later.
check "a create changes nothing then, either" within 60 vip_nothing_to_do vip-3

say "what the holder loses"
loses_programs
loses_the_api
HOLDER=$(holder)
check "what asks the API servers is killed, and goes on" during checker 5 lose "$HOLDER" 'systemctl kill -s KILL kubexm-nginx-check'
check "it runs" within 60 lab host root "$HOLDER" systemctl is-active kubexm-nginx-check
check "the address stays" holds "$HOLDER"
check "what asks them is stopped for good, and the other host has the address" during unasked 8 lose "$HOLDER" 'systemctl stop kubexm-nginx-check'
check "for it learns nothing any more" within 60 holds "$(other "$HOLDER")"
lose "$HOLDER" 'systemctl start kubexm-nginx-check'
HOLDER=$(holder)
check "its host is switched off" during off 6 lab host stop "$HOLDER"
check "the host is back" lab host up "$HOLDER" "$([ "$HOLDER" = l1 ] && echo 10.77.0.21 || echo 10.77.0.22)"
check "exactly one has the address" within 60 one_holder
check "its nginx knows the control planes again" within 60 back_ends_are "10.77.0.11 10.77.0.12 10.77.0.13"
cat "$WORK/vip-figures"

say "fewer control planes, and none"
PROCESSES=$(processes)
check "a control plane leaves, and the client sees nothing of it" during leave 2 vip vip-3 delete-node n3
check "it is a back-end of nobody" within 60 back_ends_are "10.77.0.11 10.77.0.12"
check "no process was started anew for that, either" same_processes
check "the cluster is reset" vip vip-3 reset
check "every host is as it was before" as_before
lab host down --all
HOME_NAME=home
