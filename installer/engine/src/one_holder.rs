//! Whether exactly one host has an address that moves between several: no host can answer that for the others, so each is asked.

use std::net::IpAddr;
use std::time::Duration;

use futures::future::join_all;
use kubexm_plan::balancer::MovedBy;
use kubexm_plan::{Probe, ProbeAnswer};

use crate::link::{Link, LinkError};
use crate::run_context::Links;

/// Time limit for one host, which only lists its interfaces.
const LIMIT: Duration = Duration::from_secs(10);

/// What each host answered: whether it has the address, or why that is not known.
type Answers<'a> = Vec<(&'a str, Result<bool, String>)>;

/// Runs a probe once: on the host of its step, or on every host that it names.
pub(crate) async fn ask(probe: &Probe, link: &dyn Link, links: &Links) -> Result<ProbeAnswer, LinkError> {
    let Probe::OneHasAddress { address, hosts, moved_by, .. } = probe else { return link.probe(probe).await };
    let own = Probe::HasAddress { address: *address };
    let looks = hosts.iter().map(|host| {
        let own = &own;
        async move {
            let Some(link) = links.get(host) else { return Ok((host.as_str(), Err("it is not connected".to_owned()))) };
            let answer = match tokio::time::timeout(LIMIT, link.probe(own)).await {
                Ok(Ok(answer)) => Ok(answer.holds),
                // One line of one host, whatever it is.
                Ok(Err(error)) if error.may_pass() => Err(kubexm_spec::one_line(&error.to_string())),
                Ok(Err(error)) => return Err(error),
                Err(_) => Err(format!("no answer within {} s", LIMIT.as_secs())),
            };
            Ok((host.as_str(), answer))
        }
    });
    let answers: Answers<'_> = join_all(looks).await.into_iter().collect::<Result<_, LinkError>>()?;
    Ok(verdict(*address, *moved_by, &answers))
}

fn verdict(address: IpAddr, moved_by: MovedBy, answers: &Answers<'_>) -> ProbeAnswer {
    let holders: Vec<&str> = answers.iter().filter(|(_, has)| *has == Ok(true)).map(|(host, _)| *host).collect();
    let silent: Vec<String> =
        answers.iter().filter_map(|(host, has)| Some(format!("{host} ({})", has.as_ref().err()?))).collect();
    let seen = match (holders.as_slice(), silent.as_slice()) {
        ([one], []) => return ProbeAnswer { holds: true, seen: format!("{one} has {address}") },
        ([], []) => {
            let all: Vec<&str> = answers.iter().map(|(host, _)| *host).collect();
            format!("none of {} has {address}: {}", all.join(", "), why_nobody(moved_by))
        }
        ([], silent) => format!("no host that answered has {address}; not known of {}", silent.join(", ")),
        ([one], silent) => {
            format!("{one} has {address}; whether others have it too is not known of {}", silent.join(", "))
        }
        (many, _) => {
            format!("{} hosts have {address}, {}: {}", many.len(), many.join(" and "), why_many(moved_by, address))
        }
    };
    ProbeAnswer { holds: false, seen }
}

const fn why_nobody(moved_by: MovedBy) -> &'static str {
    match moved_by {
        MovedBy::Keepalived => "`journalctl -u kubexm-keepalived` on these hosts says why",
        MovedBy::KubeVip => "the logs in /var/log/pods/kube-system_kube-vip-*/kube-vip on these hosts say why",
    }
}

fn why_many(moved_by: MovedBy, address: IpAddr) -> String {
    match moved_by {
        MovedBy::Keepalived => format!(
            "they do not hear each other. keepalived sends VRRP (IP protocol 112, neither TCP nor UDP) from each of these hosts to the \
             addresses of the others: firewalls of the hosts, filters of switches and security groups of a cloud must let it through in both \
             directions. Also look for {address} set by hand (`ip address show to {address}`)"
        ),
        MovedBy::KubeVip => format!(
            "only the holder of the lease plndr-cp-lock in kube-system has it by right (`kubectl -n kube-system get lease plndr-cp-lock`). A kube-vip \
             that was killed keeps it: `ip address show to {address}` on the others names the interface, and `ip address delete` takes it away there"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(moved_by: MovedBy, answers: &[(&'static str, Result<bool, &str>)]) -> ProbeAnswer {
        let answers = answers.iter().map(|(host, has)| (*host, (*has).map_err(str::to_owned))).collect();
        verdict([10, 0, 0, 100].into(), moved_by, &answers)
    }

    #[test]
    fn one_host_has_the_address_when_all_have_answered() {
        let one = seen(MovedBy::Keepalived, &[("lb1", Ok(false)), ("lb2", Ok(true))]);
        assert_eq!((one.holds, one.seen.as_str()), (true, "lb2 has 10.0.0.100"));
        let unknown = seen(MovedBy::Keepalived, &[("lb1", Err("no answer")), ("lb2", Ok(true))]);
        assert!(!unknown.holds && unknown.seen.contains("not known of lb1 (no answer)"), "{unknown:?}");
        let nobody = seen(MovedBy::Keepalived, &[("lb1", Err("no answer")), ("lb2", Ok(false))]);
        assert!(!nobody.holds && nobody.seen.starts_with("no host that answered has 10.0.0.100"), "{nobody:?}");
    }

    #[test]
    fn what_to_look_at_is_said_for_what_moves_the_address() {
        let two = [("a", Ok(true)), ("b", Ok(true)), ("c", Err("no answer"))];
        let keepalived = seen(MovedBy::Keepalived, &two);
        assert!(
            !keepalived.holds && keepalived.seen.starts_with("2 hosts have 10.0.0.100, a and b: they"),
            "{keepalived:?}"
        );
        assert!(keepalived.seen.contains("protocol 112"), "{keepalived:?}");
        let kube_vip = seen(MovedBy::KubeVip, &two).seen;
        assert!(kube_vip.contains("plndr-cp-lock") && !kube_vip.contains("112,"), "{kube_vip}");
        let nobody = seen(MovedBy::KubeVip, &[("a", Ok(false)), ("b", Ok(false))]).seen;
        assert!(nobody.starts_with("none of a, b has 10.0.0.100: the logs in /var/log/pods"), "{nobody}");
    }
}
