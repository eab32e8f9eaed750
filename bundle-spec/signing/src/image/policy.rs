//! `spec.bundle.imageSignatures`, with its keys and trusted roots read.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubexm_spec::cluster::{Acceptance, ImageSignatureRule, MaterialFile, RuleIndex, SignedAs, SignerIdentity};

use super::key::ImageKey;
use super::trusted_root::TrustedRoot;

/// Who must have signed which images.
#[derive(Clone, Debug)]
pub struct ImagePolicy {
    rules: Vec<ImageSignatureRule>,
    index: RuleIndex,
    /// In the order of the rules.
    signers: Vec<Signers>,
}

/// Of a rule.
#[derive(Clone, Debug)]
pub(super) struct Signers {
    /// With their files.
    pub keys: Vec<(String, ImageKey)>,
    pub identities: Vec<SignerIdentity>,
    /// One for all rules that name its file.
    pub root: Option<Arc<TrustedRoot>>,
    pub accepts_any: bool,
    /// Whether a signature may name another repository.
    pub signed_as_any: bool,
}

/// A file that a rule names cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {file}: {problem}")]
pub struct BadPolicy {
    /// `spec.bundle.imageSignatures[0].keys[0]`.
    pub field: String,
    /// As cluster.yaml names it.
    pub file: String,
    pub problem: String,
}

impl ImagePolicy {
    /// Reads what the rules name; none where there are no rules, and nothing is checked.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn of(
        rules: &[ImageSignatureRule],
        text: &dyn Fn(&MaterialFile) -> Result<String, String>,
    ) -> Result<Option<Self>, BadPolicy> {
        if rules.is_empty() {
            return Ok(None);
        }
        let mut roots = Roots::new();
        let signers =
            rules.iter().enumerate().map(|(at, rule)| signers(at, rule, text, &mut roots)).collect::<Result<_, _>>()?;
        Ok(Some(Self { rules: rules.to_vec(), index: RuleIndex::of(rules), signers }))
    }

    /// Whether what is attached to an image is read at all.
    pub fn reads_signatures_of(&self, reference: &str) -> bool {
        self.rule_for(reference).is_some_and(|(signers, _)| !signers.accepts_any)
    }

    /// The signers of the rule that decides about an image, and the name in it that matches.
    pub(super) fn rule_for(&self, reference: &str) -> Option<(&Signers, &str)> {
        let (at, name) = self.index.find(reference)?;
        Some((self.signers.get(at)?, self.rules.get(at)?.repositories.get(name)?))
    }
}

/// Trusted roots by the name of their file: a thousand rules may name one.
type Roots = BTreeMap<String, Arc<TrustedRoot>>;

fn signers(
    at: usize,
    rule: &ImageSignatureRule,
    text: &dyn Fn(&MaterialFile) -> Result<String, String>,
    roots: &mut Roots,
) -> Result<Signers, BadPolicy> {
    let bad = |key: String, file: &MaterialFile, problem: String| BadPolicy {
        field: format!("spec.bundle.imageSignatures[{at}].{key}"),
        file: file.name.clone(),
        problem,
    };
    let keys = rule.keys.iter().enumerate().map(|(number, file)| {
        let key = text(file).and_then(|text| ImageKey::from_pem(&text));
        Ok((file.name.clone(), key.map_err(|problem| bad(format!("keys[{number}]"), file, problem))?))
    });
    let root = rule.trusted_root.as_ref().map(|file| -> Result<Arc<TrustedRoot>, BadPolicy> {
        if let Some(known) = roots.get(&file.name) {
            return Ok(Arc::clone(known));
        }
        let root = text(file).and_then(|text| TrustedRoot::parse(text.as_bytes()));
        let root = Arc::new(root.map_err(|problem| bad("trustedRoot".to_owned(), file, problem))?);
        roots.insert(file.name.clone(), Arc::clone(&root));
        Ok(root)
    });
    Ok(Signers {
        keys: keys.collect::<Result<_, _>>()?,
        identities: rule.identities.clone(),
        root: root.transpose()?,
        accepts_any: rule.accept == Acceptance::Any,
        signed_as_any: rule.signed_as == SignedAs::Any,
    })
}

impl Signers {
    /// Who they are, for people.
    pub fn names(&self) -> String {
        let keys = self.keys.iter().map(|(file, key)| format!("key {file} ({})", key.id().short()));
        let identities = self.identities.iter().map(|one| format!("{} ({})", one.subject, one.issuer));
        keys.chain(identities).collect::<Vec<_>>().join(", or ")
    }
}
