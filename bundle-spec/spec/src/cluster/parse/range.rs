//! `node[1:3]`: hosts of a group that are named alike.

/// A range of host names may stand for this many.
const MAX_RANGE: u32 = 1000;
/// The longest name of a host, in bytes (RFC 1035, 2.3.4), and room for the brackets and numbers of a range.
const LONGEST: usize = 253 + 24;
/// Of a text that is too long, in an error.
const SHOWN: usize = 40;

/// What one text of a group stands for; nothing is written out yet.
pub(super) struct Range<'t> {
    before: &'t str,
    /// None of a mere name.
    numbers: Option<(u32, u32)>,
    /// Digits that a number has at least.
    width: usize,
    after: &'t str,
}

impl<'t> Range<'t> {
    /// `node[1:3]` → `node1`, `node2`, `node3`; zeros in front of the first number are kept as width (`[01:10]`).
    pub(super) fn read(text: &'t str) -> Result<Self, String> {
        // Before anything else: a range is so many copies of it.
        if text.len() > LONGEST {
            let (begin, length) = (&text[..text.floor_char_boundary(SHOWN)], text.len());
            return Err(format!("{begin:?}… has {length} bytes, and the name of a host has 253 at most"));
        }
        let bad = || format!("{text:?} is not a name or a range like node[1:3]");
        let Some((before, rest)) = text.split_once('[') else {
            return Ok(Self { before: text, numbers: None, width: 0, after: "" });
        };
        let (range, after) = rest.split_once(']').ok_or_else(bad)?;
        let (from, to) = range.split_once(':').ok_or_else(bad)?;
        let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
        let (first, last) = number(from).zip(number(to)).ok_or_else(bad)?;
        if from.len() > 9 || after.contains(['[', ']']) {
            return Err(bad());
        }
        if first > last {
            return Err(format!("{text:?} goes downwards; write {before}[{to}:{from}]{after}"));
        }
        if last - first >= MAX_RANGE {
            let (count, end, next) = (u64::from(last - first) + 1, first + MAX_RANGE - 1, first + MAX_RANGE);
            return Err(format!(
                "{text:?} is {count} hosts, and one range may have {MAX_RANGE}; split it: {before}[{first}:{end}]{after}, \
                 {before}[{next}:{last}]{after}"
            ));
        }
        let width = if from.starts_with('0') { from.len() } else { 0 };
        Ok(Self { before, numbers: Some((first, last)), width, after })
    }

    /// How many names.
    pub(super) fn count(&self) -> usize {
        self.numbers.map_or(1, |(first, last)| (last - first) as usize + 1)
    }

    /// The names, one after the other.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let (first, last) = self.numbers.unwrap_or_default();
        (first..=last).map(move |number| match self.numbers {
            Some(_) => format!("{}{number:0width$}{}", self.before, self.after, width = self.width),
            None => self.before.to_owned(),
        })
    }
}
