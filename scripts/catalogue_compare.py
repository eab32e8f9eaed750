"""`scripts/catalogue compare`: the catalogue against checkouts of upstream's repositories, by the rules of manifests/upstream.toml."""
import calendar
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import tempfile
import tomllib
from datetime import datetime
from pathlib import Path

from catalogue_render import Chart, Refused

HERE = Path(__file__).resolve().parent.parent
RULES = HERE / "manifests/upstream.toml"
RESULT = HERE / "manifests/data/verified.yaml"
HEAD = "# By what each row was checked: written by `scripts/catalogue compare`. A row without `verified` says why.\n"
LIMIT = 64 << 20
CONSTANTS = ("pause", "coredns", "etcd")
KUBERNETES = "Kubernetes"
EQUAL, DIFFERS, UNKNOWN = "equal", "differs", "cannot tell"
NO_HELM = "no --helm is given"
# Python before 3.11.4 (Debian 12) has no filters, and takes the argument for an error.
WITHIN = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


class CannotTell(Exception):
    """Upstream's side is not here, or does not say."""


class Upstream:
    """Checkouts by owner/name."""

    def __init__(self, folders):
        self.folders = {}
        for folder in folders:
            name = self.name(folder)
            self.folders[name] = folder

    @staticmethod
    def name(folder):
        """By the origin's address; without one by the folder's own name, `owner+name` or `owner/name`."""
        done = subprocess.run(["git", "-C", folder, "config", "--get", "remote.origin.url"], capture_output=True, text=True)
        if found := re.search(r"[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?$", done.stdout.strip()):
            return found[1]
        parts = [part for part in Path(folder).resolve().parts if part not in ("repo", ".git")]
        return parts[-1].replace("+", "/") if "+" in parts[-1] else "/".join(parts[-2:])

    def git(self, repository, *arguments):
        folder = self.folders.get(repository)
        if folder is None:
            raise CannotTell(f"no checkout of {repository}")
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True)
        if done.returncode:
            raise CannotTell(f"{repository}: {done.stderr.decode(errors='replace').strip().splitlines()[-1] if done.stderr else 'git fails'}")
        return done.stdout

    def commit(self, repository, tag):
        try:
            return self.git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{tag}^{{commit}}").decode().strip()
        except CannotTell as reason:
            if repository not in self.folders:
                raise
            raise CannotTell(f"{repository} has no {tag}") from reason

    def file(self, repository, tag, path):
        commit = self.commit(repository, tag)
        try:
            return self.git(repository, "show", f"{commit}:{path}")[:LIMIT]
        except CannotTell as reason:
            raise CannotTell(f"{repository} has no {path} at {tag}") from reason

    def dated(self, repository, tag):
        """What a moving name stood for."""
        return tag if tag != "HEAD" else self.commit(repository, tag)[:10]

    def with_text(self, repository, path, text):
        """The newest commit whose file has the text."""
        for commit in self.git(repository, "log", "--format=%H", "-n", "4", f"-S{text}", "--", path).decode().split():
            for one in (commit, f"{commit}^"):
                try:
                    if text in self.file(repository, one, path).decode(errors="replace"):
                        return self.commit(repository, one)
                except CannotTell:
                    continue
        raise CannotTell(f"no commit of {repository} has {text} in {path}")


def order(version):
    return [int(part) if part.isdigit() else 0 for part in re.split(r"[.-]", version)]


def minor(version):
    return ".".join(version.split(".")[:2])


