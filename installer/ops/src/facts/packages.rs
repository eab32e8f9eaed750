//! Installed packages, according to the package manager. A database that cannot be read is a fact like any other, and
//! is reported only if the host needs packages.

use std::collections::BTreeMap;

use kubexm_packages::deb::status;
use kubexm_packages::rpm::installed;
use kubexm_plan::facts::InstalledPackages;
use kubexm_spec::Family;

use super::held;
use crate::system::Program;
use crate::{Machine, dpkg_lock, fsio, paths};

const STATUS: &str = "/var/lib/dpkg/status";
/// Timeout for rpm in seconds. A stale lock of its database would block for ever.
const LIMIT_S: u64 = 30;
/// Seconds to wait for a running dpkg before it is reported.
const AT_WORK_S: u64 = 60;
/// rpm-based systems that may also have dpkg and apt.
const OF_RPM: [&str; 4] = ["rhel", "fedora", "centos", "openeuler"];

/// None without a supported package manager.
pub(super) fn look(machine: &Machine, release: &BTreeMap<String, String>) -> Option<InstalledPackages> {
    let family = family(machine, release)?;
    let (list, broken) = match family {
        Family::Deb => {
            // Often it was started by a run that has lost its controller, and finishes soon.
            if dpkg_lock::is_cut_off(machine) {
                dpkg_lock::wait(machine, AT_WORK_S);
            }
            (dpkg(machine), in_the_middle(machine))
        }
        Family::Rpm => (rpm(machine), None),
    };
    Some(match list {
        Ok(list) => InstalledPackages { family, list, broken },
        Err(why) => InstalledPackages { family, list: String::new(), broken: Some(why) },
    })
}

fn family(machine: &Machine, release: &BTreeMap<String, String>) -> Option<Family> {
    let has = |name: &str| paths::PATH.split(':').any(|folder| machine.path(format!("{folder}/{name}")).exists());
    let (deb, rpm) = (has("apt-get") && machine.path(STATUS).exists(), has("dnf") || has("yum"));
    let of_rpm = ["ID", "ID_LIKE"]
        .iter()
        .filter_map(|key| release.get(*key))
        .any(|words| words.split_whitespace().any(|word| OF_RPM.iter().any(|known| word.eq_ignore_ascii_case(known))));
    match (deb, rpm) {
        (true, true) if of_rpm => Some(Family::Rpm),
        (true, _) => Some(Family::Deb),
        (false, true) => Some(Family::Rpm),
        (false, false) => None,
    }
}

fn dpkg(machine: &Machine) -> Result<String, String> {
    let bytes = fsio::read(&machine.path(STATUS)).map_err(|error| error.full())?.unwrap_or_default();
    status::reduced(bytes.as_slice()).map_err(|error| format!("{STATUS} {error}"))
}

/// Why dpkg's status file is incomplete. A running program is not an interruption: it finishes by itself.
fn in_the_middle(machine: &Machine) -> Option<String> {
    if !dpkg_lock::is_cut_off(machine) {
        return None;
    }
    match dpkg_lock::holder(machine) {
        Some(holder) => Some(format!(
            "another package manager is running: {holder}; wait until it has ended, then run \
                                      again"
        )),
        // It may have finished meanwhile.
        None => {
            dpkg_lock::is_cut_off(machine).then(|| "dpkg was interrupted; `dpkg --configure -a` repairs it".to_owned())
        }
    }
}

fn rpm(machine: &Machine) -> Result<String, String> {
    let query = Program::new("rpm").args(["-qa", "--queryformat", installed::QUERY]).within(LIMIT_S);
    let output = machine.try_run(&query).map_err(|error| error.full())?;
    if output.code != 0 || output.stdout.is_empty() {
        return Err(format!("`rpm -qa` ended with exit code {}: {}", output.code, output.tail()));
    }
    let holds = held::look(machine)
        .map_err(|error| format!("held and excluded packages cannot be determined: {}", error.full()))?;
    Ok(installed::reduced(&output.stdout()) + &holds.iter().map(|hold| format!("{hold}\n")).collect::<String>())
}
