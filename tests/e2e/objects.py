#!/usr/bin/env python3
"""API objects from `kubectl get -o json` on standard input, as text that two installs can be compared by.

Left out, because it is random by nature: uids, resource versions, times, addresses of pods, managed fields, names of pods made by
a controller, the node that the scheduler chose (not that of a DaemonSet's or static pod),
which of the pod network's parts a node got, status of all but phases, certificates and tokens (bootstrap secrets are not listed at all), checksums of those, the hardware address of flannel's interface."""
import json
import re
import sys

DROP = {"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "generateName", "ownerReferences"}
PEM = re.compile(r"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----|certificate-authority-data: \S+", re.S)
HASHES = {"pod-template-hash", "controller-revision-hash", "pod-template-generation", "kubernetes.io/config.hash", "kubernetes.io/config.mirror",
          "kubernetes.io/config.seen", "flannel.alpha.coreos.com/backend-data", "deprecated.daemonset.template.generation"}


def clean(value):
    if isinstance(value, dict):
        return {k: clean(v) for k, v in value.items() if k not in DROP and k not in HASHES}
    if isinstance(value, list):
        return [clean(v) for v in value]
    if isinstance(value, str):
        return re.sub(r"kube-api-access-\w+", "kube-api-access", PEM.sub("<certificate>", value))
    return value


def pod(item):
    meta, spec, status = item["metadata"], item["spec"], item.get("status", {})
    owner = (meta.get("ownerReferences") or [{"kind": "", "name": meta["name"]}])[0]
    name = re.sub(r"-[0-9a-f]{8,10}$", "", owner["name"]) if owner["kind"] != "Node" else meta["name"]
    node = "chosen" if owner["kind"] == "ReplicaSet" else spec.get("nodeName")
    return {"kind": "Pod", "namespace": meta["namespace"], "owner": owner["kind"], "name": name, "phase": status.get("phase"),
            "images": sorted(c["image"] for c in spec["containers"] + spec.get("initContainers", [])), "node": node}


def main():
    lines = []
    for item in json.load(sys.stdin)["items"]:
        if item["kind"] == "Pod":
            lines.append(pod(item))
            continue
        # The digest of the JWS key and the list of signers change with the cluster's own keys.
        if item["kind"] == "ConfigMap" and item["metadata"]["name"] in ("cluster-info",):
            item["data"] = {k: v for k, v in item["data"].items() if not k.startswith("jws-")}
        # The day on which the API server was first there.
        if item["kind"] == "ConfigMap" and item["metadata"]["name"] == "kube-apiserver-legacy-service-account-token-tracking":
            item["data"].pop("since", None)
        # The id is each cluster's own, and scenes come to the same cluster by different files.
        if item["kind"] == "ConfigMap" and item["metadata"]["name"] == "kubexm-cluster":
            record = json.loads(item["data"]["applied.json"])
            item["data"] = {key: record[key] for key in ("schema", "name", "kubernetes")}
        # The controller manager deals them out as nodes come, also to one that joins once more.
        if item["kind"] == "Node":
            item["spec"].pop("podCIDR", None)
            item["spec"]["podCIDRs"] = [cidr.split("/")[1] for cidr in item["spec"].get("podCIDRs", [])]
        item.pop("status", None)
        lines.append(clean(item))
    for line in sorted(json.dumps(line, sort_keys=True, indent=1) for line in lines):
        print(line)


main()
