# shellcheck shell=bash
# `lab minio`: an S3 server, for the scene that keeps backups there. It is a program of the lab alone: nothing of it is shipped.
. "$HERE/programs.sh"

# Not in versions.sh: whoever does not need it builds nothing anew when it changes. A module without versions of Go's kind; this is
# RELEASE.2025-09-07T16-13-09Z.
LAB_MINIO=0.0.0-20250907161309-07c3a429bfed

lab_minio() {
  . "$HERE/tools.sh"
  lock
  program "$LAB_MINIO" minio github.com/minio/minio github.com/minio/minio
  drop_go_caches
}
