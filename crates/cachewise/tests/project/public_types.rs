//! The libraries that others can use name no type of another crate in a public signature, unless they export it: who uses
//! the library needs no other crate, and no certain version of one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Field, Fields, ImplItem, Item, ItemImpl, ItemUse, Signature, UseTree, Visibility};

/// The folders of these libraries.
const LIBRARIES: [&str; 2] = ["residency", "probe"];

/// Names that a file imports, each with its path.
type Imports = BTreeMap<String, Vec<String>>;

fn import(tree: &UseTree, mut path: Vec<String>, imports: &mut Imports) {
    match tree {
        UseTree::Path(one) => {
            path.push(one.ident.to_string());
            import(&one.tree, path, imports);
        }
        UseTree::Group(group) => {
            for one in &group.items {
                import(one, path.clone(), imports);
            }
        }
        UseTree::Name(one) if one.ident == "self" => {
            imports.insert(path.last().cloned().unwrap_or_default(), path);
        }
        UseTree::Name(one) => {
            path.push(one.ident.to_string());
            imports.insert(one.ident.to_string(), path);
        }
        UseTree::Rename(one) => {
            path.push(one.ident.to_string());
            imports.insert(one.rename.to_string(), path);
        }
        UseTree::Glob(_) => {}
    }
}

/// Collects the first names of the paths in public signatures.
struct Signatures<'a> {
    /// Path in a signature; with the crate that it is of, if a file imports it.
    found: &'a mut BTreeSet<Vec<String>>,
    imports: Imports,
}

impl Signatures<'_> {
    fn signature(&mut self, signature: &Signature) {
        visit::visit_signature(&mut Paths(self), signature);
    }

    fn field(&mut self, field: &Field) {
        visit::visit_type(&mut Paths(self), &field.ty);
    }

    fn fields(&mut self, fields: &Fields) {
        for field in fields.iter().filter(|field| is_public(&field.vis)) {
            self.field(field);
        }
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Fn(one) if is_public(&one.vis) => self.signature(&one.sig),
            Item::Struct(one) if is_public(&one.vis) => self.fields(&one.fields),
            Item::Enum(one) if is_public(&one.vis) => {
                let fields = one.variants.iter().flat_map(|variant| &variant.fields);
                fields.for_each(|field| self.field(field));
            }
            Item::Type(one) if is_public(&one.vis) => visit::visit_type(&mut Paths(self), &one.ty),
            Item::Const(one) if is_public(&one.vis) => visit::visit_type(&mut Paths(self), &one.ty),
            Item::Impl(one) if one.trait_.is_none() => self.methods(one),
            _ => {}
        }
    }

    fn methods(&mut self, block: &ItemImpl) {
        for item in &block.items {
            match item {
                ImplItem::Fn(method) if is_public(&method.vis) => self.signature(&method.sig),
                _ => {}
            }
        }
    }
}

/// Visits the paths of types.
struct Paths<'a, 's>(&'a mut Signatures<'s>);

impl<'ast> Visit<'ast> for Paths<'_, '_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut names: Vec<String> = path
            .segments
            .iter()
            .map(|one| one.ident.to_string())
            .collect();
        if let Some(from) = self.0.imports.get(&names[0]) {
            names.splice(..1, from.iter().cloned());
        }
        self.0.found.insert(names);
        visit::visit_path(self, path);
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The crates that a manifest names, as code does.
fn dependencies(directory: &Path) -> BTreeSet<String> {
    let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let table = manifest["dependencies"].as_table().expect("dependencies");
    table.keys().map(|name| name.replace('-', "_")).collect()
}

fn sources(directory: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|one| one == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
}

/// The types of other crates in public signatures that the library's root does not export.
fn foreign_types(directory: &Path) -> Vec<String> {
    let dependencies = dependencies(directory);
    let mut files = Vec::new();
    sources(&directory.join("src"), &mut files);
    let (mut found, mut exported) = (BTreeSet::new(), BTreeSet::new());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source can be read");
        let parsed = syn::parse_file(&text).expect("Rust");
        let is_root = file == directory.join("src/lib.rs");
        let mut imports = Imports::new();
        for item in &parsed.items {
            if let Item::Use(ItemUse { tree, vis, .. }) = item {
                import(tree, Vec::new(), &mut imports);
                if is_root && is_public(vis) {
                    let mut here = Imports::new();
                    import(tree, Vec::new(), &mut here);
                    exported.extend(here.into_values());
                }
            }
        }
        let mut signatures = Signatures {
            found: &mut found,
            imports,
        };
        parsed.items.iter().for_each(|item| signatures.item(item));
    }
    let foreign = found
        .into_iter()
        .filter(|path| dependencies.contains(&path[0]));
    foreign
        .filter(|path| !exported.contains(path))
        .map(|path| path.join("::"))
        .collect()
}

#[test]
fn public_signatures_name_only_types_that_the_library_exports() {
    let folders = crate::import_rule::folders();
    for library in LIBRARIES {
        let (_, directory) = (folders.iter())
            .find(|(folder, _)| folder.as_str() == library)
            .expect("the library's folder");
        assert_eq!(foreign_types(directory), Vec::<String>::new(), "{library}");
    }
}

#[test]
fn a_type_of_another_crate_is_found() {
    let place = tempfile::tempdir().expect("a directory can be made");
    std::fs::create_dir(place.path().join("src")).expect("a directory can be made");
    let write = |name: &str, text: &str| {
        std::fs::write(place.path().join(name), text).expect("a file can be written");
    };
    write("Cargo.toml", "[dependencies]\nother-crate = \"1\"\n");
    write("src/lib.rs", "mod a;");
    write(
        "src/a.rs",
        "use other_crate::Size; pub fn f(size: Option<Size>) {} fn g(one: other_crate::Inner) {}",
    );
    assert_eq!(foreign_types(place.path()), ["other_crate::Size"]);
    write("src/lib.rs", "mod a; pub use other_crate::Size;");
    assert!(foreign_types(place.path()).is_empty());
}
