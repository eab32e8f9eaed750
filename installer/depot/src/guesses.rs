//! How often one address may be wrong about the login. Who has been right once is not counted: those are remembered.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wrong logins of one address within a minute: somebody who mistypes, or all clients of a node whose password is old.
pub(crate) const MOST: u32 = 20;
const WITHIN: Duration = Duration::from_secs(60);
/// Addresses that are remembered.
const ADDRESSES: usize = 4096;

/// Wrong logins by address.
#[derive(Clone, Debug)]
pub(crate) struct Guesses {
    most: u32,
    wrong: Arc<Mutex<HashMap<IpAddr, Wrong>>>,
}

#[derive(Clone, Copy, Debug)]
struct Wrong {
    count: u32,
    since: Instant,
}

/// Where a request is from, and what was wrong from there.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: IpAddr,
    guesses: Guesses,
}

impl Guesses {
    pub(crate) fn at_most(most: u32) -> Self {
        Self { most, wrong: Arc::default() }
    }

    pub(crate) fn client(&self, address: IpAddr) -> Client {
        Client { address: network(address), guesses: self.clone() }
    }

    fn may_guess(&self, address: IpAddr, now: Instant) -> bool {
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.get(&address).is_none_or(|wrong| wrong.count < self.most || is_over(wrong, now))
    }

    fn was_wrong(&self, address: IpAddr, now: Instant) {
        let mut all = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= ADDRESSES {
            all.retain(|_, wrong| !is_over(wrong, now));
        }
        if all.len() >= ADDRESSES {
            // From so many addresses at once: what each may still do costs no more than the comparisons, which wait for each other.
            all.clear();
        }
        let wrong = all.entry(address).or_insert(Wrong { count: 0, since: now });
        if is_over(wrong, now) {
            *wrong = Wrong { count: 0, since: now };
        }
        wrong.count += 1;
    }
}

impl Client {
    /// Whether another login from there is looked at now.
    pub(crate) fn may_guess(&self) -> bool {
        self.guesses.may_guess(self.address, Instant::now())
    }

    pub(crate) fn was_wrong(&self) {
        self.guesses.was_wrong(self.address, Instant::now());
    }
}

fn is_over(wrong: &Wrong, now: Instant) -> bool {
    now.saturating_duration_since(wrong.since) >= WITHIN
}

/// A machine has a whole network of IPv6 addresses (64 bits of it).
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => std::net::Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_wrong_too_often_waits_a_minute_and_others_do_not() {
        let (guesses, now) = (Guesses::at_most(2), Instant::now());
        let [one, other]: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        for _ in 0..2 {
            assert!(guesses.may_guess(one, now));
            guesses.was_wrong(one, now);
        }
        assert!(!guesses.may_guess(one, now) && guesses.may_guess(other, now));
        assert!(!guesses.may_guess(one, now + WITHIN / 2) && guesses.may_guess(one, now + WITHIN));
        guesses.was_wrong(one, now + WITHIN);
        assert!(guesses.may_guess(one, now + WITHIN), "it is counted anew");
    }

    #[test]
    fn many_addresses_need_no_more_memory_and_one_network_is_one_address() {
        let (guesses, now) = (Guesses::at_most(1), Instant::now());
        for number in 0..u32::try_from(ADDRESSES * 2).unwrap() {
            guesses.was_wrong(IpAddr::V4(number.into()), now);
        }
        assert!(guesses.wrong.lock().unwrap().len() <= ADDRESSES);
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("fd00:1:2:3:4::1"), of("fd00:1:2:3::2"));
        assert_ne!(of("fd00:1:2:3::1"), of("fd00:1:2:4::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
