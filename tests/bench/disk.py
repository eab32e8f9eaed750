"""Disk used on a host, by what it is for: `disk.py ROOT` writes `bytes<TAB>what` lines.

Bytes are blocks on the disk, not lengths of files; a file with two names counts once, where it is met first."""

import json
import os
import sys

root = sys.argv[1].rstrip("/")
seen = set()


def used(*paths, only=lambda path: True):
    total = 0
    for path in paths:
        for folder, _, names in os.walk(root + path):
            for name in names:
                file = os.path.join(folder, name)
                stat = os.lstat(file)
                if (stat.st_dev, stat.st_ino) in seen or not only(file):
                    continue
                seen.add((stat.st_dev, stat.st_ino))
                total += stat.st_blocks * 512
    return total


with open(root + "/etc/kubexm/depot/config.json") as file:
    config = json.load(file)
served = set(config["files"].values())
for repository in config["images"].values():
    served |= set(repository["manifests"]) | set(repository["blobs"])
served = {digest.removeprefix("sha256:") for digest in served}
blobs = config["store"] + "/blobs/sha256"
missing = [digest for digest in served if not os.path.exists(f"{root}{blobs}/{digest}")]
if missing:
    sys.exit(f"the depot is to serve blobs that its store lacks: {missing}")

for what, bytes_ in [
    ("blobs the depot serves", used(blobs, only=lambda path: os.path.basename(path) in served)),
    ("the store beyond them", used(config["store"])),
    ("KubeXM's own state and settings", used("/var/lib/kubexm", "/etc/kubexm")),
    ("programs in /usr/local/bin", used("/usr/local/bin")),
    ("CNI plugins in /opt/cni", used("/opt/cni")),
    ("containerd's copies of image blobs", used("/var/lib/containerd/io.containerd.content.v1.content")),
    ("containerd's unpacked images and containers", used("/var/lib/containerd")),
    ("etcd's data", used("/var/lib/etcd")),
]:
    print(f"{bytes_}\t{what}")