def of(lines):
    """What was compared, so that a later change of the data is not taken for checked."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:12]


def fill(text, names):
    for name, value in names.items():
        text = text.replace("{%s}" % name, value)
    return text


def escaped(names):
    return {name: re.escape(value) for name, value in names.items()}


class Catalogue:
    """catalogue.json, as `kubexm-bundle catalogue show` prints it."""

    def __init__(self, document):
        self.features = document["features"]
        self.components = document["components"]
        self.releases = document["releases"]

    def images(self, feature, version):
        known = feature["versions"][version]
        for image in feature["images"]:
            span = image.get("versions", {})
            if order(version) < order(span.get("from", "0")) or ("to" in span and order(version)[: len(order(span["to"]))] > order(span["to"])):
                continue
            tag = known.get("tags", {}).get(image["name"], feature.get("tag", "v{version}"))
            yield image["repository"] + ":" + tag.replace("{version}", version)

    def dated(self, name):
        """What has ends of lines under a name: the feature where it has them, else the component."""
        one = self.features.get(name) or {}
        return one if "endOfLife" in one else self.components.get(name, one)

    def ends(self, name):
        if name == KUBERNETES:
            return {line: release["endOfLife"] for line, release in self.releases.items() if "endOfLife" in release}
        return self.dated(name).get("endOfLife", {})

    def chart(self, feature, version):
        rule = feature.get("chart", {}).get("version", "")
        return feature["versions"][version].get("chart", rule).replace("{version}", version)


def found(upstream, rule, repository, tag, names):
    images = set()
    for image in rule["images"]:
        path = fill(image.get("file") or image["archive"], names)
        data = upstream.file(repository, tag, path)
        if "member" in image:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                member = archive.extractfile(image["member"])
                if member is None:
                    raise CannotTell(f"{path} has no {image['member']}")
                data = member.read(LIMIT)
        text = data.decode(errors="replace")
        for match in re.finditer(fill(image["find"], escaped(names)), text, re.M):
            images.add(fill(match.expand(image.get("as", r"\1")), names).strip('"\''))
    for image in list(images):
        if any(re.search(expression, image) for expression in rule.get("ignore", [])):
            images.discard(image)
            continue
        for before, after in rule.get("rename", {}).items():
            if image.startswith(before):
                images.discard(image)
                images.add(after + image.removeprefix(before))
    return {image.split("@")[0] for image in images}


def feature_rows(upstream, catalogue, rules):
    by_name = {rule["name"]: rule for rule in rules}
    for name, feature in sorted(catalogue.features.items()):
        for version in sorted(feature["versions"], key=order):
            rule = by_name.get(name)
            row = {"feature": name, "version": version, "of": of(catalogue.images(feature, version))}
            try:
                if rule is None:
                    raise CannotTell("no rule says where upstream names its images")
                yield row | compare_feature(upstream, catalogue, feature, version, rule)
            except (CannotTell, tarfile.TarError, KeyError) as reason:
                yield row | {"result": UNKNOWN, "text": str(reason)}


def compare_feature(upstream, catalogue, feature, version, rule):
    minors = [m for m in catalogue.releases if order(feature["versions"][version]["kubernetes"]["from"]) <= order(m)]
    kubelet = catalogue.components.get("kubelet", {}).get("versions", {})
    newest = max((v for v in kubelet if minors and minor(v) == minors[0]), key=order, default="")
    names = {"version": version, "chart": catalogue.chart(feature, version), "kubernetes": newest}
    repository, tag = rule["repository"], fill(rule["tag"], names)
    if "history" in rule:
        tag = upstream.with_text(repository, fill(rule["images"][0]["file"], names), fill(rule["history"], names))
    upstream.commit(repository, tag)
    if "app" in rule:
        text = upstream.file(repository, tag, rule["app"]["file"]).decode(errors="replace")
        if not (match := re.search(rule["app"]["find"], text, re.M)):
            raise CannotTell(f"{rule['app']['file']} names no version")
        names["appVersion"] = match[1]
    if follow := rule.get("follow"):
        text = upstream.file(repository, tag, follow["file"]).decode(errors="replace")
        if not (match := re.search(follow["find"], text, re.M)):
            raise CannotTell(f"{follow['file']} at {tag} names no other tag")
        repository, tag = follow["repository"], match.expand(follow["tag"])
    theirs, ours = found(upstream, rule, repository, tag, names), set(catalogue.images(feature, version))
    if not theirs:
        raise CannotTell(f"nothing of {repository} at {tag} is found by the rule")
    if rule["how"] == "repositories":
        theirs, ours = ({image.rsplit(":", 1)[0] if ":" in image.rsplit("/", 1)[-1] else image for image in side} for side in (theirs, ours))
    missing, more = sorted(theirs - ours) if rule["how"] != "includes" else [], sorted(ours - theirs)
    files = sorted({fill(image.get("file") or image["archive"], names) for image in rule["images"]})
    by = f"{repository} {' '.join(files)}"
    if missing or more:
        text = "; ".join([f"upstream has {image}, the catalogue not" for image in missing] + [f"the catalogue has {image}, upstream not" for image in more])
        return {"result": DIFFERS, "by": by, "tag": upstream.dated(repository, tag), "text": text}
    shown = tag if not re.fullmatch("[0-9a-f]{40}", tag) else tag[:10]
    return {"result": EQUAL, "by": by, "tag": upstream.dated(repository, shown), "text": f"{len(ours)} images"}


def render_minors(catalogue, feature, version):
    """The minors that a version is the default for, in order."""
    span = feature["versions"][version]["kubernetes"]
    fits = [m for m in catalogue.releases if order(span["from"]) <= order(m) and ("to" not in span or order(m) <= order(span["to"]))]
    return sorted(fits, key=order)


def render_of(catalogue, feature, version):
    """What a rendering is compared for: these images, of this chart, for these minors."""
    minors = " ".join(render_minors(catalogue, feature, version))
    return [*catalogue.images(feature, version), f"chart {catalogue.chart(feature, version)}", f"minors {minors}"]


def rendered(upstream, rule, repository, tag, names, kubernetes, helm):
    """(images, a text): of every rendering of each set of values for each Kubernetes, and of each boolean turned for the newest."""
    render, images = rule["render"], set()
    with tempfile.TemporaryDirectory() as folder:
        if "archive" in render:
            with tarfile.open(fileobj=io.BytesIO(upstream.file(repository, tag, fill(render["archive"], names)))) as archive:
                archive.extractall(folder, **WITHIN)
            place = Path(folder) / render.get("chart", rule["name"])
        else:
            place = Path(folder) / render["chart"]
            linked = [path for path in render.get("linked", []) if upstream.git(repository, "ls-tree", upstream.commit(repository, tag), "--", path)]
            packed = upstream.git(repository, "archive", "--format=tar", upstream.commit(repository, tag), "--", render["chart"], *linked)
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(folder, **WITHIN)
            if "app" in render:
                template, app = place / render.get("template", "Chart.yaml"), fill(render["app"], names)
                text = (template if template.exists() else place / "Chart.yaml").read_text()
                (place / "Chart.yaml").write_text(re.sub(r"^(version|appVersion): .*$", rf"\g<1>: {app}", text, flags=re.M))
        chart = Chart(place, helm, render.get("always", {}))
        for values in render.get("values", [{}]):
            for version in kubernetes:
                try:
                    images |= chart.images(values, version)
                except Refused as reason:
                    raise CannotTell(f"helm template of {rule['name']} for {version} with {json.dumps(values)}: {reason}") from reason
        try:
            more, switches, refused = chart.switched(kubernetes[-1])
        except Refused as reason:
            raise CannotTell(f"helm template of {rule['name']}: {reason}") from reason
        return images | more, f"{switches} switches" + (f", {refused} of them need more values" if refused else "")


def completed(name):
    """A short name of an image as containerd completes it: `traefik:v3` is docker.io/library/traefik:v3."""
    host, slash, rest = name.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        host, rest = "docker.io", name
    return f"{host}/{rest}" if host != "docker.io" or "/" in rest else f"docker.io/library/{rest}"


def render_rows(upstream, catalogue, rules, helm):
    """Charts rendered for every minor they are the default for: what pods name is among the catalogue's images, or optional."""
    for rule in rules:
        feature = catalogue.features.get(rule["name"])
        if "render" not in rule or feature is None:
            continue
        for version in sorted(feature["versions"], key=order):
            optional = rule["render"].get("optional", [])
            row = {"render": rule["name"], "version": version, "of": of(render_of(catalogue, feature, version))}
            minors = render_minors(catalogue, feature, version)
            names = {"version": version, "chart": catalogue.chart(feature, version)}
            tag = fill(rule["tag"], names)
            try:
                if not helm:
                    raise CannotTell(NO_HELM)
                repository = rule["repository"]
                theirs, switches = rendered(upstream, rule, repository, tag, names, [f"v{m}.0" for m in minors], helm)
                usual = {completed(name) for name in theirs}
                asked = [re.compile(expression) for expression in optional]
                more = sorted(name for name in usual - set(catalogue.images(feature, version)) if not any(one.search(name) for one in asked))
                by = {"by": f"{repository} rendered for {len(minors)} minors", "tag": upstream.dated(repository, tag)}
                text = f"{len(usual)} images, {switches}" if not more else "; ".join(f"a pod names {name}, the catalogue not" for name in more)
                yield row | by | {"result": DIFFERS if more else EQUAL, "text": text}
            except (CannotTell, tarfile.TarError, OSError, subprocess.TimeoutExpired) as reason:
                yield row | {"result": UNKNOWN, "text": str(reason)}


