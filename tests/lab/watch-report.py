#!/usr/bin/env python3
"""watch-report.py DNSLOG WHERE=NFT.json...: what the counters and the name server saw, as one JSON object.

packets       packets meant for anything that is not a node, a pod, a service, loopback, multicast or broadcast,
              summed over all places that count (one packet may be seen at its host and on the bridge)
destinations  what they were: where seen, address, protocol, port, how many
dns           distinct names asked of the lab's name server
corednsLoop   questions of CoreDNS's plugin `loop` (type HINFO, two random numbers as a name): it puts one to the name server
              it forwards to, once at each start, to see whether it gets it back
corednsHealth questions of CoreDNS's plugin `forward` (type NS, the root): it asks a name server that has not answered in time whether it
              is well again
preflight     questions of our preflight for a random name below `.invalid`, which no name server may send on (RFC 6761)
missing       places whose counters are gone (a host that was rebooted, or whose tables were flushed): no proof there
control       what the positive control sent, kept apart
"""
import json
import re
import sys

CONTROL_ADDRESS, CONTROL_NAME = "192.0.2.1", "control.invalid"     # RFC 5737 and RFC 6761: nobody else may use them


def elements(path):
    """Elements of the sets `seen4/6` (address, protocol, port) and `rest4/6` (address, protocol) with their counters."""
    with open(path, encoding="utf-8") as source:
        text = source.read()
    if not text.strip():
        return None
    found = []
    for item in json.loads(text)["nftables"]:
        for element in item.get("set", {}).get("elem", []):
            key, count = element["elem"]["val"], element["elem"]["counter"]["packets"]
            address, protocol, *port = key["concat"]
            found.append((address, str(protocol), port[0] if port else None, count))
    return found


def main():
    names, control_names, loop, health, preflight = {}, 0, 0, 0, 0
    with open(sys.argv[1], encoding="utf-8") as log:
        for line in log:
            entry = json.loads(line)
            name = entry["name"]
            if entry["type"] == "HINFO" and re.fullmatch(r"\d+\.\d+", name):
                loop += 1
            elif (entry["type"], name) == ("NS", ""):
                health += 1
            elif name == CONTROL_NAME:
                control_names += 1
            elif re.fullmatch(r"kubexm-[0-9a-f]{12}\.invalid", name):
                preflight += 1
            else:
                names[name] = names.get(name, 0) + 1
    destinations, missing, control = [], [], {}
    for place in sys.argv[2:]:
        where, path = place.split("=", 1)
        found = elements(path)
        if found is None:
            missing.append(where)
        for address, protocol, port, count in found or []:
            if address == CONTROL_ADDRESS:
                control[where] = control.get(where, 0) + count
            else:
                destinations.append({"where": where, "address": address, "protocol": protocol, "port": port, "packets": count})
    destinations.sort(key=lambda d: (d["where"], d["address"], d["protocol"], str(d["port"])))
    print(json.dumps({
        "packets": sum(d["packets"] for d in destinations), "destinations": destinations,
        "dns": sorted(names), "questions": sum(names.values()), "corednsLoop": loop,
        "corednsHealth": health, "preflight": preflight,
        "missing": missing,
        "control": {"packets": control, "questions": control_names},
    }, indent=2))


if __name__ == "__main__":
    main()
