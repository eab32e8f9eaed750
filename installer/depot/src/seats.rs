//! Who holds connections: so many of one address and in all. Where they are all taken, one that waits for its client ends for the
//! next client, so that who opens connections and says nothing keeps nobody out. Those that were not given anything lately
//! end first, by chance and not by age: who asks for nothing that there is, again and again, would else always be younger than
//! an honest client that shakes hands.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::guesses::network;

/// How long one that was given something may wait until it counts like one that was not. Between two requests of a pull there
/// is less. Else who is given something that costs nothing, and then waits, would have every other connection ended.
const RECENT: Duration = Duration::from_secs(2);

/// The connections of a server, by address and in the order in which they came.
#[derive(Clone, Default)]
pub(crate) struct Seats(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    next: u64,
    of: HashMap<IpAddr, BTreeMap<u64, Arc<Place>>>,
}

struct Place {
    /// Since when it waits for its client: for the handshake, or for the next request. None while a request is answered.
    waits: Mutex<Option<Instant>>,
    /// Whether it was answered with content.
    given: AtomicBool,
    ended: Notify,
}

/// One connection of an address; given back when dropped.
pub(crate) struct Seat {
    seats: Seats,
    of: IpAddr,
    number: u64,
    place: Arc<Place>,
}

/// A request that is answered: its connection does not wait.
pub(crate) struct Working(Arc<Place>);

impl Seats {
    /// A seat for that address. Where it has `most`, one that waits ends for it; none if each of them answers a request.
    pub(crate) fn take(&self, of: IpAddr, most: usize) -> Option<Seat> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seats = taken.of.entry(of).or_default();
        if seats.len() >= most {
            let (_, number) = dispensable(seats)?;
            end(seats, number);
        }
        taken.next += 1;
        let (number, place) = (taken.next, Arc::new(Place::new()));
        taken.of.entry(of).or_default().insert(number, Arc::clone(&place));
        Some(Seat { seats: self.clone(), of, number, place })
    }

    /// Ends a connection that waits, for `next`: one that was not given anything lately, or the one that has waited longest of
    /// the network that has the most. A machine has a whole network of IPv6 addresses.
    pub(crate) fn end_one_for(&self, next: &Seat) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (of, seats) in &taken.of {
            *counts.entry(network(*of)).or_default() += seats.len();
        }
        let waiting = taken.of.iter().filter_map(|(of, seats)| {
            let others = seats.iter().filter(|(number, _)| **number != next.number);
            let (order, number) = first_of(others)?;
            let (given, fullness) = match order {
                Order::NotGiven(_) => (false, None),
                Order::Since(_) => (true, counts.get(&network(*of)).copied()),
            };
            Some((given, std::cmp::Reverse(fullness), order, *of, number))
        });
        let Some((.., of, number)) = waiting.min() else { return };
        if let Some(seats) = taken.of.get_mut(&of) {
            end(seats, number);
        }
    }
}

/// Which of those that wait is to end first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// Not given anything lately: by chance.
    NotGiven(u64),
    /// The others: who has waited longest.
    Since(Instant),
}

fn dispensable(seats: &BTreeMap<u64, Arc<Place>>) -> Option<(Order, u64)> {
    first_of(seats.iter())
}

fn first_of<'a>(seats: impl Iterator<Item = (&'a u64, &'a Arc<Place>)>) -> Option<(Order, u64)> {
    let chance = RandomState::new();
    let waiting = seats.filter_map(|(number, place)| {
        let since = place.waits()?;
        let lately = place.given.load(Ordering::Relaxed) && since.elapsed() < RECENT;
        Some((if lately { Order::Since(since) } else { Order::NotGiven(chance.hash_one(number)) }, *number))
    });
    waiting.min()
}

fn end(seats: &mut BTreeMap<u64, Arc<Place>>, number: u64) {
    if let Some(place) = seats.remove(&number) {
        place.ended.notify_one();
    }
}

impl Place {
    fn new() -> Self {
        Self { waits: Mutex::new(Some(Instant::now())), given: AtomicBool::new(false), ended: Notify::new() }
    }

    fn waits(&self) -> Option<Instant> {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, waits: Option<Instant>) {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = waits;
    }
}