def supports_of(known):
    """What is compared of a version's `supports` and `minimumKernel`, in the words of `Catalogue::compared` (manifests/src)."""
    span = known.get("supports", {})
    return [f"from {span.get('from', '')}", f"to {span.get('to', '')}", f"kernel {known.get('minimumKernel', '')}"]


def supports_rows(upstream, catalogue, rules):
    for rule in rules:
        feature = catalogue.features.get(rule["feature"])
        for version in sorted(feature["versions"], key=order) if feature else []:
            known = feature["versions"][version]
            ours = known.get("supports", {})
            row = {"supports": rule["feature"], "version": version, "of": of(supports_of(known))}
            names = {"version": version, "minor": minor(version), "chart": catalogue.chart(feature, version)}
            try:
                tag = fill(rule["tag"], names)
                file = fill(rule["file"], names)
                text = upstream.file(rule["repository"], tag, file).decode(errors="replace")
                match = re.search(fill(rule["find"], escaped(names)), text, re.M)
                if not match:
                    raise CannotTell(f"{file} of {rule['repository']} does not name {version}")
                minors = sorted(re.findall(r"[0-9]+\.[0-9]+", match[1]), key=order)
                theirs = {"from": minors[0]} if rule.get("open") else {"from": minors[0], "to": minors[-1]}
                wrong = [] if theirs == ours else [f"upstream names {theirs}, the catalogue {ours}"]
                if "kernel" in rule:
                    other = rule.get("kernelFile")
                    kernel = re.search(rule["kernel"], upstream.file(rule["repository"], tag, other).decode(errors="replace") if other else text, re.M)
                    has = known.get("minimumKernel")
                    if (kernel and kernel[1]) != has:
                        wrong.append(f"upstream names kernel {kernel and kernel[1]}, the catalogue {has}")
                by = {"by": f"{rule['repository']} {file}", "tag": upstream.dated(rule["repository"], tag)}
                if wrong:
                    yield row | by | {"result": DIFFERS, "text": "; ".join(wrong)}
                else:
                    yield row | by | {"result": EQUAL, "text": ", ".join(minors)}
            except CannotTell as reason:
                yield row | {"result": UNKNOWN, "text": str(reason)}


