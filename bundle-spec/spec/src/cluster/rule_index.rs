//! Which rule of `spec.bundle.imageSignatures` decides about an image, for whoever asks about many.

use std::collections::HashMap;

use super::image_signatures::{EVERY_OTHER, ImageSignatureRule, official};
use crate::Reference;
use crate::names::registry_folder;

/// A rule by its number, and the name in it that matches by its own.
type Place = (usize, usize);

/// Rules by the names in them. It answers as [`super::rule_for`] does, which goes through all rules for each image.
#[derive(Clone, Debug, Default)]
pub struct RuleIndex {
    /// By the folders that their hosts have in a registry.
    names: HashMap<String, Place>,
    /// Whole names of official images that are written without `library`.
    official: HashMap<String, Place>,
}

impl RuleIndex {
    /// Of these rules, in this order.
    pub fn of(rules: &[ImageSignatureRule]) -> Self {
        let mut index = Self::default();
        for (at, rule) in rules.iter().enumerate() {
            for (number, name) in rule.repositories.iter().enumerate() {
                let name = registry_folder(name);
                index.official.extend(official(&name).map(|whole| (whole, (at, number))));
                index.names.insert(name, (at, number));
            }
        }
        index
    }

    /// The numbers of the rule that decides about an image by its full reference, and of its name that matches: the longest.
    pub fn find(&self, reference: &str) -> Option<Place> {
        let repository = registry_folder(&Reference::read(reference)?.repository);
        let whole = self.official.get(&repository).or_else(|| self.names.get(&repository));
        let mut above = repository.rmatch_indices('/').map(|(end, _)| self.names.get(&repository[..end]));
        whole.or_else(|| above.find_map(|place| place)).or_else(|| self.names.get(EVERY_OTHER)).copied()
    }
}