impl Seat {
    /// The client's address.
    pub(crate) fn of(&self) -> IpAddr {
        self.of
    }

    /// Until it must end for another.
    pub(crate) async fn ended(&self) {
        self.place.ended.notified().await;
    }

    /// A request has come; it is answered until the result is dropped.
    pub(crate) fn works(&self) -> Working {
        self.place.set(None);
        Working(Arc::clone(&self.place))
    }
}

impl Working {
    /// It is answered with content.
    pub(crate) fn gives(&self) {
        self.0.given.store(true, Ordering::Relaxed);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seats) = taken.of.get_mut(&self.of) {
            seats.remove(&self.number);
            if seats.is_empty() {
                taken.of.remove(&self.of);
            }
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.set(Some(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ended(seat: &Seat) -> bool {
        let place = seat.seats.0.lock().unwrap();
        !place.of.get(&seat.of).is_some_and(|seats| seats.contains_key(&seat.number))
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// One that was given something before.
    fn served(seats: &Seats, of: IpAddr, most: usize) -> Seat {
        let seat = seats.take(of, most).unwrap();
        seat.works().gives();
        seat
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_never_given_anything_ends_first_whoever_asked_last() {
        let (seats, of) = (Seats::default(), address("10.0.0.1"));
        let node = served(&seats, of, 3);
        let greedy = [seats.take(of, 3).unwrap(), seats.take(of, 3).unwrap()];
        greedy.iter().for_each(|seat| drop(seat.works()));
        let next = seats.take(of, 3).unwrap();
        assert_eq!(greedy.iter().filter(|seat| is_ended(seat)).count(), 1);
        assert!(!is_ended(&node) && !is_ended(&next));
        // Of all, too, whatever network is the fullest.
        let elsewhere = seats.take(address("10.0.0.2"), 3).unwrap();
        seats.end_one_for(&elsewhere);
        assert!(!is_ended(&node) && !is_ended(&elsewhere));
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_given_something_and_then_waits_does_not_have_all_others_ended() {
        let of = address("10.0.0.1");
        let mut kept = [0, 0];
        for _ in 0..100 {
            let seats = Seats::default();
            let idle: Vec<Seat> = (0..31).map(|_| served(&seats, of, 32)).collect();
            tokio::time::advance(RECENT).await;
            let handshake = seats.take(of, 32).unwrap();
            // For one of the same address, and for one of another where all are taken.
            let next = seats.take(of, 32).unwrap();
            kept[0] += u32::from(!is_ended(&handshake));
            let elsewhere = seats.take(address("10.0.0.2"), 32).unwrap();
            seats.end_one_for(&elsewhere);
            kept[1] += u32::from(!is_ended(&handshake));
            drop((idle, handshake, next, elsewhere));
        }
        assert!(kept[0] > 50 && kept[1] > 50, "{kept:?} of 100: each time one of 32 ends");
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_has_waited_longest_ends_and_none_that_answers() {
        let (seats, of) = (Seats::default(), address("10.0.0.1"));
        let [first, second] = [served(&seats, of, 2), served(&seats, of, 2)];
        let request = first.works();
        let third = served(&seats, of, 2);
        assert_eq!((is_ended(&first), is_ended(&second)), (false, true));
        second.ended().await;
        let other = third.works();
        assert!(seats.take(of, 2).is_none(), "both answer requests");
        drop(request);
        assert!(seats.take(of, 2).is_some() && is_ended(&first));
        drop((first, second, third, other));
        assert!(seats.0.lock().unwrap().of.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn of_all_the_fullest_network_gives_one() {
        let seats = Seats::default();
        let of = |text| served(&seats, address(text), 9);
        let node = of("10.0.0.1");
        tokio::time::advance(Duration::from_millis(1)).await;
        let [one, two, next] = ["fd00::1", "fd00::2", "10.0.0.2"].map(of);
        seats.end_one_for(&next);
        assert_eq!([is_ended(&node), is_ended(&one), is_ended(&two), is_ended(&next)], [false, true, false, false]);
        seats.end_one_for(&next);
        assert!(is_ended(&node) && !is_ended(&next), "each has one: the one that has waited longest");
        seats.end_one_for(&next);
        seats.end_one_for(&next);
        assert!(is_ended(&two) && !is_ended(&next), "never the next one itself");
    }
}