def names_of(upstream, rule, version, tag):
    """Names of files that the build files of a version do not make."""
    for names in rule.get("names", []):
        if order(version) < order(names.get("from", "0")):
            continue
        try:
            text = upstream.file(rule["repository"], tag, names["file"]).decode(errors="replace")
        except CannotTell:
            text = ""
        if names["text"] not in text:
            yield f"{version}: {names['file']} makes no {names['text']}"


def component_rows(upstream, catalogue, rules):
    for rule in rules:
        component = catalogue.components.get(rule["name"])
        if component is None:
            continue
        wrong, seen = [], []
        row = {"component": rule["name"], "of": of(component["versions"])}
        try:
            if not component["versions"]:
                raise CannotTell("the catalogue has no version of it")
            tags = set(upstream.git(rule["repository"], "tag", "--list").decode().split())
            more, others = rule.get("also"), set()
            if more and more["repository"] in upstream.folders:
                others = set(upstream.git(more["repository"], "tag", "--list").decode().split())
            asked = [rule["repository"]]
            for version in sorted(component["versions"], key=order):
                tag = rule["tag"].replace("{version}", version)
                if tag not in tags:
                    if more and more["tag"].replace("{version}", version) in others:
                        seen.append(version)
                        asked = [rule["repository"], more["repository"]]
                    else:
                        wrong.append(f"no tag {tag}")
                    continue
                seen.append(version)
                if "sha256" in rule:
                    digest = hashlib.sha256(upstream.file(rule["repository"], tag, rule["sha256"])).hexdigest()
                    pins = {pin["sha256"].removeprefix("sha256:") for pin in component["versions"][version].values()}
                    wrong += [f"{version}: {digest} at its tag, {other} is pinned" for other in sorted(pins - {digest})]
                wrong += names_of(upstream, rule, version, tag)
            row |= {"by": f"tags of {' and '.join(asked)}" + (f", {rule['sha256']}" if "sha256" in rule else "")}
            unknown = [text for text in wrong if text.startswith("no tag")]
            if len(unknown) < len(wrong):
                yield row | {"result": DIFFERS, "text": "; ".join(text for text in wrong if text not in unknown)}
            elif unknown:
                # A tag newer than the checkout is no fault of the catalogue's.
                yield row | {"result": UNKNOWN, "text": f"{len(seen)} versions have a tag; " + ", ".join(unknown)}
            else:
                yield row | {"result": EQUAL, "text": f"{len(seen)} versions"}
        except CannotTell as reason:
            yield row | {"result": UNKNOWN, "text": str(reason)}


