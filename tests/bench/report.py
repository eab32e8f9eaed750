"""From the samples of scripts/bench to a table or a JSON document: `report.py WORK table|json FLIGHT`."""

import collections
import glob
import json
import os
import re
import statistics
import sys

work, form, flight = sys.argv[1:4]

# what: (ours, plain way, words for both)
COMPARED = [
    ("build", "tar-zstd", "build, warm cache", "tar + zstd -1 -T0, still in memory"),
    ("build", "tar-zstd-sync", "build, warm cache", "tar + zstd -1 -T0, then sync"),
    ("verify", "sha256sum-file", "verify", "sha256sum of the bundle's file"),
    ("verify", "sha256sum-content", "verify", "sha256sum of its content, unpacked"),
    ("create", "by-hand", "install on one host", "a shell script: ssh, kubeadm, kubectl"),
    ("archive-write", "archive-tar-zstd", "write about 1 GB", "tar + zstd -1 -T0, still in memory"),
    ("archive-verify", "archive-limit", "verify it", "read, decompress and sha256 on all cores, nothing else"),
    ("archive-verify", "archive-unpack-sum", "verify it", "zstd -dc + tar -x, sha256sum on all cores"),
    ("archive-quick", "archive-verify", "verify --quick", "verify"),
    ("archive-member", "archive-read-all", "a member of 1 MiB from the middle of 2 GiB", "zstd -dc of all of it"),
    ("archive-range", "archive-read-all", "1 MB from the middle of a member of it, in two frames", "zstd -dc of all of it"),
    ("honest-build", "honest-tar-sync", "lock and build without duplicates", "tar + zstd -1 -T0, then sync"),
    ("honest-build", "honest-default", "lock and build without duplicates", "tar + the zstd of Hauler's save, still in memory"),
    ("honest-verify", "honest-unpack-sum", "verify it", "zstd -dc + tar -x, sha256sum on all cores"),
    ("programs-build", "programs-tar-sync", "lock and build of one release's programs", "tar + zstd -1 -T0, then sync"),
    ("two-releases-build", "two-releases-tar-sync", "lock and build of two releases' programs", "tar + zstd -1 -T0, then sync"),
    ("fetch-images", "skopeo", "fetch 40 images of 2 GB that share layers", "skopeo copy, one by one, into one layout"),
    ("fetch-small", "curl-each", "fetch 200 small files at 20 ms", "curl for each"),
    ("fetch-small", "curl-one", "fetch 200 small files at 20 ms", "one curl for all, one by one"),
    ("seed", "seed-skopeo-copy", "seed an empty registry with the images of the lab's bundle", "skopeo copy, one by one"),
    ("seed", "seed-skopeo-sync", "seed an empty registry with the images of the lab's bundle", "skopeo sync"),
    ("seed-again", "seed", "the same again", "the first seed"),
    ("fill-4", "fill-1", "fill four hosts that take from each other", "one host"),
    ("fill-20", "fill-1", "fill twenty hosts that take from each other", "one host"),
    ("fill-4-alone", "fill-1", "fill four hosts from the controller (--no-fan-out)", "one host"),
    ("fill-20-alone", "fill-1", "fill twenty hosts from the controller (--no-fan-out)", "one host"),
    ("packages-solve", "apt-solve", "read indexes and solve for 15 OS packages", "apt-get --print-uris, all its caches warm"),
    ("packages-solve", "apt-solve-cold", "read indexes and solve for 15 OS packages", "apt-get --print-uris, without its binary cache"),
    ("fleet-create", "fleet-by-hand", "install on three hosts", "a shell script: ssh, kubeadm, kubectl, hosts in parallel"),
    ("planes-kubexm", "planes-kubeadm", "three control planes with an etcd of kubexm's", "with kubeadm's etcd"),
    ("vip-proxy", "vip-proxy-by-hand", "the API is away: haproxy of the address's holder stopped", "keepalived and haproxy by hand"),
    ("vip-keepalived", "vip-keepalived-by-hand", "the API is away: its keepalived killed", "keepalived and haproxy by hand"),
    ("vip-host", "vip-host-by-hand", "the API is away: its host loses its power", "keepalived and haproxy by hand"),
    ("upgrade", "upgrade-by-hand", "upgrade of one control plane and one worker", "kubeadm, kubectl, ssh by hand"),
    ("add-ons", "add-ons-by-hand", "ten charts into a cluster (addons apply)", "ten helm install --wait at once, on the host"),
    ("add-ons-alone", "add-ons-by-hand", "of that: rendered, and their steps", "ten helm install --wait at once, on the host"),
    ("create-with-add-ons", "create-without-add-ons", "a create that finds ten charts there", "the same without charts"),
    ("fleet-again", "ansible", "create on three hosts where all holds", "ansible looking at the same files, units and packages"),
]
MEMORY = [
    ("build", "build"),
    ("verify", "verify"),
    ("create", "install, where it is called"),
    ("create-again", "install again"),
    ("archive-write", "write about 1 GB"),
    ("archive-write-1g", "write 1 GiB"),
    ("archive-write-8g", "write 8 GiB"),
    ("archive-verify-1g", "verify 1 GiB"),
    ("archive-verify-8g", "verify 8 GiB"),
    ("honest-build", "lock and build without duplicates"),
    ("honest-verify", "verify it"),
    ("fetch-images", "fetch 40 images of 2 GB"),
    ("fetch-small", "fetch 200 small files"),
    ("fetch-lock-warm", "lock 40 images, warm cache"),
    ("fetch-build-cold", "build of 40 images, cold cache"),
    ("fetch-build-warm", "build of 40 images, warm cache"),
    ("seed", "seed a registry"),
    ("seed-again", "seed it again"),
    ("packages-solve", "read indexes and solve for 15 OS packages"),
    ("fleet-create", "install on three hosts, where it is called"),
    ("fleet-again", "the same again"),
]

