//! A set of hosts by their position in the run. Who has a blob is asked for each blob whenever something has changed.

const BITS: usize = u64::BITS as usize;

#[derive(Clone, Debug, Default)]
pub(super) struct HostSet(Vec<u64>);

impl HostSet {
    pub(super) fn insert(&mut self, host: usize) {
        if self.0.len() <= host / BITS {
            self.0.resize(host / BITS + 1, 0);
        }
        self.0[host / BITS] |= 1 << (host % BITS);
    }

    pub(super) fn remove(&mut self, host: usize) {
        if let Some(word) = self.0.get_mut(host / BITS) {
            *word &= !(1 << (host % BITS));
        }
    }

    pub(super) fn contains(&self, host: usize) -> bool {
        self.0.get(host / BITS).is_some_and(|word| word & (1 << (host % BITS)) != 0)
    }

    /// How many hosts are in both.
    pub(super) fn common(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).map(|(one, other)| (one & other).count_ones() as usize).sum()
    }

    /// The hosts that are in both.
    pub(super) fn both<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = usize> + 's {
        self.0.iter().zip(&other.0).enumerate().flat_map(|(at, (one, other))| {
            let word = one & other;
            (0..BITS).filter(move |bit| word & (1 << bit) != 0).map(move |bit| at * BITS + bit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::HostSet;

    #[test]
    fn hosts_beyond_the_first_word_are_found() {
        let (mut one, mut other) = (HostSet::default(), HostSet::default());
        [0, 63, 64, 200].into_iter().for_each(|host| one.insert(host));
        [63, 64, 65, 199].into_iter().for_each(|host| other.insert(host));
        assert_eq!((one.common(&other), one.both(&other).collect::<Vec<_>>()), (2, vec![63, 64]));
        one.remove(64);
        one.remove(1000);
        assert!(one.contains(200) && !one.contains(64) && !one.contains(1000));
        assert_eq!(other.both(&one).collect::<Vec<_>>(), [63]);
    }
}