def constants_rows(upstream, catalogue, rules):
    known = sorted(catalogue.components.get("kubelet", {}).get("versions", {}), key=order)
    for rule in rules:
        for name, release in sorted(catalogue.releases.items(), key=lambda item: order(item[0])):
            for patches in release["patches"]:
                last = patches.get("to", 10**6)
                versions = [v for v in known if minor(v) == name and patches["from"] <= order(v)[2] <= last]
                row = {"kubernetes": name, "from": patches["from"], "of": of(patches[constant] for constant in CONSTANTS)}
                try:
                    if not versions:
                        raise CannotTell("no patch of the range is known")
                    wrong = []
                    for version in sorted({versions[0], versions[-1]}, key=order):
                        text = upstream.file(rule["repository"], fill(rule["tag"], {"version": version}), rule["file"]).decode(errors="replace")
                        for constant in CONSTANTS:
                            match = re.search(rule[constant], text)
                            if not match:
                                raise CannotTell(f"{rule['file']} of {rule['repository']} at {fill(rule['tag'], {'version': version})} names no {constant}")
                            if match[1] != patches[constant]:
                                wrong.append(f"{version}: {constant} {match[1]}, the catalogue has {patches[constant]}")
                    by = {"by": f"{rule['repository']} {rule['file']}", "tag": f"v{versions[-1]}"}
                    yield row | by | ({"result": DIFFERS, "text": "; ".join(wrong)} if wrong else {"result": EQUAL, "text": f"v{versions[0]} to v{versions[-1]}"})
                except CannotTell as reason:
                    yield row | {"result": UNKNOWN, "text": str(reason)}


