#!/usr/bin/env python3
"""Makes an OCI image index from files, without any container tool.

The index names two platforms: linux/amd64 with the real content, and linux/arm64 whose only layer is a marker file. A bundle
for one platform leaves the other out, which is what happens to an upstream index as well.
The same input gives the same bytes: entries are sorted, times and owners are 0.
"""
import argparse
import glob
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile

OCI = "application/vnd.oci.image."
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SKELETON = ("dev", "etc", "proc", "run", "sys", "tmp", "var")


class Tree:
    """What goes into a layer: path in the image -> ("file", source, mode) or ("link", target, mode)."""

    def __init__(self):
        self.entries = {}
        self.dirs = set(SKELETON)

    def file(self, source, path, mode=None):
        source = os.path.realpath(source)
        mode = os.stat(source).st_mode & 0o777 if mode is None else mode
        self.entries[path.lstrip("/")] = ("file", source, mode)

    def link(self, path, target):
        self.entries[path.lstrip("/")] = ("link", target, 0o777)

    def closure(self, root, binary):
        """A dynamic program of the root file system, and every library its loader finds."""
        self.file(inside(root, binary), binary, 0o755)
        ldd = subprocess.run(["chroot", root, "ldd", binary], capture_output=True, text=True, check=False)
        for line in ldd.stdout.splitlines():
            words = line.split()
            library = words[2] if "=>" in words and len(words) > 2 else words[0] if words else ""
            if library.startswith("/") and os.path.exists(inside(root, library)):
                self.file(inside(root, library), library, 0o755)

    def tar(self):
        buffer, made = io.BytesIO(), set()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            def mkdir(path):
                if not path or path in made:
                    return
                mkdir(os.path.dirname(path))
                made.add(path)
                info = tarfile.TarInfo(path + "/")
                info.type, info.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
                archive.addfile(info)

            for path in sorted(self.dirs):
                mkdir(path)
            for path in sorted(self.entries):
                kind, data, mode = self.entries[path]
                mkdir(os.path.dirname(path))
                info = tarfile.TarInfo(path)
                info.mode = mode
                if kind == "link":
                    info.type, info.linkname = tarfile.SYMTYPE, data
                    archive.addfile(info)
                else:
                    info.size = os.path.getsize(data)
                    with open(data, "rb") as source:
                        archive.addfile(info, source)
        return buffer.getvalue()


def inside(root, path):
    """Where `path` is on this machine when `root` is its root: links are followed inside the root."""
    current = path
    for _ in range(40):
        done, parts = "", current.strip("/").split("/")
        for i, part in enumerate(parts):
            if os.path.islink(root + done + "/" + part):
                target = os.readlink(root + done + "/" + part)
                base = target if target.startswith("/") else os.path.normpath(done + "/" + target)
                current = "/".join([base] + parts[i + 1:])
                break
            done += "/" + part
        else:
            return root + done
    raise SystemExit(f"mkimg: too many links: {path}")


class Layout:
    """An OCI image layout (image-spec, image-layout.md)."""

    def __init__(self, path):
        self.path = path
        self.blobs = os.path.join(path, "blobs", "sha256")
        os.makedirs(self.blobs, exist_ok=True)

    def blob(self, data, media_type, **more):
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(self.blobs, digest), "wb") as out:
            out.write(data)
        return {"mediaType": OCI + media_type, "digest": "sha256:" + digest, "size": len(data), **more}

    def json(self, value, media_type, **more):
        return self.blob(json.dumps(value, separators=(",", ":")).encode(), media_type, **more)

    def image(self, tar, architecture, config):
        # level 1: the layers are read from a local disk, making them is what takes time
        layer = self.blob(gzip.compress(tar, 1, mtime=0), "layer.v1.tar+gzip")
        config = self.json({
            "created": "1970-01-01T00:00:00Z", "architecture": architecture, "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(tar).hexdigest()]},
            "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "lab"}],
        }, "config.v1+json")
        return self.json({
            "schemaVersion": 2, "mediaType": OCI + "manifest.v1+json", "config": config, "layers": [layer],
        }, "manifest.v1+json", platform={"architecture": architecture, "os": "linux"})

    def listed(self):
        try:
            with open(os.path.join(self.path, "index.json"), encoding="utf-8") as text:
                return json.load(text)["manifests"]
        except FileNotFoundError:
            return []

    def finish(self, images, tag):
        index = self.json({"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": images}, "index.v1+json")
        index["annotations"] = {"org.opencontainers.image.ref.name": tag}
        # The other tags of the repository are in the same layout.
        manifests = [other for other in self.listed() if other["annotations"] != index["annotations"]] + [index]
        for name, value in (("index.json", {"schemaVersion": 2, "manifests": manifests}),
                            ("oci-layout", {"imageLayoutVersion": "1.0.0"})):
            with open(os.path.join(self.path, name), "w", encoding="utf-8") as out:
                json.dump(value, out)
        return index["digest"]


def marker(ref):
    """The layer of the platform that nobody runs."""
    buffer, text = io.BytesIO(), f"{ref}: no programs for this platform\n".encode()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("lab-marker")
        info.size, info.mode = len(text), 0o644
        archive.addfile(info, io.BytesIO(text))
    return buffer.getvalue()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("out", help="folder of the OCI layout")
    p.add_argument("ref", help="HOST/REPOSITORY:TAG")
    p.add_argument("--file", action="append", default=[], metavar="SOURCE:PATH[:MODE]")
    p.add_argument("--closure", action="append", default=[], metavar="ROOT:PROGRAM", help="with its libraries")
    p.add_argument("--glob", action="append", default=[], metavar="ROOT:PATTERN", help="shared objects, with theirs")
    p.add_argument("--symlink", action="append", default=[], metavar="PATH:TARGET")
    p.add_argument("--dir", action="append", default=[])
    p.add_argument("--entrypoint", type=json.loads, help="JSON list")
    p.add_argument("--cmd", type=json.loads, help="JSON list")
    a = p.parse_args()

    tree = Tree()
    for spec in a.file:
        source, path, *mode = spec.split(":")
        tree.file(source, path, int(mode[0], 8) if mode else None)
    for spec in a.closure:
        tree.closure(*spec.split(":", 1))
    for spec in a.glob:
        root, pattern = spec.split(":", 1)
        for found in sorted(glob.glob(root + pattern)):
            if os.path.isfile(found):
                tree.closure(root, found[len(root):])
    for spec in a.symlink:
        tree.link(*spec.split(":", 1))
    tree.dirs.update(d.strip("/") for d in a.dir)

    config = {"Env": [PATH], "WorkingDir": "/"}
    if a.entrypoint:
        config["Entrypoint"] = a.entrypoint
    if a.cmd:
        config["Cmd"] = a.cmd
    layout = Layout(a.out)
    images = [layout.image(tree.tar(), "amd64", config), layout.image(marker(a.ref), "arm64", config)]
    print(a.ref, layout.finish(images, a.ref.rsplit(":", 1)[1]), sep="\t")


if __name__ == "__main__":
    main()
