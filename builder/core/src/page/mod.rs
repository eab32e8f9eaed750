//! One self-contained HTML page about a bundle. A bundle is foreign input: every text is escaped by the template engine, the
//! page has no script, and its policy lets a browser fetch nothing.

mod contents;
mod figures;
mod treemap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_spec::{Digest, Platform, printable};
use minijinja::value::Serde;
use minijinja::{Environment, Value, context, escape_formatter};
use serde::Serialize;

pub(crate) use contents::{Contents, Stated};
use figures::{base_name, bytes, date, hex};

use crate::verbs::diff::Difference;
use crate::verbs::inspect::Inspected;

/// Everything that the page shows.
#[derive(Serialize)]
pub(crate) struct Page<'a> {
    pub about: &'a Inspected<'a>,
    pub contents: Contents<'a>,
    pub delta: Option<Delta>,
    /// None where nobody asked.
    pub difference: Option<Difference>,
    /// What of the bundle was not compared with upstream; the reason where that cannot be known.
    pub unverified: Result<Vec<Unverified>, String>,
    /// Images whose signatures cluster.yaml has rules for.
    pub signed: Vec<SignedImage<'a>>,
    /// `kubexm-bundle 0.1.0`.
    pub tool: String,
}

/// What a delta leaves out.
#[derive(Serialize)]
pub(crate) struct Delta {
    /// Digest of the base's manifest.json; none when the base was an inventory.
    pub base: Option<Digest>,
    pub blobs: usize,
    pub bytes: u64,
}

/// An image, and what the lock claims of its signature.
#[derive(Serialize)]
pub(crate) struct SignedImage<'a> {
    pub name: &'a str,
    pub platform: Option<Platform>,
    pub claim: String,
}

/// Something that was not compared with upstream.
#[derive(Serialize)]
pub(crate) struct Unverified {
    pub severe: bool,
    pub about: String,
    pub text: String,
}

impl Page<'_> {
    /// The page.
    ///
    /// # Errors
    /// Only if the template of this program is wrong.
    pub fn html(&self) -> Result<String, minijinja::Error> {
        let style = include_str!("page.css");
        let digest = STANDARD.encode(Digest::of(style).as_bytes());
        let mut environment = Environment::new();
        environment.add_filter("bytes", |count: u64| bytes(count));
        environment.add_filter("date", date);
        environment.add_filter("hex", hex);
        environment.add_filter("base_name", base_name);
        // Characters that write in another direction could make a name look like another one.
        environment.set_formatter(|out, state, value| match value.as_str().filter(|_| !value.is_safe()) {
            Some(text) => escape_formatter(out, state, &Value::from(printable(text).into_owned())),
            None => escape_formatter(out, state, value),
        });
        environment.add_template("page.html", include_str!("page.html"))?;
        let style = Value::from_safe_string(style.to_owned());
        environment.get_template("page.html")?.render(context! { style, digest, page => Value::from(Serde(self)) })
    }
}