def day_of(text, dates):
    """A month alone lasts until its last day; commas are not counted on."""
    day = datetime.strptime(text.replace(",", ""), dates)
    if "%d" not in dates:
        day = day.replace(day=calendar.monthrange(day.year, day.month)[1])
    return day.strftime("%Y-%m-%d")


def end_rows(upstream, catalogue, rules):
    for rule in rules:
        about = [KUBERNETES] if rule.get("kubernetes") else rule["about"]
        try:
            text = upstream.file(rule["repository"], rule["tag"], rule["file"]).decode(errors="replace")
        except CannotTell as reason:
            for name in about:
                yield {"end": name, "lines": dict.fromkeys(catalogue.ends(name), UNKNOWN), "result": UNKNOWN, "text": str(reason)}
            continue
        theirs = {}
        for match in re.finditer(rule["find"], text, re.M):
            if "line" in rule:
                line, day = rule["line"], match[1]
            else:
                line, day = (match[2], match[1]) if rule.get("order") == "day, line" else (match[1], match[2])
            if order(line) >= order(rule.get("since", "0")):
                theirs[line] = day_of(day, rule["dates"])
        for name in about:
            ours = catalogue.ends(name)
            has = set() if rule.get("kubernetes") else {minor(version) for version in catalogue.dated(name).get("versions", {})}
            row = {"end": name, "lines": {line: UNKNOWN if line not in theirs else EQUAL if theirs[line] == day else DIFFERS for line, day in ours.items()}}
            wrong = [f"{line} ended {day}, the catalogue has {ours[line]}" for line, day in sorted(theirs.items()) if line in ours and ours[line] != day]
            lost = [f"{line} ended {day}, and the catalogue does not say so" for line, day in sorted(theirs.items()) if line not in ours and line in has]
            by = {"by": f"{rule['repository']} {rule['file']}", "tag": upstream.dated(rule["repository"], rule["tag"])}
            both = theirs.keys() & ours.keys()
            if wrong + lost:
                yield row | by | {"result": DIFFERS, "text": "; ".join(wrong + lost)}
            elif not both:
                yield row | {"result": UNKNOWN, "text": f"{rule['file']} of {rule['repository']} names no line whose end the catalogue has"}
            else:
                yield row | by | {"result": EQUAL, "text": f"{len(both)} lines"}


def newest_rows(upstream, catalogue, rules):
    """Of each line that the catalogue knows, the newest version that upstream lists."""
    for rule in rules:
        row = {"newest": rule["component"]}
        try:
            text = upstream.file(rule["repository"], rule["tag"], rule["file"]).decode(errors="replace")
            theirs = {match[1]: match[2] for match in re.finditer(rule["find"], text, re.M)}
            ours = {}
            for version in catalogue.components[rule["component"]]["versions"]:
                ours[minor(version)] = max(version, ours.get(minor(version), version), key=order)
            both = sorted((line for line in theirs.keys() & ours.keys() if order(line) >= order(rule.get("since", "0"))), key=order)
            if not both:
                raise CannotTell(f"nothing in {rule['file']} is found by the rule")
            old = [f"{theirs[line]} is there, the catalogue's newest is {ours[line]}" for line in both if order(theirs[line]) > order(ours[line])]
            by = {"by": f"{rule['repository']} {rule['file']}", "tag": upstream.dated(rule["repository"], rule["tag"])}
            yield row | by | ({"result": DIFFERS, "text": "; ".join(old)} if old else {"result": EQUAL, "text": f"{len(both)} lines"})
        except CannotTell as reason:
            yield row | {"result": UNKNOWN, "text": str(reason)}