NOTHING_TO_DO = ["upgrade", "create", "add-node", "certs-renew", "certs-check", "drift", "status"]

samples = collections.defaultdict(dict)  # what → round → (seconds, kB, CPU seconds)
with open(f"{work}/samples.tsv") as file:
    for line in file:
        round_, what, elapsed, kilobytes, *cpu = line.rstrip("\n").split("\t")
        samples[what][int(round_)] = (float(elapsed), int(kilobytes), sum(map(float, cpu)))


def seconds(what):
    values = [elapsed for elapsed, _, _ in samples[what].values()]
    cpu = statistics.median(cpu for _, _, cpu in samples[what].values())
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "cpu": round(cpu, 2)}


def number(name):
    path = f"{work}/{name}"
    return int(open(path).read()) if os.path.exists(path) else None


def comparisons():
    for ours, plain, words, plain_words in COMPARED:
        if not samples[ours] or not samples[plain]:
            continue
        # the two of one round ran one after the other, under much the same load
        rounds = samples[ours].keys() & samples[plain].keys()
        ratios = [samples[ours][r][0] / max(samples[plain][r][0], 0.01) for r in rounds]
        yield {
            "what": words,
            "rounds": len(rounds),
            "seconds": seconds(ours),
            "beside": plain_words,
            "besideSeconds": seconds(plain),
            "ratio": round(statistics.median(ratios), 4 if ratios[0] < 0.1 else 2),
        }


def steps(kind):
    """Each step of the runs of this kind: its median, in the order of the plan, and how the steps ended."""
    found, outcomes = collections.defaultdict(list), set()
    for path in sorted(glob.glob(f"{work}/{kind}-*.jsonl")):
        with open(path) as lines:
            for event in map(json.loads, lines):
                if event["type"] == "step-ended":
                    found[event["step"].split("/", 1)[-1]].append(event["durationMs"])
                    outcomes.add(event["outcome"])
    return {step: statistics.median(times) for step, times in found.items()}, sorted(outcomes)


def sizes():
    """What the archive makes of the corpora, beside others."""
    return [*corpus(), *honest()]


