"""What dnf would install on an empty machine. Reads one JSON request from its input, writes one JSON answer."""

import json
import sys

import dnf
import dnf.exceptions

request = json.load(sys.stdin)
base = dnf.Base()
conf = base.conf
conf.plugins = False
conf.installroot = request["root"]
conf.cachedir = request["root"] + "/cache"
conf.persistdir = request["root"] + "/persist"
conf.logdir = request["root"] + "/log"
conf.install_weak_deps = False
conf.module_platform_id = "platform:" + request["platform"]
conf.substitutions["releasever"] = "9"
conf.substitutions["arch"] = conf.substitutions["basearch"] = request["arch"]
for repo in request["repos"]:
    base.repos.add_new_repo(repo["id"], conf, baseurl=["file://" + repo["folder"]], module_hotfixes=repo["hotfixes"], priority=repo["priority"])
base.fill_sack(load_system_repo=False)
if request["enabled"]:
    import dnf.module.module_base
    import libdnf

    try:
        dnf.module.module_base.ModuleBase(base).enable(request["enabled"])
    except dnf.exceptions.MarkingErrors as errors:
        # A default that gives way to what was enabled is told by dnf's own command, too, which then goes on.
        kinds = libdnf.module.ModulePackageContainer
        if errors.no_match_group_specs or errors.error_group_specs or errors.module_depsolv_errors[1] != kinds.ModuleErrorType_ERROR_IN_DEFAULTS:
            raise
answers = []
for roots in request["sets"]:
    base.reset(goal=True)
    try:
        for root in roots:
            base.install(root)
        base.resolve()
        packages = base.transaction.install_set if base.transaction else []
        answers.append({"packages": sorted("%s %s" % (package.reponame, package) for package in packages)})
    except dnf.exceptions.Error as error:
        answers.append({"error": str(error)})
json.dump(answers, sys.stdout)