def recommends_rows(upstream, catalogue, rules):
    """The versions of containerd that upstream names for a Kubernetes minor."""
    for rule in rules:
        for name, release in sorted(catalogue.releases.items(), key=lambda item: order(item[0])):
            ours = sorted(release.get("support", {}).get("recommendedContainerd", []), key=order)
            row = {"recommends": name, "of": of(ours)}
            try:
                text = upstream.file(rule["repository"], rule["tag"], rule["file"]).decode(errors="replace")
                if not (match := re.search(fill(rule["find"], escaped({"minor": name})), text, re.M)):
                    if "recommendedContainerd" not in release.get("support", {}):
                        continue
                    raise CannotTell(f"{rule['file']} of {rule['repository']} does not name {name}")
                theirs = sorted(re.findall(r"[0-9]+\.[0-9]+\.[0-9]+", match[1]), key=order)
                by = {"by": f"{rule['repository']} {rule['file']}", "tag": upstream.dated(rule["repository"], rule["tag"])}
                same = {"result": EQUAL, "text": ", ".join(theirs)}
                yield row | by | (same if theirs == ours else {"result": DIFFERS, "text": f"upstream names {', '.join(theirs)}, the catalogue {', '.join(ours) or 'none'}"})
            except CannotTell as reason:
                yield row | {"result": UNKNOWN, "text": str(reason)}


KINDS = {"feature": feature_rows, "supports": supports_rows, "recommends": recommends_rows, "component": component_rows, "newest": newest_rows, "constants": constants_rows, "end": end_rows}


def subject(row):
    for kind in ("feature", "render", "supports", "recommends", "component", "newest", "end"):
        if kind in row:
            return f"{kind} {row[kind]} {row.get('version', '')}".strip()
    return f"constants {row['kubernetes']} from patch {row['from']}"


def compare(document, folders, rules=RULES, helm=None):
    catalogue, upstream = Catalogue(document), Upstream(folders)
    with open(rules, "rb") as file:
        rules = tomllib.load(file)
    for kind, rows in KINDS.items():
        yield from rows(upstream, catalogue, rules.get(kind, []))
        if kind == "feature":
            yield from render_rows(upstream, catalogue, rules.get(kind, []), helm)


PLACE = ("kubernetes", "from", "recommends", "feature", "supports", "render", "version", "component", "end", "line")


def key(row):
    return tuple((name, row[name]) for name in PLACE if name in row)


def line(row):
    """A row of verified.yaml: JSON is YAML too."""
    return f"- {json.dumps(row, ensure_ascii=False)}\n"


def read_rows(text):
    """The lines that `line` has written."""
    return [json.loads(one.removeprefix("- ")) for one in text.splitlines() if one.startswith("- {")]


def is_of(catalogue, row):
    """Whether what a row is about is in the catalogue still."""
    if "feature" in row:
        return row["version"] in catalogue.features.get(row["feature"], {}).get("versions", {})
    for kind in ("supports", "render"):
        if kind in row:
            return row["version"] in catalogue.features.get(row[kind], {}).get("versions", {})
    if "component" in row:
        return row["component"] in catalogue.components
    if "end" in row:
        return row["line"] in catalogue.ends(row["end"])
    if "recommends" in row:
        return "recommendedContainerd" in catalogue.releases.get(row["recommends"], {}).get("support", {})
    return any(patches["from"] == row["from"] for patches in catalogue.releases.get(row["kubernetes"], {}).get("patches", []))


def by_line(rows, catalogue):
    """A row about the ends of several lines as one for each: a source that names one of them says nothing of the others."""
    for row in rows:
        if "lines" not in row:
            yield row
            continue
        for line, result in row["lines"].items():
            text = f"{row['text']}" if result == row["result"] else f"{row['by']} does not name {line}"
            yield row | {"line": line, "of": of([f"{line} {catalogue.ends(row['end'])[line]}"]), "result": result, "text": text}


