//! The modules of one crate and the names in them, read from its source: which file defines what, and which paths
//! each file uses. Names that a module only passes on (`pub use`) belong to the file that defines them.
//! Tests are left out. Methods are not seen: a path leads to the type, not to the file of its `impl`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// A path as written: `crate::a::B`, `super::x`, `Name`.
pub type Names = Vec<String>;

/// What a name in a module stands for.
#[derive(Debug, Clone)]
pub enum Meaning {
    /// A function, constant or static of this module. A module or a type may have the same name.
    Value,
    /// A type, trait or macro of this module.
    Type,
    /// A module below this one, by its number.
    Module(usize),
    /// A name imported from elsewhere.
    Import(Names),
}

#[derive(Debug, Default)]
pub struct Module {
    pub file: PathBuf,
    pub parent: Option<usize>,
    pub names: BTreeMap<String, Vec<Meaning>>,
    pub globs: Vec<Names>,
    /// Paths that the code of the module uses, without those that it only passes on.
    pub used: Vec<Names>,
}

/// Every module of a crate; the first is its root.
pub struct Source {
    pub modules: Vec<Module>,
}

impl Source {
    /// Reads the crate whose root is this file (`lib.rs` or `main.rs`).
    pub fn read(root: &Path) -> Self {
        let mut source = Self { modules: Vec::new() };
        let folder = root.parent().unwrap().to_owned();
        source.file(root, &folder, None);
        source
    }

    fn file(&mut self, file: &Path, folder: &Path, parent: Option<usize>) -> usize {
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        self.module(&parsed.items, file, folder, parent)
    }

    /// `folder` is where the files of the modules below lie.
    fn module(&mut self, items: &[syn::Item], file: &Path, folder: &Path, parent: Option<usize>) -> usize {
        let number = self.modules.len();
        self.modules.push(Module { file: file.to_owned(), parent, ..Module::default() });
        for item in items.iter().filter(|i| !is_test(attributes(i))) {
            if let syn::Item::Mod(below) = item {
                let name = below.ident.to_string();
                let inside = folder.join(&name);
                let below = match &below.content {
                    Some((_, items)) => self.module(items, file, &inside, Some(number)),
                    None => {
                        let flat = folder.join(format!("{name}.rs"));
                        match elsewhere(&below.attrs).map(|path| file.parent().unwrap().join(path)) {
                            Some(file) => self.file(&file, file.parent().unwrap(), Some(number)),
                            None if flat.exists() => self.file(&flat, &inside, Some(number)),
                            None => self.file(&inside.join("mod.rs"), &inside, Some(number)),
                        }
                    }
                };
                self.modules[number].names.entry(name).or_default().push(Meaning::Module(below));
            } else {
                let module = &mut self.modules[number];
                if let Some((name, meaning)) = defined(item) {
                    module.names.entry(name.to_string()).or_default().push(meaning);
                }
                Reader { module }.visit_item(item);
            }
        }
        number
    }

    /// The module in which the last name of a path is defined, as seen from a module. None for other crates, local
    /// variables, and paths that end at a module.
    pub fn defining(&self, from: usize, path: &[String]) -> Option<usize> {
        self.resolve(from, path, 0).and_then(|place| match place {
            Place::Item(module) => Some(module),
            Place::Module => None,
        })
    }

    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<Place> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.below(0, rest, depth),
            "self" => self.below(from, rest, depth),
            "super" => self.below(self.modules[from].parent?, rest, depth),
            _ => self.below(from, path, depth),
        }
    }

    fn below(&self, module: usize, path: &[String], depth: usize) -> Option<Place> {
        let Some((name, rest)) = path.split_first() else { return Some(Place::Module) };
        if name == "super" {
            return self.below(self.modules[module].parent?, rest, depth);
        }
        // Imports that lead to each other do not compile: what is as deep as this is the name of another crate.
        if depth > 8 {
            return None;
        }
        let here = &self.modules[module];
        let meanings = here.names.get(name).map_or(&[][..], Vec::as_slice);
        let found = meanings.iter().filter_map(|meaning| match meaning {
            Meaning::Value => rest.is_empty().then_some(Place::Item(module)),
            // A variant, a constant of a type: the type is what is used.
            Meaning::Type => Some(Place::Item(module)),
            Meaning::Module(inner) => self.below(*inner, rest, depth),
            Meaning::Import(import) if import.first() == Some(name) => None,
            Meaning::Import(import) => self.resolve(module, &[import, rest].concat(), depth + 1),
        });
        // Of a module and an item of one name the item is what is used.
        let found = found.max_by_key(|place| matches!(place, Place::Item(_)));
        found.or_else(|| here.globs.iter().find_map(|glob| self.resolve(module, &[glob, path].concat(), depth + 1)))
    }
}

