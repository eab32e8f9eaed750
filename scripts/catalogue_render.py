"""Charts rendered by the real helm for `scripts/catalogue compare --helm`: which images pods name, with which values."""
import json
import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

IMAGE = re.compile(r'^\s*(?:- )?image:\s*["\']?([^"\'\s]+)["\']?\s*$', re.M)
# As helm merges them, those of charts within the chart included. Read from a template, so that no YAML is read here.
ASKED = "kubexm-asked.yaml"


class Refused(Exception):
    """The chart does not render with these values: helm's own words."""


class Chart:
    """An unpacked chart. `always` are values that each rendering has."""

    def __init__(self, folder, helm, always):
        self.folder, self.helm, self.always = Path(folder), helm, always

    def template(self, values, kubernetes, *more):
        # A file of its own for each: several are rendered at once.
        with tempfile.NamedTemporaryFile("w", suffix=".json", dir=self.folder.parent) as file:
            json.dump(merged(self.always, values), file)
            file.flush()
            command = [self.helm, "template", "x", str(self.folder), "--include-crds", "--skip-tests", "--kube-version", kubernetes, "--values", file.name, *more]
            home = {"HOME": str(self.folder.parent), "PATH": os.environ.get("PATH", "")}
            done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder.parent, env=home, timeout=300)
        if done.returncode:
            raise Refused(done.stderr.strip()[-300:])
        return done.stdout

    def images(self, values, kubernetes):
        return {image.split("@")[0] for image in IMAGE.findall(self.template(values, kubernetes))}

    def values(self, kubernetes):
        """All values that the chart has, with its own defaults."""
        asked = self.folder / "templates" / ASKED
        asked.parent.mkdir(exist_ok=True)
        asked.write_text("kind: Values\nvalues: {{ .Values | toJson }}\n")
        try:
            text = self.template({}, kubernetes, "--show-only", f"templates/{ASKED}")
        finally:
            asked.unlink()
        return json.loads(text.partition("\nvalues: ")[2])

    def switched(self, kubernetes):
        """(images, number of switches, number of switches that the chart refuses): each boolean of the values turned by itself, and
        as many as possible of those that are off turned on together, since what one shows may depend on another."""
        switches = list(booleans(self.values(kubernetes)))
        refused, images = 0, set()

        def alone(switch):
            try:
                return self.images(nested(*switch), kubernetes)
            except Refused:
                return None

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(alone, switches):
                refused += found is None
                images |= found or set()
        on = {}
        for group in grouped([switch for switch in switches if switch[1]]):
            on = self.together(on, group, kubernetes)
        images |= self.images(on, kubernetes)
        return images, len(switches), refused

    def together(self, on, group, kubernetes):
        """`on` with all of the group that the chart accepts beside it."""
        wanted = on
        for switch in group:
            wanted = merged(wanted, nested(*switch))
        try:
            self.template(wanted, kubernetes)
            return wanted
        except Refused:
            half = len(group) // 2
            if not half:
                return on
            return self.together(self.together(on, group[:half], kubernetes), group[half:], kubernetes)


def booleans(values, path=()):
    """(path, the other value) of each boolean below maps; what is in lists has no name."""
    for name, value in values.items():
        if isinstance(value, bool):
            yield (*path, name), not value
        elif isinstance(value, dict):
            yield from booleans(value, (*path, name))


def nested(path, value):
    for name in reversed(path):
        value = {name: value}
    return value


def merged(below, above):
    """Maps are merged, everything else is replaced."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {name: merged(below[name], value) if name in below else value for name, value in above.items()}


def grouped(switches, size=32):
    return [switches[at : at + size] for at in range(0, len(switches), size)]
