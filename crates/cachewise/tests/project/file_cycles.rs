//! No file of a crate imports from a file that imports from it, directly or by way of others.
//!
//! A file depends on another one if its code names an item that the other defines; a re-export stands for the item behind
//! it. Unit tests are left out. Names that a macro makes count as items of the file with the macro.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

/// A module, in a file of its own or in that of its parent.
#[derive(Default)]
struct Module {
    file: PathBuf,
    items: BTreeSet<String>,
    children: BTreeSet<String>,
    imports: Vec<Import>,
    /// Paths of at least two segments in its code.
    names: Vec<Vec<String>>,
}

/// `use path as name`; a glob has the name `*`, which its path does not end with.
struct Import {
    path: Vec<String>,
    name: String,
    is_exported: bool,
}

type ModulePath = Vec<String>;

/// The modules of a crate.
#[derive(Default)]
struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    fn read(directory: &Path) -> Modules {
        let mut modules = Modules::default();
        let root = ["lib.rs", "main.rs"].map(|name| directory.join(name));
        let root = root.iter().find(|file| file.exists());
        if let Some(root) = root {
            modules.load(root, Vec::new(), directory);
        }
        modules
    }

    /// Reads a file, and the files of its submodules, which lie in `directory`.
    fn load(&mut self, file: &Path, path: ModulePath, directory: &Path) {
        let text = std::fs::read_to_string(file).expect("a module's file can be read");
        let parsed = syn::parse_file(&text)
            .unwrap_or_else(|error| panic!("{} is no Rust: {error}", file.display()));
        self.add(parsed.items, file, path, directory);
    }

    fn add(&mut self, items: Vec<Item>, file: &Path, path: ModulePath, directory: &Path) {
        let mut module = Module {
            file: file.to_owned(),
            ..Module::default()
        };
        let mut submodules = Vec::new();
        for item in items {
            match item {
                Item::Mod(one) if is_of_tests(&one.attrs) => {}
                Item::Mod(one) => submodules.push(one),
                item => Reader(&mut module).visit_item(&item),
            }
        }
        for ItemMod { ident, content, .. } in submodules {
            let name = ident.to_string();
            let mut below = path.clone();
            below.push(name.clone());
            let inner = directory.join(&name);
            module.children.insert(name.clone());
            if let Some((_, items)) = content {
                self.add(items, file, below, &inner);
                continue;
            }
            let files = [directory.join(format!("{name}.rs")), inner.join("mod.rs")];
            // A file with a path attribute is one that the build makes.
            if let Some(child) = files.iter().find(|file| file.exists()) {
                self.load(child, below, &inner);
            }
        }
        self.0.insert(path, module);
    }

    /// The path from the crate's root of a path as it is written in `module`; `None` for other crates.
    fn absolute(&self, module: &ModulePath, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => return Some(rest.to_vec()),
            "self" | "super" => {
                let mut base = module.clone();
                let mut rest = path;
                while let [first, tail @ ..] = rest {
                    match first.as_str() {
                        "self" => {}
                        "super" => drop(base.pop()),
                        _ => break,
                    }
                    rest = tail;
                }
                base.extend_from_slice(rest);
                return Some(base);
            }
            _ => {}
        }
        let known = self.0.get(module)?;
        if known.children.contains(first) {
            return Some([module, path].concat());
        }
        let import = known.imports.iter().find(|import| import.name == *first)?;
        // Of another crate, under the crate's own name.
        if import.path.first() == Some(first) {
            return None;
        }
        let base = self.absolute(module, &import.path)?;
        Some([&base, rest].concat())
    }

    /// The file that defines the item at a path from the root; `None` for a module itself.
    fn file_of(&self, path: &[String], depth: usize) -> Option<&Path> {
        let (length, module) = (0..=path.len())
            .rev()
            .find_map(|length| Some((length, self.0.get(&path[..length])?)))?;
        let (item, rest) = path[length..].split_first()?;
        if module.items.contains(item) || depth == 0 {
            return Some(&module.file);
        }
        let here = path[..length].to_vec();
        for import in &module.imports {
            let target = if import.name == *item {
                self.absolute(&here, &import.path)
            } else if import.name == "*" {
                let base = self.absolute(&here, &import.path);
                let base = base.filter(|base| {
                    let from = self.0.get(base.as_slice());
                    from.is_some_and(|from| from.items.contains(item))
                });
                base.map(|base| [base, vec![item.clone()]].concat())
            } else {
                None
            };
            if let Some(target) = target {
                return self.file_of(&[target.as_slice(), rest].concat(), depth - 1);
            }
        }
        Some(&module.file)
    }

    /// The files that each file depends on, with one of the names.
    fn dependencies(&self) -> BTreeMap<&Path, BTreeMap<&Path, String>> {
        const REEXPORTS: usize = 8;
        let mut files: BTreeMap<&Path, BTreeMap<&Path, String>> = BTreeMap::new();
        for (path, module) in &self.0 {
            let from = files.entry(&module.file).or_default();
            let imports = module.imports.iter();
            let imported = imports
                .filter(|import| !import.is_exported && import.name != "*")
                .map(|import| &import.path);
            for name in imported.chain(&module.names) {
                let target = self.absolute(path, name);
                let file = target.and_then(|target| self.file_of(&target, REEXPORTS));
                if let Some(file) = file.filter(|file| *file != module.file) {
                    from.entry(file).or_insert_with(|| name.join("::"));
                }
            }
        }
        files
    }
}

fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("cfg") && list.is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

/// Collects what a module defines, imports and names.
struct Reader<'a>(&'a mut Module);

impl Reader<'_> {
    fn import(&mut self, tree: &UseTree, mut path: Vec<String>, is_exported: bool) {
        let (path, name) = match tree {
            UseTree::Path(one) => {
                path.push(one.ident.to_string());
                return self.import(&one.tree, path, is_exported);
            }
            UseTree::Group(group) => {
                for one in &group.items {
                    self.import(one, path.clone(), is_exported);
                }
                return;
            }
            UseTree::Glob(_) => (path, "*".to_owned()),
            UseTree::Name(one) if one.ident == "self" => {
                let name = path.last().cloned().unwrap_or_default();
                (path, name)
            }
            UseTree::Name(one) => {
                path.push(one.ident.to_string());
                (path, one.ident.to_string())
            }
            UseTree::Rename(one) => {
                if one.ident != "self" {
                    path.push(one.ident.to_string());
                }
                (path, one.rename.to_string())
            }
        };
        self.0.imports.push(Import {
            path,
            name,
            is_exported,
        });
    }

    /// Paths in the arguments of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.named(std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.named(std::mem::take(&mut path));
                    self.tokens(group.stream());
                    colons = 0;
                }
                _ => {
                    self.named(std::mem::take(&mut path));
                    colons = 0;
                }
            }
        }
        self.named(path);
    }

    fn named(&mut self, path: Vec<String>) {
        if path.len() > 1 {
            self.0.names.push(path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let name = match item {
            Item::Const(one) => Some(&one.ident),
            Item::Enum(one) => Some(&one.ident),
            Item::Fn(one) => Some(&one.sig.ident),
            Item::Static(one) => Some(&one.ident),
            Item::Struct(one) => Some(&one.ident),
            Item::Trait(one) => Some(&one.ident),
            Item::Type(one) => Some(&one.ident),
            Item::Union(one) => Some(&one.ident),
            Item::Macro(one) => one.ident.as_ref(),
            _ => None,
        };
        if let Some(name) = name {
            self.0.items.insert(name.to_string());
        }
        visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_exported = !matches!(item.vis, Visibility::Inherited);
        self.import(&item.tree, Vec::new(), is_exported);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        self.named(segments.map(|one| one.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, one: &'ast Macro) {
        self.tokens(one.tokens.clone());
        visit::visit_macro(self, one);
    }
}

/// The imports that lead from a file back to it, if there are any.
fn circle<'a>(
    start: &'a Path,
    files: &BTreeMap<&'a Path, BTreeMap<&'a Path, String>>,
) -> Option<Vec<&'a Path>> {
    let mut from: BTreeMap<&Path, &Path> = BTreeMap::new();
    let mut waiting = vec![start];
    while let Some(file) = waiting.pop() {
        for next in files.get(file).into_iter().flat_map(BTreeMap::keys) {
            if *next == start {
                let mut way = vec![start, file];
                while let Some(before) = from.get(way[way.len() - 1]) {
                    way.push(before);
                }
                way.dedup();
                way.reverse();
                return Some(way);
            }
            if !from.contains_key(next) {
                from.insert(next, file);
                waiting.push(next);
            }
        }
    }
    None
}

/// A circle of a crate in words.
fn first_circle(directory: &Path) -> Option<String> {
    let modules = Modules::read(&directory.join("src"));
    let files = modules.dependencies();
    let way = files.keys().find_map(|file| circle(file, &files))?;
    let steps = way.windows(2).map(|step| {
        let short = |file: &Path| file.strip_prefix(directory).unwrap_or(file).to_owned();
        let name = files.get(step[0]).and_then(|to| to.get(step[1]));
        let name = name.map_or("?", String::as_str);
        format!(
            "{} uses {name} of {}",
            short(step[0]).display(),
            short(step[1]).display()
        )
    });
    Some(steps.collect::<Vec<_>>().join(", "))
}

#[test]
fn no_file_imports_in_a_circle() {
    let mut wrong = Vec::new();
    for (folder, directory) in crate::import_rule::folders() {
        if let Some(circle) = first_circle(&directory) {
            wrong.push(format!("{folder}: {circle}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_circle_of_two_files_is_found() {
    let place = tempfile::tempdir().expect("a directory can be made");
    let source = place.path().join("src");
    std::fs::create_dir(&source).expect("a directory can be made");
    let write = |name: &str, text: &str| {
        std::fs::write(source.join(name), text).expect("a file can be written");
    };
    write("lib.rs", "mod a; mod b; pub use a::Shape;");
    write(
        "a.rs",
        "use crate::b::area; pub struct Shape(u32); fn f() { area(); }",
    );
    write(
        "b.rs",
        "pub fn area() { println!(\"{}\", crate::Shape::NAME); }",
    );
    let circle = first_circle(place.path()).expect("a uses b, and b uses a by the re-export");
    assert!(
        circle.contains("a.rs uses crate::b::area of src/b.rs"),
        "{circle}"
    );
    write("b.rs", "pub fn area() {}");
    assert_eq!(first_circle(place.path()), None);
}
