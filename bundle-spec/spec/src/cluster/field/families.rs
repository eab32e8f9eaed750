//! Keys with one value or two: an address or network of each family. They fill two fields of a struct, the first value's and the
//! other's.

use std::marker::PhantomData;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::FieldType;
use crate::cluster::parse::addresses;
use crate::yaml::{At, Shape};

/// One value, or a list of one or two.
pub(in crate::cluster) struct OneOrTwo<T>(PhantomData<T>);

impl<T: FieldType> FieldType for OneOrTwo<T> {
    type Value = (T::Value, Vec<T::Value>);

    const SHAPE: Shape = Shape::OneOrTwo(&T::SHAPE);

    fn read(at: &At<'_>) -> Option<Self::Value> {
        if !at.is_list() {
            return T::read(at).map(|one| (one, Vec::new()));
        }
        let mut all = Vec::<T>::read(at)?;
        if all.is_empty() {
            at.bad("expected at least one", "one, or one of each family");
            return None;
        }
        if all.len() > 2 {
            at.bad(format!("{} are too many", all.len()), "one, or one of each family (dual-stack)");
            return None;
        }
        Some((all.remove(0), all))
    }

    fn show((first, others): &Self::Value) -> Option<Value> {
        if others.is_empty() { T::show(first) } else { std::iter::once(first).chain(others).map(T::show).collect() }
    }
}

/// [`OneOrTwo`], where two are not of the same family.
pub(in crate::cluster) struct OfEachFamily<T>(PhantomData<T>);

impl<T: FieldType<Value: Family>> FieldType for OfEachFamily<T> {
    type Value = (T::Value, Vec<T::Value>);

    const SHAPE: Shape = OneOrTwo::<T>::SHAPE;

    fn read(at: &At<'_>) -> Option<Self::Value> {
        let (first, others) = OneOrTwo::<T>::read(at)?;
        if others.iter().any(|other| other.is_v6() == first.is_v6()) {
            let (one, many) = T::Value::WORDS;
            at.bad(format!("two {many} of one family"), format!("one {one}, or one of each family (dual-stack)"));
            return None;
        }
        Some((first, others))
    }

    fn show(value: &Self::Value) -> Option<Value> {
        OneOrTwo::<T>::show(value)
    }
}

/// What is of IPv4 or of IPv6.
pub(in crate::cluster) trait Family {
    /// One and many of them.
    const WORDS: (&'static str, &'static str);

    fn is_v6(&self) -> bool;
}

impl Family for IpAddr {
    const WORDS: (&'static str, &'static str) = ("address", "addresses");

    fn is_v6(&self) -> bool {
        self.is_ipv6()
    }
}

impl Family for IpNet {
    const WORDS: (&'static str, &'static str) = ("network", "networks");

    fn is_v6(&self) -> bool {
        matches!(self, Self::V6(_))
    }
}

/// A pair of fields that may both be unset.
pub(in crate::cluster) struct OptionalPair<T>(PhantomData<T>);

impl<A: Clone, T: FieldType<Value = (A, Vec<A>)>> FieldType for OptionalPair<T> {
    type Value = (Option<A>, Vec<A>);

    const SHAPE: Shape = T::SHAPE;

    fn read(at: &At<'_>) -> Option<Self::Value> {
        T::read(at).map(|(first, others)| (Some(first), others))
    }

    fn show((first, others): &Self::Value) -> Option<Value> {
        T::show(&(first.clone()?, others.clone()))
    }
}

/// A network whose prefix is within bounds, those of IPv4 and those of IPv6.
pub(in crate::cluster) struct Cidr<const MIN_4: u8, const MAX_4: u8, const MIN_6: u8, const MAX_6: u8>;

impl<const MIN_4: u8, const MAX_4: u8, const MIN_6: u8, const MAX_6: u8> FieldType
    for Cidr<MIN_4, MAX_4, MIN_6, MAX_6>
{
    type Value = IpNet;

    const SHAPE: Shape = Shape::Form("^[0-9a-fA-F.:]+/[0-9]+$");

    fn read(at: &At<'_>) -> Option<IpNet> {
        let cidr = at.parsed(addresses::cidr)?;
        let (min, max) = if cidr.is_v6() { (MIN_6, MAX_6) } else { (MIN_4, MAX_4) };
        if !(min..=max).contains(&cidr.prefix_len()) {
            at.bad(format!("a prefix of /{} does not do", cidr.prefix_len()), format!("/{min} to /{max}"));
            return None;
        }
        Some(cidr)
    }

    fn show(value: &IpNet) -> Option<Value> {
        Some(value.to_string().into())
    }
}
