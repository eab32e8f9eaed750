#!/usr/bin/env python3
"""Looks at what `kubexm-install addons list|diff --json` says.

  listed FILE NAME=DRIFTED...    these add-ons are kubexm's, are as they should be, and so many objects of each have drifted
  changes FILE WANTED...         exactly these objects would change: `changed:ConfigMap/web`, `installed:ConfigMap/extra`
  field FILE OBJECT FIELD BEFORE AFTER
                                 this field of an object would change so
"""
import json
import sys


def listed(document, *wanted):
    found = {(one["type"], one["name"]): one for one in document["addons"]}
    for each in wanted:
        name, drifted = each.split("=")
        kind, name = name.split("/")
        one = found[(kind, name)]
        print(one)
        assert one["ours"] and one["inClusterYaml"] and one["status"] in ("deployed", "applied"), one
        assert len(one["drifted"]) == int(drifted), one["drifted"]
    assert len(found) == len(wanted), list(found)
    assert document["notInstalled"] == [], document["notInstalled"]


def objects(document):
    return {f"{o['kind']}/{o['name']}": o for addon in document["addons"] for o in addon["objects"] or []}


def changes(document, *wanted):
    found = sorted(f"{o['change']}{'(kept)' if o['kept'] else ''}:{name}" for name, o in objects(document).items())
    print("\n".join(found))
    assert found == sorted(wanted), f"wanted {sorted(wanted)}"


def field(document, name, path, before, after):
    fields = {one["field"]: one for one in objects(document)[name]["fields"]}
    print(fields)
    assert (fields[path]["before"], fields[path]["after"]) == (before, after), fields[path]


if __name__ == "__main__":
    verb, path, *rest = sys.argv[1:]
    with open(path) as file:
        {"listed": listed, "changes": changes, "field": field}[verb](json.load(file), *rest)
