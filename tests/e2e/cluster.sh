# shellcheck shell=bash
# Clusters that scenes start from: created once in a run, stopped, and kept as snapshots of their hosts' disks. What makes such hosts
# come up as the cluster they were: names, addresses, machine ids and SSH keys are on the disks, and the bridge is the same in
# each lane. `keep_cluster NAME` is called by the scene that makes it, `start_from NAME` by those that start from it.

# keep_cluster NAME: of the hosts of this lane, which are stopped; with the installer's home and the states before the cluster was there
keep_cluster() {
  local folder=$TOP/clusters/$1
  rm -rf "$folder"
  lab host save "$CLUSTERS_OF-$1" || return 1
  mkdir -p "$folder.tmp" || return 1
  cp -a "$WORK/$HOME_NAME" "$folder.tmp/home" && cp "$WORK"/before-* "$folder.tmp/" && mv "$folder.tmp" "$folder"
}

# start_from NAME: its hosts are up and every pod runs again, in a home of the scene's own. What nobody made in this run is made now.
start_from() {
  local folder=$TOP/clusters/$1 booted
  lab host down --all
  if [ ! -d "$folder" ]; then
    "make_$1" || return 1
    lab host down --all
  fi
  rm -rf "${WORK:?}/$HOME_NAME"
  { cp -a "$folder/home" "$WORK/$HOME_NAME" && cp "$folder"/before-* "$WORK/"; } || return 1
  booted=$(date -u +%FT%TZ)
  lab host restore "$CLUSTERS_OF-$1" || return 1
  within 180 all_running_since n1 "$booted"
}

# make_fleet: as the scene `fleet` does it, without its questions
make_fleet() {
  fleet_up && fleet_bundle && fleet_create && fleet_created && lab host stop --all && keep_cluster fleet
}
