#!/usr/bin/env python3
"""One `docker save` of several OCI layouts (docker, image/spec/v1.2): OUT.tar.gz LAYOUT=TAG ... Only their images for amd64."""
import gzip
import io
import json
import sys
import tarfile


def blob(layout, digest):
    with open(f"{layout}/blobs/{digest.replace(':', '/')}", "rb") as found:
        return found.read()


def main():
    out, pairs = sys.argv[1], [pair.split("=", 1) for pair in sys.argv[2:]]
    listed = []
    with tarfile.open(out, "w:gz", compresslevel=1) as archive:
        def add(name, data):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))

        for layout, tag in pairs:
            with open(f"{layout}/index.json", encoding="utf-8") as text:
                index = json.loads(blob(layout, json.load(text)["manifests"][0]["digest"]))
            found = next(one for one in index["manifests"] if one["platform"]["architecture"] == "amd64")
            manifest = json.loads(blob(layout, found["digest"]))
            config = manifest["config"]["digest"].split(":")[1] + ".json"
            add(config, blob(layout, manifest["config"]["digest"]))
            layers = []
            for layer in manifest["layers"]:
                name = layer["digest"].split(":")[1] + "/layer.tar"
                if name not in archive.getnames():
                    add(name, gzip.decompress(blob(layout, layer["digest"])))
                layers.append(name)
            listed.append({"Config": config, "RepoTags": [tag], "Layers": layers})
        add("manifest.json", json.dumps(listed).encode())


if __name__ == "__main__":
    main()
