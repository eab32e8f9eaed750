//! Text files whose format has no serialiser here: units, TOML, the Corefile. YAML and JSON are written from values.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior, Value};

use crate::error::RecipeError;

/// A template, and what it is called in `templates/`.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// Without its ending.
    pub name: &'static str,
    pub text: &'static str,
}

/// The template of this name in `templates/`.
macro_rules! template {
    ($name:literal) => {
        $crate::templates::Template {
            name: $name,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/", $name, ".j2")),
        }
    };
}
pub(crate) use template;

/// Renders a template; a missing value is an error.
pub fn render(template: Template, values: Value) -> Result<String, RecipeError> {
    let Template { name, text } = template;
    let fault = |source| RecipeError::Template { name, source };
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).trim_blocks(true).build().map_err(fault)?;
    environment.set_syntax(syntax);
    environment.add_template(name, text).map_err(fault)?;
    environment.get_template(name).map_err(fault)?.render(values).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_lacks_a_value_is_an_error_and_no_hole_in_a_file() {
        assert!(matches!(
            render(template!("hosts.toml"), minijinja::context! {}),
            Err(RecipeError::Template { name: "hosts.toml", .. })
        ));
    }
}
