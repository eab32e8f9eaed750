#!/usr/bin/env python3
"""Looks at a run's folder (plan.json, journal.jsonl), or at the events of one.

  overlap RUN                  two hosts were worked on at the same moment
  one-at-a-time RUN            no two control planes were joining at the same moment
  nothing-done EVENTS          every step that ended was satisfied
  only-done EVENTS STEP...     these steps were done, and every other one was satisfied
  seconds RUN                  the longest steps, for people
  next-kill RUN SEED KILL OF   the record of the next attempt to die at, as the KILLth of OF over what is left of the run
  before-init RUN SEED KILL OF the same over what is left before `kubeadm init`
  init RUN                     the step that runs `kubeadm init`
  said RUN RECORD STEP         the attempt that is under way, or was the last, has journalled this
  pick PLAN SEED EARLY LATE    ids of steps to fail: EARLY of those before `kubeadm init` begins, LATE of those after it: one is the
                               last join of a control plane, which by then is a member of etcd
  failed-and-taken-back EVENTS the stream ends with a failure, and with every change rolled back
"""
import datetime
import json
import random
import sys
from pathlib import Path


def journal(run):
    text = (Path(run) / "journal.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def steps(path):
    found = json.loads(Path(path).read_text())
    return found.get("plan", found)["steps"]


def seconds(entry):
    return datetime.datetime.fromisoformat(entry["time"].replace("Z", "+00:00")).timestamp()


def intervals(run):
    """(step, from, to) of every step that changed something, by its write-ahead record and its last."""
    begun, out = {}, []
    for entry in journal(run):
        if entry["record"] == "stepPrepared":
            begun[entry["step"]] = seconds(entry)
        elif entry["record"] == "stepDone" and entry["step"] in begun:
            out.append((entry["step"], begun.pop(entry["step"]), seconds(entry)))
    return out


def host(step):
    return step.split("/")[0]


def meet(a, b):
    return a[1] < b[2] and b[1] < a[2]


def overlap(run):
    spans = [span for span in intervals(run) if host(span[0]) != "@controller"]
    found = [(a[0], b[0]) for a in spans for b in spans if host(a[0]) < host(b[0]) and meet(a, b)]
    pairs = {(host(a), host(b)) for a, b in found}
    print(len(found), "pairs of steps overlapped, on", sorted(pairs))
    hosts = {host(step["id"]) for step in steps(Path(run) / "plan.json")} - {"@controller"}
    assert len(hosts) < 2 or pairs, "no two hosts were ever worked on at the same moment"


def acts(step):
    return [op for op in step["ops"] if op.get("op") == "act"]


def makes_cluster(step):
    return any(act.get("act") == "kubeadmInit" for act in acts(step))


def makes_control_plane(step):
    """kubeadm init, or a join as a control plane."""
    return makes_cluster(step) or any(act.get("controlPlane") is True for act in acts(step))


def one_at_a_time(run):
    plan = steps(Path(run) / "plan.json")
    joining = {s["id"] for s in plan if makes_control_plane(s)}
    spans = [span for span in intervals(run) if span[0] in joining]
    print(spans)
    assert len(spans) > 1, f"one control plane or none was made: {joining}"
    both = [(a[0], b[0]) for a in spans for b in spans if a[0] < b[0] and meet(a, b)]
    assert not both, both


def nothing_done(events):
    ends = [e for e in map(json.loads, open(events)) if e["type"] == "step-ended"]
    other = [(e["step"], e["outcome"]) for e in ends if e["outcome"] != "satisfied"]
    assert ends and not other, other


def only_done(events, *steps):
    ends = [e for e in map(json.loads, open(events)) if e["type"] == "step-ended"]
    other = {e["step"]: e["outcome"] for e in ends if e["outcome"] != "satisfied"}
    assert other == dict.fromkeys(steps, "done"), other


def print_seconds(run):
    for step, begun, ended in sorted(intervals(run), key=lambda s: s[1] - s[2])[:15]:
        print(f"{ended - begun:7.1f} s  {step}")


def ended(run):
    """Steps that hold, as far as the journal says."""
    return {e["step"] for e in journal(run) if e["record"] in ("stepDone", "stepSatisfied")}


def ancestors(plan, ids):
    by_id, found, todo = {s["id"]: s for s in plan}, set(), list(ids)
    while todo:
        for parent in by_id[todo.pop()].get("after", []):
            if parent not in found:
                found.add(parent)
                todo.append(parent)
    return found


def draw(run, seed, kill, of, wanted, keep=0):
    """A number of a record, over all attempts. Each begins with one and looks at what holds (a record each), while steps that
    are still to be done write one or two: it dies among either. At least one step is left for each kill that follows, and so
    many as are kept; and an attempt whose steps all hold dies before it says so."""
    held = ended(run)
    left, kills = len(wanted - held) - keep, of - kill + 1
    share = max(1, min(left - kills + 1, 2 * left // kills))
    record = random.Random(f"{seed}/{kill}").randint(1, len(held) + share)
    return len(journal(run)) + 1 + min(record, len(steps(Path(run) / "plan.json")) - 1)


def next_kill(run, seed, kill, of):
    print(draw(run, seed, int(kill), int(of), {s["id"] for s in steps(Path(run) / "plan.json")}))


def before_init(run, seed, kill, of):
    """Nothing when its host has no longer enough to do: it would be begun while the other hosts write their records."""
    plan, keep = steps(Path(run) / "plan.json"), 10
    wanted = ancestors(plan, [s["id"] for s in plan if makes_cluster(s)])
    if len(wanted - ended(run)) > keep:
        print(draw(run, seed, int(kill), int(of), wanted, keep))


def init(run):
    print(next(s["id"] for s in steps(Path(run) / "plan.json") if makes_cluster(s)))


def said(run, record, step):
    entries = journal(run)
    begun = max(i for i, entry in enumerate(entries) if entry["record"] in ("runStarted", "resumed"))
    if not any(e["record"] == record and e.get("step") == step for e in entries[begun:]):
        sys.exit(1)


def pick(path, seed, early, late):
    plan, chance = steps(path), random.Random(seed)
    # a step that only looks has nothing that could fail in between
    able = [s["id"] for s in plan if s["ops"]]
    first = ancestors(plan, [s["id"] for s in plan if makes_cluster(s)])
    last = [s["id"] for s in plan if makes_control_plane(s)][-1]
    begun = {s["id"] for s in plan if makes_cluster(s)}
    after = [i for i in able if i != last and begun & ancestors(plan, [i])]
    late = [last][:int(late)] + chance.sample(after, max(0, int(late) - 1))
    print("\n".join(sorted(chance.sample([i for i in able if i in first], int(early))) + sorted(late)))


def rolled_back(events):
    lines = [json.loads(line) for line in open(events)]
    outcomes = {}
    for e in lines:
        if e["type"] == "step-ended":
            outcomes[e["step"]] = e["outcome"]
    print(lines[-1])
    assert lines[-1]["type"] == "result" and lines[-1]["exitCode"] == 70, lines[-1]
    assert "undone" in outcomes.values(), "nothing was rolled back"
    left = [step for step, outcome in outcomes.items() if outcome == "done"]
    assert not left, f"not rolled back: {left}"


WORDS = {"overlap": overlap, "one-at-a-time": one_at_a_time, "nothing-done": nothing_done, "only-done": only_done,
         "seconds": print_seconds,
         "next-kill": next_kill, "before-init": before_init, "init": init, "said": said,
         "pick": pick, "failed-and-taken-back": rolled_back}
WORDS[sys.argv[1]](*sys.argv[2:])
