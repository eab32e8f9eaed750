//! `layout.json`: how this file stores what the manifest lists. Not signed, and nothing in it must be trusted.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use kubexm_spec::Digest;
use kubexm_spec::manifest::{FORMAT_WITH_PLACES, Member};
use serde::{Deserialize, Serialize};

use crate::group::{self, Group};
use crate::{DOCUMENT_LIMIT, Encoding, members};

/// How a bundle's members are stored. Canonical JSON, like the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Layout {
    /// Format version, as in the manifest.
    pub format: u32,
    /// Compressor and version, so that a merge knows whether it would write the same bytes.
    pub encoder: String,
    /// Level of the compressed members.
    pub level: i32,
    /// Members of this file after layout.json, in its order.
    pub members: Vec<StoredMember>,
    /// Of a delta: digest of the base's manifest.json; none when the base was an inventory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Digest>,
    /// Of a delta: the blobs that the base has, in the manifest's order, and how the full bundle stores them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<StoredMember>,
    /// Bytes of the member sources.json, which is behind all others; none where the places are left out, and in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<u64>,
    /// Members that are compressed together, in the manifest's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Names of the members that are stored in another compression than they have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recoded: Vec<String>,
}

/// A group of which this file has members.
pub(crate) struct PlacedGroup {
    /// Its members in the manifest, those that are left out included.
    pub(crate) listed: Range<usize>,
    /// How many are in this file.
    pub(crate) count: usize,
    /// Bytes of their tar streams.
    pub(crate) len: u32,
    /// Of its compression.
    pub(crate) level: i32,
}

/// One member of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoredMember {
    /// As in the manifest.
    pub name: String,
    /// Of all its frames.
    pub encoding: Encoding,
}

impl Layout {
    /// Levels that a bundle is compressed with: those of zstd that need no memory beyond the usual.
    pub(crate) const LEVELS: RangeInclusive<i32> = 1..=19;

    /// The compressor of this program, as layouts name it.
    pub fn own_encoder() -> String {
        format!("zstd {}", zstd::zstd_safe::version_string())
    }

    /// Whether the file leaves out what a base has.
    pub fn is_delta(&self) -> bool {
        self.base.is_some() || !self.left_out.is_empty()
    }

    /// Of a file written by this program.
    pub(crate) fn new(
        format: u32,
        level: i32,
        members: Vec<StoredMember>,
        base: Option<Digest>,
        left_out: Vec<StoredMember>,
        sources: Option<u64>,
        groups: Vec<Group>,
    ) -> Self {
        let (encoder, recoded) = (Self::own_encoder(), Vec::new());
        Self { format, encoder, level, members, base, left_out, sources, groups, recoded }
    }

    /// Members that are here and members that are left out are those of the manifest, each once, in its order; only blobs
    /// may be left out. The level is one that there is.
    pub(crate) fn check(&self, listed: &[Member]) -> Result<(), String> {
        match self.sources {
            Some(_) if self.format == FORMAT_WITH_PLACES => {
                return Err("has sources, which came with format 2".to_owned());
            }
            Some(size) if !(1..=DOCUMENT_LIMIT).contains(&size) => {
                return Err(format!("states {size} bytes of sources"));
            }
            _ => {}
        }
        if !Self::LEVELS.contains(&self.level) {
            return Err(format!("states level {}, which is not one of 1 to 19", self.level));
        }
        if !self.groups.is_empty() && self.format == FORMAT_WITH_PLACES {
            return Err("has groups, which came with format 2".to_owned());
        }
        if let Some(group) = self.groups.iter().find(|group| !Self::LEVELS.contains(&group.level)) {
            return Err(format!("states level {} of a group, which is not one of 1 to 19", group.level));
        }
        let raw = |member: &StoredMember| member.encoding != group::ENCODING;
        let mut grouped = group::ranges(&self.groups, listed)?.into_iter().flatten().peekable();
        let mut raw =
            self.members.iter().chain(&self.left_out).filter(|member| raw(member)).map(|raw| raw.name.as_str());
        let raw: HashSet<&str> = if grouped.peek().is_some() { raw.by_ref().collect() } else { HashSet::new() };
        if let Some(member) = grouped.filter_map(|at| listed.get(at)).find(|member| raw.contains(member.name.as_str()))
        {
            return Err(format!("has {} in a group, and stores it raw", member.name));
        }
        let (mut here, mut left_out) = (self.members.iter().peekable(), self.left_out.iter().peekable());
        for member in listed {
            if here.next_if(|stored| stored.name == member.name).is_some() {
                continue;
            }
            if left_out.next_if(|stored| stored.name == member.name).is_none() {
                return Err(format!("lists other members than the manifest, from {} on", member.name));
            }
            if !member.name.starts_with(members::BLOBS) {
                return Err(format!("leaves out {}, which every bundle must have", member.name));
            }
        }
        match here.next().or(left_out.next()) {
            Some(stored) => Err(format!("lists {}, which the manifest does not have there", stored.name)),
            None => Ok(()),
        }
    }

    /// The groups of which this file has members, with bytes of tar stream of those. The layout was checked.
    pub(crate) fn placed_groups(&self, listed: &[Member]) -> Vec<PlacedGroup> {
        let left_out: HashSet<&str> = self.left_out.iter().map(|stored| stored.name.as_str()).collect();
        let ranges = group::ranges(&self.groups, listed).unwrap_or_default();
        let placed = ranges.into_iter().zip(&self.groups).map(|(range, group)| {
            let members = listed.get(range.clone()).unwrap_or_default();
            let here = members.iter().filter(|member| !left_out.contains(member.name.as_str()));
            let (count, len) = here.fold((0, 0), |(count, len), member| {
                (count + 1, len + members::stream_len(member.size).unwrap_or_default())
            });
            // At most the limit of a group.
            PlacedGroup { listed: range, count, len: u32::try_from(len).unwrap_or(u32::MAX), level: group.level }
        });
        placed.filter(|group| group.count > 0).collect()
    }

    /// Sorted keys, no blanks.
    pub(crate) fn canonical_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&serde_json::to_value(self)?)
    }
}
