#!/usr/bin/env python3
"""Which scenes run, in which lane, and which do not and why. A scene says it of itself, in comments at its top:

  # tier: always | long | large | unproven
                            `long` ones run when the commit's hash picks them, or with --long; `large` ones, whose part of the lab takes more
                            than an hour to build, and `unproven` ones, which have never passed yet, with --long or by name
  # seconds: N              what it takes on two cores, the other lane beside it
  # needs: PART ...         what scripts/e2e prepares before it (prepare.sh)
  # compares-with: SCENE    it waits at its end for what that one leaves, which runs before it or in the other lane
  # starts-from: CLUSTER    it does not install a cluster, but starts from this one
  # makes: CLUSTER          it leaves this one; what starts from it comes after it, in the same lane

Printed, one line each: `run LANE SCENE`, in order within a lane, and `left SCENE WHY`."""
import argparse
import pathlib
import re

KEYS = ("tier", "seconds", "needs", "compares-with", "starts-from", "makes")
# Tiers of scenes that do not run each time, and why.
RARE = {
    "long": "another commit's turn",
    "large": "its part of the lab takes more than an hour to build (--long, or by name)",
    "unproven": "it has never passed yet",
}
# A second long scene is picked where both together take no longer.
PICKED = 600


def scenes(folder):
    found = {}
    for file in sorted(folder.glob("scene-*.sh")):
        head = re.match(r"(?:#.*\n)*", file.read_text()).group()
        said = dict(re.findall(r"^# ([a-z-]+): (.*)$", head, re.M))
        scene = {key: said.get(key, "") for key in KEYS}
        if scene["tier"] not in ("always", *RARE) or not scene["seconds"].isdigit():
            raise SystemExit(f"{file} does not say its tier and its seconds")
        scene["seconds"] = int(scene["seconds"])
        found[file.stem.removeprefix("scene-")] = scene
    for name, scene in found.items():
        if scene["compares-with"] not in ("", *found):
            raise SystemExit(f"scene {name} compares with {scene['compares-with']}, which is no scene")
    return found


def closed(names, all_scenes):
    """With what they compare with, which comes first."""
    order = []
    for name in names:
        order += [other for other in (all_scenes[name]["compares-with"], name) if other and other not in order]
    return order


def picked(commit, all_scenes):
    """One or two of the long ones, by the hash of the commit: in as many commits as there are long scenes, each has its turn."""
    long = [name for name, scene in all_scenes.items() if scene["tier"] == "long"]
    if not long:
        return []
    first = int(commit, 16) % len(long)
    pick = [long[first]]
    second = long[(first + len(long) // 2) % len(long)]
    if second not in pick and all_scenes[pick[0]]["seconds"] + all_scenes[second]["seconds"] <= PICKED:
        pick.append(second)
    return pick


def lanes(names, all_scenes):
    """Two lists, and the seconds of the longer one. A cluster's maker and those who start from it are one chain; chains go, the longest
    first, to the lane that is free sooner. What is compared with comes before who compares, where both are in one lane."""
    chains = {}
    for name in names:
        cluster = all_scenes[name]["makes"] or all_scenes[name]["starts-from"]
        chains.setdefault(cluster or name, []).append(name)

    def took(members):
        return sum(all_scenes[name]["seconds"] for name in members)

    def place(name):
        return (bool(all_scenes[name]["starts-from"]), bool(all_scenes[name]["compares-with"]))

    two = [[], []]
    for members in sorted(chains.values(), key=took, reverse=True):
        min(two, key=took).extend(sorted(members, key=place))
    for lane in two:
        for name in [name for name in lane if all_scenes[name]["compares-with"] in lane]:
            lane.remove(name)
            lane.insert(lane.index(all_scenes[name]["compares-with"]) + 1, name)
    return two, max(took(lane) for lane in two)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--commit", default="0", help="its hash")
    parser.add_argument("--within", type=int, help="seconds")
    parser.add_argument("--only", help="scenes, in one lane")
    options = parser.parse_args()
    found = scenes(options.folder)
    # Everything is built of the bundle of this one.
    build = found.pop("build")
    left = {}
    if options.only:
        for name in options.only.split():
            if name not in found and name != "build":
                raise SystemExit(f"{name} is no scene; there are: build {' '.join(found)}")
        chosen = closed([name for name in options.only.split() if name != "build"], found)
    else:
        always = sorted((name for name in found if found[name]["tier"] == "always"), key=lambda name: -found[name]["seconds"])
        more = [name for name in found if name not in always] if options.long else picked(options.commit, found)
        chosen = []
        for name in always + more:
            makers = [other for other in found if found[other]["makes"] and found[other]["makes"] == found[name]["starts-from"]]
            wanted = closed(chosen + makers + [name], found)
            if options.within is not None and build["seconds"] + lanes(wanted, found)[1] > options.within:
                left[name] = f"it does not fit into {options.within} s"
            else:
                chosen = wanted
    for name in found:
        if name not in chosen and not options.only:
            left.setdefault(name, RARE.get(found[name]["tier"], RARE["long"]))
    print("run first build")
    two = [chosen, []] if options.only else lanes(chosen, found)[0]
    for number, lane in enumerate(two, 1):
        for name in lane:
            print(f"run {number} {name}")
    for name, why in left.items():
        if name not in chosen:
            print(f"left {name} {why}")


main()