def honest():
    """Of corpora without duplicates."""
    if not os.path.exists(f"{work}/honest.tsv"):
        return []
    found = []
    for line in open(f"{work}/honest.tsv"):
        name, *numbers = line.split()
        files, ours, plain, default = map(int, numbers)
        for words, other in [("its files", files), ("tar + zstd -1", plain), ("tar + the zstd of Hauler's save", default)]:
            if other:
                found.append({"what": f"bundle of {name}, beside {words}", "bytes": ours, "besideBytes": other, "ratio": round(ours / other, 3)})
    return found


def corpus():
    """Of the corpus with shared layers."""
    if not (ours := number("ours.size")):
        return []
    corpus, theirs, full, delta = (number(f"{name}.size") for name in ("corpus", "theirs", "next", "delta"))
    return [
        {"what": "bundle of the corpus, beside tar + zstd -1 of it", "bytes": ours, "besideBytes": theirs, "ratio": round(ours / theirs, 3)},
        {"what": "bundle of the corpus, beside its files", "bytes": ours, "besideBytes": corpus, "ratio": round(ours / corpus, 3)},
        {"what": "delta with all of Kubernetes' programs changed, beside the full bundle", "bytes": delta, "besideBytes": full, "ratio": round(delta / full, 3)},
    ]


def again():
    if not samples["create-again"]:
        return None
    first, _ = steps("create")
    second, outcomes = steps("again")
    rows = [{"step": step, "firstMilliseconds": first.get(step), "milliseconds": ms} for step, ms in second.items()]
    return {"seconds": seconds("create-again"), "outcomes": outcomes, "steps": rows}


def memory():
    found = [{"what": words, "bytes": 1024 * max(kb for _, kb, _ in samples[what].values())} for what, words in MEMORY if samples[what]]
    if depot := number("depot.kb"):
        found.append({"what": "depot, on the host", "bytes": 1024 * depot})
    return found


def disk():
    if not os.path.exists(f"{work}/disk.tsv"):
        return []
    rows = [line.rstrip("\n").split("\t") for line in open(f"{work}/disk.tsv")]
    return [{"what": what, "bytes": int(bytes_)} for bytes_, what in rows]


def fetching():
    """What a fetch did, beside its times: rows of what, value, bound."""
    if not os.path.exists(f"{work}/fetch.tsv"):
        return None
    alone = ["fetch-lock-warm", "fetch-build-cold", "fetch-build-warm"]
    rows = [line.rstrip("\n").split("\t") for line in open(f"{work}/fetch.tsv")]
    return {
        "seconds": {what: seconds(what) for what in alone if samples[what]},
        "figures": [{"what": what, "value": value, "bound": bound or None} for what, value, bound in rows],
    }


def ssh():
    """Bytes both ways over port 22 in a create that has nothing to do: the median of the rounds, for each host."""
    found = collections.defaultdict(list)
    for path in glob.glob(f"{work}/ssh-bytes-*.tsv"):
        for line in open(path):
            host, count = line.split()
            found[host].append(int(count))
    return [{"what": host, "bytes": statistics.median_low(counts)} for host, counts in sorted(found.items())]


def many():
    """Peak memory of a controller by its number of hosts, as its own test says it."""
    if not os.path.exists(f"{work}/many.log"):
        return []
    line = next((line for line in open(f"{work}/many.log") if line.startswith("10 hosts: ")), "")
    return [{"what": f"{hosts} hosts", "bytes": 1024 * int(kib)} for hosts, kib in re.findall(r"(\d+)(?: hosts)?: (\d+) KiB", line)]


def failed():
    """Parts that could not run."""
    if not os.path.exists(f"{work}/failed"):
        return []
    return open(f"{work}/failed").read().split()


