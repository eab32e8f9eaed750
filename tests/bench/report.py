"""From the samples of scripts/bench to a table or a JSON document: `report.py WORK table|json`."""

import collections
import glob
import json
import os
import statistics
import sys

work, form = sys.argv[1:3]

# what: (ours, plain way, words for both)
COMPARED = [
    ("build", "tar-zstd", "build, warm cache", "tar + zstd -1 -T0, still in memory"),
    ("build", "tar-zstd-sync", "build, warm cache", "tar + zstd -1 -T0, then sync"),
    ("verify", "sha256sum-file", "verify", "sha256sum of the bundle's file"),
    ("verify", "sha256sum-content", "verify", "sha256sum of its content, unpacked"),
    ("create", "by-hand", "install on one host", "a shell script: ssh, kubeadm, kubectl"),
]
MEMORY = [
    ("build", "build"),
    ("verify", "verify"),
    ("create", "install, where it is called"),
    ("create-again", "install again"),
]

samples = collections.defaultdict(dict)  # what → round → (seconds, kB)
with open(f"{work}/samples.tsv") as file:
    for line in file:
        round_, what, seconds, kilobytes = line.rstrip("\n").split("\t")
        samples[what][int(round_)] = (float(seconds), int(kilobytes))


def seconds(what):
    values = [value for value, _ in samples[what].values()]
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


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
            "seconds": seconds(ours),
            "besides": plain_words,
            "besidesSeconds": seconds(plain),
            "ratio": round(statistics.median(ratios), 2),
        }


def again():
    if not samples["create-again"]:
        return None
    steps = collections.defaultdict(list)
    outcomes = set()
    for path in glob.glob(f"{work}/again-*.jsonl"):
        for event in map(json.loads, open(path)):
            if event["type"] == "step-ended":
                steps[event["step"]].append(event["durationMs"])
                outcomes.add(event["outcome"])
    return {
        "seconds": seconds("create-again"),
        "outcomes": sorted(outcomes),
        "steps": [{"step": step, "milliseconds": statistics.median(ms)} for step, ms in steps.items()],
    }


def memory():
    found = [{"what": words, "bytes": 1024 * max(kb for _, kb in samples[what].values())} for what, words in MEMORY if samples[what]]
    if depot := number("depot.kb"):
        found.append({"what": "depot, on the host", "bytes": 1024 * depot})
    return found


def disk():
    if not os.path.exists(f"{work}/disk.tsv"):
        return []
    rows = [line.rstrip("\n").split("\t") for line in open(f"{work}/disk.tsv")]
    return [{"what": what, "bytes": int(bytes_)} for bytes_, what in rows]


document = {
    "schema": "kubexm.io/bench/v1",
    "flight": "first-flight",
    "cores": os.cpu_count(),
    "rounds": max(len(rounds) for rounds in samples.values()),
    "bundleBytes": number("bundle.size"),
    "cachedFilesBytes": number("files.size"),
    "tarZstdBytes": number("tar.size"),
    "comparisons": list(comparisons()),
    "again": again(),
    "peakMemory": memory(),
    "diskOnRegistryHost": disk(),
}


def mib(bytes_):
    return f"{bytes_ / 2**20:.1f} MiB" if bytes_ >= 2**20 else f"{bytes_ / 2**10:.0f} KiB"


def row(*cells):
    print("| " + " | ".join(cells) + " |")


def spread(figure):
    return f"{figure['median']:.2f} s ({figure['min']:.2f}–{figure['max']:.2f})"


def table():
    sizes = [("bundle", "bundleBytes"), ("its files in the cache", "cachedFilesBytes"), ("tar + zstd of them", "tarZstdBytes")]
    sizes = "; ".join(f"{words} {mib(document[key])}" for words, key in sizes if document[key])
    print(f"{document['cores']} cores, {document['rounds']} rounds: median (least–most); a ratio is the median of the rounds' ratios.\n{sizes}.\n")
    row("KubeXM", "takes", "beside", "takes", "ratio")
    row("---", "---:", "---", "---:", "---:")
    for c in document["comparisons"]:
        row(c["what"], spread(c["seconds"]), c["besides"], spread(c["besidesSeconds"]), f"{c['ratio']:.2f}")
    if found := document["again"]:
        print(f"\nInstall again, where all holds already: {spread(found['seconds'])}; steps ended {', '.join(found['outcomes'])}.\n")
        row("step", "takes")
        row("---", "---:")
        for s in found["steps"]:
            row(s["step"].split("/", 1)[-1], f"{s['milliseconds']:.0f} ms")
    for title, key in [("peak memory", "peakMemory"), ("disk on the registry host", "diskOnRegistryHost")]:
        if document[key]:
            print()
            row(title, "")
            row("---", "---:")
            for entry in document[key]:
                row(entry["what"], mib(entry["bytes"]))


if form == "json":
    json.dump(document, sys.stdout, indent=2)
    print()
else:
    table()