enum Place {
    Item(usize),
    Module,
}

/// Gathers imports and used paths of one module.
struct Reader<'a> {
    module: &'a mut Module,
}

impl Reader<'_> {
    fn import(&mut self, tree: &syn::UseTree, so_far: &Names, passed_on: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                let mut longer = so_far.clone();
                longer.push(path.ident.to_string());
                self.import(&path.tree, &longer, passed_on);
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, so_far, passed_on)),
            syn::UseTree::Glob(_) => self.module.globs.push(so_far.clone()),
            syn::UseTree::Name(name) => self.imported(&name.ident, &name.ident, so_far, passed_on),
            syn::UseTree::Rename(rename) => self.imported(&rename.ident, &rename.rename, so_far, passed_on),
        }
    }

    fn imported(&mut self, name: &syn::Ident, alias: &syn::Ident, so_far: &Names, passed_on: bool) {
        let mut path = so_far.clone();
        if name != "self" {
            path.push(name.to_string());
        }
        let alias = if alias == "self" { so_far.last().unwrap().clone() } else { alias.to_string() };
        if !passed_on {
            self.module.used.push(path.clone());
        }
        self.module.names.entry(alias).or_default().push(Meaning::Import(path));
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let passed_on = !matches!(item.vis, syn::Visibility::Inherited);
        self.import(&item.tree, &Vec::new(), passed_on);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.module.used.push(path.segments.iter().map(|s| s.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        in_tokens(call.tokens.clone(), &mut self.module.used);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }
}

/// Paths in the arguments of a macro, which is not parsed: names joined by `::`. A field or a method (`.name`) is none.
fn in_tokens(tokens: proc_macro2::TokenStream, used: &mut Vec<Names>) {
    use proc_macro2::TokenTree;
    let mut path = Names::new();
    let mut joined = 0;
    let mut member = false;
    for token in tokens {
        match token {
            TokenTree::Punct(p) if p.as_char() == ':' => joined += 1,
            TokenTree::Ident(name) => {
                if joined != 2 && !path.is_empty() {
                    used.push(std::mem::take(&mut path));
                }
                if !member {
                    path.push(name.to_string());
                }
                (joined, member) = (0, false);
            }
            other => {
                if !path.is_empty() {
                    used.push(std::mem::take(&mut path));
                }
                (joined, member) = (0, matches!(&other, TokenTree::Punct(p) if p.as_char() == '.'));
                if let TokenTree::Group(group) = other {
                    in_tokens(group.stream(), used);
                }
            }
        }
    }
    if !path.is_empty() {
        used.push(path);
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| match &a.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::NameValue(_) => false,
    })
}

/// The value of `#[path = "…"]`.
fn elsewhere(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|a| match &a.meta {
        syn::Meta::NameValue(syn::MetaNameValue {
            path,
            value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(value), .. }),
            ..
        }) if path.is_ident("path") => Some(value.value()),
        _ => None,
    })
}

/// The name that an item adds to its module.
fn defined(item: &syn::Item) -> Option<(&syn::Ident, Meaning)> {
    use syn::Item;
    Some(match item {
        Item::Const(i) => (&i.ident, Meaning::Value),
        Item::Fn(i) => (&i.sig.ident, Meaning::Value),
        Item::Static(i) => (&i.ident, Meaning::Value),
        Item::Enum(i) => (&i.ident, Meaning::Type),
        Item::Macro(i) => (i.ident.as_ref()?, Meaning::Type),
        Item::Struct(i) => (&i.ident, Meaning::Type),
        Item::Trait(i) => (&i.ident, Meaning::Type),
        Item::Type(i) => (&i.ident, Meaning::Type),
        Item::Union(i) => (&i.ident, Meaning::Type),
        _ => return None,
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}
