#!/usr/bin/env python3
"""playbook.py PLAN FOLDER: an ansible playbook and inventory that look at what the plan of a cluster says of each host: its files and
programs by checksum, its links, its units. No task changes anything; each fails when what it looks at is otherwise.

It is written as somebody who minds its speed would: no facts that nobody reads, one connection that stays, pipelining, hosts in
parallel, one task a kind, all units by one question. Secrets have no checksum in a plan: their files are only seen to be there."""
import json
import sys
from pathlib import Path

plan_path, folder = sys.argv[1:3]
found = json.loads(Path(plan_path).read_text())
plan = found.get("plan", found)
hosts = {}
for step in plan["steps"]:
    of = hosts.setdefault(step["host"], {"files": {}, "present": set(), "links": {}, "folders": set(), "units": {}})
    for op in step["ops"]:
        kind = op["op"]
        if kind == "file" and op["content"]["from"] == "text":
            of["files"][op["path"]] = op["content"]["digest"].removeprefix("sha256:")
        elif kind == "file":
            of["present"].add(op["path"])
        elif kind == "binary":
            of["files"][op["path"]] = op["blob"].removeprefix("sha256:")
        elif kind == "unpacked":
            of["present"].update(op["members"].values())
        elif kind == "link":
            of["links"][op["path"]] = op["target"]
        elif kind == "dir":
            of["folders"].add(op["path"])
        elif kind == "unit" and op["running"]:
            of["units"][op["name"]] = "running"

tasks = [
    {"name": "files and programs", "ansible.builtin.stat": {"path": "{{ item.key }}", "checksum_algorithm": "sha256"}, "register": "seen",
     "loop": "{{ files | dict2items }}", "loop_control": {"label": "{{ item.key }}"},
     "failed_when": "not seen.stat.exists or seen.stat.checksum != item.value"},
    {"name": "what has no checksum", "ansible.builtin.stat": {"path": "{{ item }}", "get_checksum": False}, "register": "seen",
     "loop": "{{ present }}", "failed_when": "not seen.stat.exists"},
    {"name": "links", "ansible.builtin.stat": {"path": "{{ item.key }}"}, "register": "seen", "loop": "{{ links | dict2items }}",
     "failed_when": "not seen.stat.exists or seen.stat.lnk_target != item.value"},
    {"name": "units", "ansible.builtin.service_facts": {}},
    {"name": "they run", "ansible.builtin.assert": {"that": "ansible_facts.services[item].state == 'running'", "quiet": True}, "loop": "{{ units }}"},
    {"name": "packages", "ansible.builtin.package_facts": {}},
    {"name": "they are there", "ansible.builtin.assert": {"that": "item in ansible_facts.packages", "quiet": True},
     "loop": ["iptables", "conntrack", "socat", "ebtables", "ipset", "ethtool", "kmod"]},
]
play = [{"hosts": "all", "gather_facts": False, "become": True, "tasks": tasks}]
Path(folder, "playbook.json").write_text(json.dumps(play, indent=1))
count = {name: sum(map(len, of.values())) for name, of in hosts.items()}
print(count, file=sys.stderr)
for name, of in hosts.items():
    Path(folder, "host_vars").mkdir(parents=True, exist_ok=True)
    Path(folder, "host_vars", f"{name}.json").write_text(json.dumps({k: sorted(v) if isinstance(v, set) else (list(v) if k == "units" else v)
                                                                     for k, v in of.items()}, indent=1))