document = {
    "schema": "kubexm.io/bench/v1",
    "flight": flight,
    "failed": failed(),
    "cores": os.cpu_count(),
    "bundleBytes": number("bundle.size"),
    "cachedFilesBytes": number("files.size"),
    "tarZstdBytes": number("tar.size"),
    "comparisons": list(comparisons()),
    "sizes": sizes(),
    "again": again(),
    "fetching": fetching(),
    "nothingToDo": [{"what": verb, "seconds": seconds(f"no-op-{verb}")} for verb in NOTHING_TO_DO if samples[f"no-op-{verb}"]],
    "peakMemory": memory(),
    "diskOnRegistryHost": disk(),
    "sshBytesOfSecondRun": ssh(),
    "controllerMemory": many(),
}


def mib(bytes_):
    return f"{bytes_ / 2**20:.1f} MiB" if bytes_ >= 2**20 else f"{bytes_ / 2**10:.0f} KiB"


def row(*cells):
    print("| " + " | ".join(cells) + " |")


def spread(figure):
    factor, unit, digits = (1000, "ms", 1) if figure["max"] < 0.1 else (1, "s", 2)
    median, least, most = (f"{figure[key] * factor:.{digits}f}" for key in ("median", "min", "max"))
    return f"{median} {unit} ({least}–{most})"


def cpu(what, figure):
    # an install works on the host: what it costs where it was called from says nothing
    return "" if what.startswith(("install", "create")) else f"{figure['cpu']:.2f} s"


def table():
    sizes = [("bundle", "bundleBytes"), ("its files", "cachedFilesBytes"), ("tar + zstd of them", "tarZstdBytes")]
    sizes = "; ".join(f"{words} {mib(document[key])}" for words, key in sizes if document[key])
    print(f"{document['cores']} cores. Medians (least–most); a ratio is the median of the rounds' ratios.\n{sizes}.\n")
    row("KubeXM", "takes", "CPU", "beside", "takes", "CPU", "ratio", "rounds")
    row("---", "---:", "---:", "---", "---:", "---:", "---:", "---:")
    for c in document["comparisons"]:
        ours, theirs = c["seconds"], c["besideSeconds"]
        row(c["what"], spread(ours), cpu(c["what"], ours), c["beside"], spread(theirs), cpu(c["what"], theirs), f"{c['ratio']:.{4 if c['ratio'] < 0.1 else 2}f}", str(c["rounds"]))
    if document["sizes"]:
        print()
        row("size", "", "beside", "ratio")
        row("---", "---:", "---:", "---:")
        for s in document["sizes"]:
            row(s["what"], mib(s["bytes"]), mib(s["besideBytes"]), f"{s['ratio']:.3f}")
    if found := document["again"]:
        print(f"\nInstall again, where all holds already: {spread(found['seconds'])}; steps ended {', '.join(found['outcomes'])}.\n")
        row("step", "first time", "again")
        row("---", "---:", "---:")
        for s in found["steps"]:
            row(s["step"], f"{s['firstMilliseconds']:.0f} ms", f"{s['milliseconds']:.0f} ms")
    if found := document["nothingToDo"]:
        print()
        row("day two, where nothing is to do", "takes", "wanted")
        row("---", "---:", "---:")
        for command in found:
            row(command["what"], spread(command["seconds"]), "≤ 3 s")
    if found := document["fetching"]:
        print()
        row("fetching", "", "wanted")
        row("---", "---:", "---:")
        for what, figure in found["seconds"].items():
            row(dict(MEMORY)[what], spread(figure), "< 1 s" if what == "fetch-lock-warm" else "")
        for f in found["figures"]:
            row(f["what"], f["value"], f["bound"] or "")
    for title, key in [("peak memory", "peakMemory"), ("disk on the registry host", "diskOnRegistryHost"),
                       ("SSH of a second run, both ways", "sshBytesOfSecondRun"), ("peak memory of a controller", "controllerMemory")]:
        if document[key]:
            print()
            row(title, "")
            row("---", "---:")
            for entry in document[key]:
                row(entry["what"], mib(entry["bytes"]))
    if document["failed"]:
        print(f"\nCould not run: {', '.join(document['failed'])}. What they compare is not in these tables.")


if form == "json":
    json.dump(document, sys.stdout, indent=2)
    print()
else:
    table()