def keep(rows, catalogue, result=RESULT, today=None):
    """Merges this result into the last one; a row that cannot be compared now keeps its last result and date, and one about nothing
    of the catalogue's goes."""
    today = today or datetime.now().strftime("%Y-%m-%d")
    last = read_rows(result.read_text()) if result.is_file() else []
    known = {key(row): row for row in last if is_of(catalogue, row)}
    equal = set()
    # Two sources may name one thing: of equal ones the first is kept, the one of upstream itself; what differs from either comes last,
    # and stays.
    for row in sorted(by_line(rows, catalogue), key=lambda row: row["result"] == DIFFERS):
        if not key(row) or "of" not in row or not is_of(catalogue, row) or (row["result"] == EQUAL and key(row) in equal):
            continue
        place = dict(key(row))
        if row["result"] == EQUAL:
            equal.add(key(row))
            verified = {name: row[name] for name in ("by", "tag") if row.get(name)} | {"date": today}
            known[key(row)] = place | {"of": row["of"], "verified": verified}
        elif row["result"] == DIFFERS:
            known[key(row)] = place | {"unverified": f"differs: {row['text']}"}
        elif "verified" not in known.get(key(row), {}):
            # What an earlier look has found says more than that there was none today.
            if key(row) not in known or not row["text"].startswith(("no checkout of", NO_HELM)):
                known[key(row)] = place | {"unverified": row["text"]}
        elif known[key(row)].get("of") != row["of"]:
            known[key(row)] = place | {"unverified": f"changed since it was compared; {row['text']}"}
    kinds = ["kubernetes", "feature", "component", "supports", "render", "recommends", "end"]

    def place_of(row):
        index, kind = next((index, kind) for index, kind in enumerate(kinds) if kind in row)
        numbered = kind in ("kubernetes", "recommends")
        version = order(row.get("version", row.get("line", "0")))
        return index, order(row[kind]) if numbered else [], row.get("from", 0), "" if numbered else row[kind], version

    lines = sorted(known.values(), key=place_of)
    partial = result.with_name(f".{result.name}.{os.getpid()}")
    with open(partial, "w") as file:
        file.write(HEAD + "".join(map(line, lines)))
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, result)


def document_of(path):
    if path:
        return json.loads(Path(path).read_text())
    command = os.environ.get("KUBEXM_BUNDLE", "cargo run --quiet --package kubexm-bundle --").split()
    done = subprocess.run([*command, "catalogue", "show"], cwd=HERE, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"{' '.join(command)} catalogue show: {done.stderr.strip()}")
    return json.loads(done.stdout)


def run(arguments, stream):
    folders, catalogue, rules, result, helm, written = [], None, RULES, RESULT, None, False
    options = iter(arguments)
    for option in options:
        if option == "--upstream":
            continue
        if option in ("--catalogue", "--rules", "--result", "--helm"):
            value = next(options, None)
            if value is None:
                raise ValueError(f"{option} wants a file")
            match option:
                case "--catalogue":
                    catalogue = value
                case "--rules":
                    rules = Path(value)
                case "--result":
                    result = Path(value)
                case _:
                    helm = value
        elif option == "--write":
            written = True
        elif option.startswith("-"):
            raise ValueError(f"{option} is no option; see scripts/catalogue --help")
        else:
            folders.append(option)
    if not folders:
        raise ValueError("no checkout is given; see scripts/catalogue --help")
    document = document_of(catalogue)
    rows = list(compare(document, folders, rules, helm))
    for row in rows:
        place = f" ({row['by']} at {row['tag']})" if row.get("tag") else f" ({row['by']})" if row.get("by") else ""
        print(f"{row['result']:<11} {subject(row)}: {row['text']}{place}", file=stream)
    counts = {result: sum(row["result"] == result for row in rows) for result in (EQUAL, DIFFERS, UNKNOWN)}
    print(", ".join(f"{count} {result}" for result, count in counts.items()), file=stream)
    if written:
        keep(rows, Catalogue(document), result)
    return 1 if counts[DIFFERS] else 0
