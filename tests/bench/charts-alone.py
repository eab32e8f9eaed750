"""From the events of a run to the seconds that its charts take: rendered before it, and from the first of their steps to the end of the last.
What else a run does it does without charts, too."""

import datetime
import json
import sys

phases, steps = {}, []
for line in open(sys.argv[1]):
    if not line.startswith("{"):
        continue
    event = json.loads(line)
    at = datetime.datetime.fromisoformat(event["time"]).timestamp()
    if event["type"] == "phase":
        phases[event["name"]] = at
    elif event["type"] in ("step-started", "step-ended") and "/addons." in event["step"]:
        steps.append(at)
rendered = phases["compare"] - phases["render"]
print(f"{rendered + max(steps) - min(steps):.2f}")
