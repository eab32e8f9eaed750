"""Feature gates of Kubernetes by minor version, read from its Go sources (manifests/data/feature-gates.yaml)."""
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
TABLE = HERE / "manifests/data/feature-gates.yaml"
HEAD = """\
# Feature gates that every component of Kubernetes knows, by the minor versions that have them; written by `scripts/catalogue gates`.
# `since`: the first one; none: it was there in {first} already. `until`: the last one; none: it is there in {last}.
# `read`: the patch of each minor version that was read; a later one may have brought a gate.
# `locked`: from which one on it can only be set to `to`.
# A gate that a component does not know ends it when it starts ("unrecognized feature gate"), and so does another value of a locked one.
"""
ROW = re.compile(r"^  (\w+): \{(.*)\}$")
# Constants that name a gate, and keys of the maps in which gates are registered, each with its specifications.
CONSTANT = re.compile(r'\b(\w+)\s+(?:\w+\.)?Feature\s*=\s*"([A-Za-z0-9]+)"')
UNTYPED = re.compile(r'^\s+([A-Z]\w*)\s*=\s*"(\1)"$', re.M)
LOCK = re.compile(r"LockToDefault:\s*true")
DEFAULT = re.compile(r"Default:\s*(true|false)")
VERSION = re.compile(r'Version:\s*version\.MustParse\("(\d+)\.(\d+)"\)')


def number(minor):
    return int(minor.split(".")[1])


def specifications(text):
    """Names in the source, each with the text of its specifications."""
    for match in re.finditer(r"^[ \t]*(?:\w+\.)?([A-Z]\w*):[ \t]*\{", text, re.M):
        depth, at = 1, match.end()
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        yield match[1], text[match.end() : at - 1]


def gates_of(folder, minor):
    """{gate: None, or what it is locked to} of the sources of one version."""
    found, constants = {}, {}
    sources = [
        re.sub(r"//.*", "", path.read_text(errors="replace"))
        for path in sorted(Path(folder).rglob("*.go"))
        if not path.name.endswith("_test.go")
    ]
    for text in sources:
        constants.update(UNTYPED.findall(text))
        constants.update(CONSTANT.findall(text))
    for text in sources:
        for name, specification in specifications(text):
            # A constant alone is no gate: components know those that are registered.
            gate = constants.get(name)
            if gate is None:
                continue
            found.setdefault(gate, None)
            for one in re.findall(r"\{([^{}]*)\}", specification) or [specification]:
                since = VERSION.search(one)
                if LOCK.search(one) and (since is None or int(since[2]) <= number(minor)):
                    default = DEFAULT.search(one)
                    found[gate] = default is not None and default[1] == "true"
    return found


def read(path=TABLE):
    """{minor: {gate: None, or what it is locked to}} of the table, and {minor: patch that was read}."""
    if not path.exists():
        return {}, {}
    text = path.read_text()
    minors = re.search(r"^minors: \[(.*)\]$", text, re.M)[1].replace('"', "").split(", ")
    patches = [int(patch) for patch in re.search(r"^read: \[(.*)\]$", text, re.M)[1].split(", ")]
    known = {minor: {} for minor in minors}
    for line in text.splitlines():
        row = ROW.match(line)
        if not row:
            continue
        fields = dict(field.split(": ") for field in row[2].replace('"', "").split(", ") if field)
        for minor in minors:
            inside = number(fields.get("since", minors[0])) <= number(minor) <= number(fields.get("until", minors[-1]))
            if inside:
                locked = "locked" in fields and number(fields["locked"]) <= number(minor)
                known[minor][row[1]] = fields["to"] == "true" if locked else None
    return known, dict(zip(minors, patches))


def table(known, patches):
    minors = sorted(known, key=number)
    lines = [HEAD.format(first=minors[0], last=minors[-1])]
    lines.append("minors: [" + ", ".join(f'"{minor}"' for minor in minors) + "]\n")
    lines.append("read: [" + ", ".join(str(patches[minor]) for minor in minors) + "]\ngates:\n")
    for gate in sorted(set().union(*known.values())):
        there = [minor for minor in minors if gate in known[minor]]
        if there != minors[minors.index(there[0]) : minors.index(there[-1]) + 1]:
            raise ValueError(f"{gate} is missing in a minor version between {there[0]} and {there[-1]}: is a folder incomplete?")
        fields = []
        if there[0] != minors[0]:
            fields.append(f'since: "{there[0]}"')
        if there[-1] != minors[-1]:
            fields.append(f'until: "{there[-1]}"')
        locked = [minor for minor in there if known[minor][gate] is not None]
        if locked and locked != there[there.index(locked[0]) :]:
            raise ValueError(f"{gate} is locked in {locked[0]} and not in a later version, which the table cannot say")
        if locked:
            fields.append(f'locked: "{locked[0]}", to: {str(known[locked[0]][gate]).lower()}')
        lines.append(f"  {gate}: {{{', '.join(fields)}}}\n")
    return "".join(lines)


def run(folders, out):
    known, patches = read()
    for folder in folders:
        match = re.search(r"v?(1\.\d+)\.(\d+)/?$", str(folder))
        if not match:
            raise ValueError(f"{folder}: its name does not end with a version, v1.36.3")
        found = gates_of(folder, match[1])
        if len(found) < 50:
            raise ValueError(f"{folder}: {len(found)} feature gates are too few for Kubernetes {match[1]}: give it the sources of pkg/features and of the modules")
        known[match[1]], patches[match[1]] = found, int(match[2])
    if not known:
        raise ValueError("no folder is named")
    TABLE.write_text(table(known, patches))
    print(f"{TABLE}: {len(set().union(*known.values()))} feature gates of {len(known)} minor versions", file=out)
    return 0
