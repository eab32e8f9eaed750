//! The address that keepalived moves between the hosts of the load balancer.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use kubexm_plan::ProbeAnswer;
use kubexm_plan::balancer::KEEPALIVED_UNIT;

use super::answer::{no, yes};
use crate::{Machine, OpError, systemd};

/// Within the network of the hosts; the next check follows soon.
const LIMIT: Duration = Duration::from_secs(2);

/// A connection is enough: the proxy accepts it before there is any API server.
pub(super) fn look(machine: &Machine, address: SocketAddr) -> Result<ProbeAnswer, OpError> {
    if !systemd::show(machine, KEEPALIVED_UNIT)?.active() {
        return Ok(no("keepalived does not run".to_owned()));
    }
    if !machine.is_real() {
        return Ok(yes(format!("{address} accepts connections")));
    }
    Ok(match TcpStream::connect_timeout(&address, LIMIT) {
        Ok(_) => yes(format!("{address} accepts connections")),
        Err(error) => no(format!("no host of the load balancer has {address} ready: {error}")),
    })
}
