# shellcheck shell=bash
# About 1 GB with the mix of a real bundle: 54 % programs (Go and C), 36 % gzip layers, most of them made by Go's compress/gzip,
# 5 % .deb, 5 % text. Layers stand in folders of images, each with its own copy of the base layer that they share: as files
# on a disk, and as every tool without a content-addressed store packs them.
CORPUS=$LAB/corpus

corpus() {
  [ ! -e "$CORPUS.sums" ] || return 0
  say "corpus"
  rm -rf "$CORPUS" "$CORPUS.tmp"
  mkdir -p "$CORPUS.tmp"/{programs,images,debs,text}
  corpus_programs
  corpus_images
  corpus_debs
  corpus_text
  (cd "$CORPUS.tmp" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum) > "$CORPUS.sums.tmp"
  mv "$CORPUS.tmp" "$CORPUS"
  mv "$CORPUS.sums.tmp" "$CORPUS.sums"
}

# as many as fit into 610 MB, largest first, each content once
corpus_programs() {
  local total=0 size path
  while read -r size path; do
    [ $((total + size)) -le 640000000 ] || continue
    cp "$path" "$CORPUS.tmp/programs/$(sha256sum "$path" | head -c 12)-${path##*/}"
    total=$((total + size))
  done < <(find "$LAB/bin" "$LAB/k8s" /usr/bin /usr/lib/x86_64-linux-gnu -type f -size +1M -perm -u+x -printf '%s %p\n' | sort -rn)
}

corpus_images() {
  local number
  (cd "$ROOT/tests/bench" && CGO_ENABLED=0 go build -o "$WORK/gogzip" gogzip.go)
  # head closes the pipe when it has enough
  (tar c -C "$LAB/base" usr/share usr/lib 2> /dev/null || true) | head -c 100000000 | "$WORK/gogzip" > "$WORK/base.tar.gz"
  for number in 1 2 3 4 5 6; do
    mkdir "$CORPUS.tmp/images/$number"
    cp "$WORK/base.tar.gz" "$CORPUS.tmp/images/$number/base.tar.gz"
  done
  number=0
  find "$LAB/oci" -type f -size +5M | sort | sed -n '1,6p' | while read -r path; do
    number=$((number + 1))
    cp "$path" "$CORPUS.tmp/images/$number/layer.tar.gz"
  done
}

corpus_debs() {
  (cd "$CORPUS.tmp/debs" && apt-get download -qq gcc-12 cpp-12 libllvm14 git perl-modules-5.36 > /dev/null)
}

corpus_text() {
  (tar c -C / usr/share/doc usr/share/perl usr/include 2> /dev/null || true) | head -c 51000000 | split -b 10000000 - "$CORPUS.tmp/text/part-"
}
