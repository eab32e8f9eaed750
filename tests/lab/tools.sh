# shellcheck shell=bash
# `lab tools`: what the other parts call.
lab_tools() {
  debian_tools
  go_present
}

debian_tools() {
  local pair missing=()
  # command:package; a package without a command of its own is asked for by a file it brings
  for pair in debootstrap:debootstrap systemd-nspawn:systemd-container ip:iproute2 skopeo:skopeo gcc:gcc pkg-config:pkg-config \
    ssh:openssh-client nft:nftables tcpdump:tcpdump python3:python3 curl:curl flock:util-linux \
    /usr/include/seccomp.h:libseccomp-dev /usr/include/stdlib.h:libc6-dev; do
    case $pair in
      /*) [ -e "${pair%%:*}" ] || missing+=("${pair##*:}") ;;
      *) command -v "${pair%%:*}" > /dev/null || missing+=("${pair##*:}") ;;
    esac
  done
  if [ "${#missing[@]}" != 0 ]; then
    need_root "installing ${missing[*]}"
    command -v apt-get > /dev/null || die "please install: ${missing[*]}"
    step apt apt_install "${missing[@]}"
  fi
}

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "$@"
}

go_present() {
  command -v go > /dev/null || die "a Go toolchain (1.26 or newer) is needed: the programs are built from published Go modules"
}
