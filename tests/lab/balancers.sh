# shellcheck shell=bash
# Images of haproxy and nginx under upstream's names, of Debian's packages: only for scenes that run them, since no other cluster
# needs them. $BALANCERS/images.tsv lists reference and index digest, as $OCI/images.tsv does.

# Tags that the catalogue asks for; the programs are Debian's.
LAB_HAPROXY=3.2.22-alpine
LAB_NGINX=1.30.4-alpine

lab_balancers() {
  local want
  [ -d "$BASE/etc" ] || die "nothing is built yet: scripts/lab build"
  need_root "lab balancers"
  lock
  want=$(sha256sum "$HERE/balancers.sh" "$HERE/mkimg.py")
  [ "$(cat "$BALANCERS/stamp" 2> /dev/null)" != "$want" ] || return 0
  rm -rf --one-file-system "$BALANCERS" "$BALANCERS.tmp"
  mkdir -p "$BALANCERS.tmp"
  step balancers balancer_images
  echo "$want" > "$BALANCERS.tmp/stamp"
  mv "$BALANCERS.tmp" "$BALANCERS"
}

# balancer_packages FOLDER ROOT: what these need in addition to a host's packages, unpacked over ROOT; nothing of them is configured
balancer_packages() {
  local deb
  mkdir -p "$1/partial"
  apt-get update -qq
  apt-get install -qq -y --no-install-recommends --download-only \
    -o Dir::State::status="$BASE/var/lib/dpkg/status" -o Dir::Cache::archives="$1" haproxy nginx libnginx-mod-stream
  # `dpkg-deb -x` would put a folder in the place of the link /lib.
  for deb in "$1"/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$2"; done
}

balancer_images() {
  local work root l tools=()
  work=$(mktemp -d "$LAB/tmp.XXXXXX")
  root=$work/root
  # Links to the files of the base, beside which the packages' own lie.
  cp -al "$BASE" "$root"
  balancer_packages "$work/debs" "$root"
  balancer_image "docker.io/library/haproxy:$LAB_HAPROXY" --closure "$root:/usr/sbin/haproxy" --cmd '["haproxy"]'
  # Upstream's has the stream module in the program; Debian's is a file that the configuration names.
  cat > "$work/nginx" << 'SH'
#!/bin/sh
for word; do
  shift
  [ "$word" != "daemon off;" ] || word="load_module /usr/lib/nginx/modules/ngx_stream_module.so; $word"
  set -- "$@" "$word"
done
exec /usr/sbin/nginx "$@"
SH
  tools=(--file "$BASE/bin/busybox:/bin/busybox")
  for l in sh cat kill; do tools+=(--symlink "/bin/$l:busybox"); done
  balancer_image "docker.io/library/nginx:$LAB_NGINX" --closure "$root:/usr/sbin/nginx" \
    --closure "$root:/usr/lib/nginx/modules/ngx_stream_module.so" --file "$work/nginx:/usr/local/sbin/nginx:755" \
    --dir var/log/nginx --dir var/lib/nginx "${tools[@]}" --cmd '["nginx"]'
  rm -rf --one-file-system "$work"
}

# balancer_image REF ARGS...: mkimg.py has the arguments
balancer_image() {
  local ref=$1
  shift
  "$HERE/mkimg.py" "$BALANCERS.tmp/${ref%:*}" "$ref" "$@" | tee -a "$BALANCERS.tmp/images.tsv"
}
