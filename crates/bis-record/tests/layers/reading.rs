//! How a crate is read: which of its files knows which other, and by which names.
//!
//! A file knows another by what it imports of it, by paths in its code, and by the methods that it calls of
//! types whose methods are written in many files: no import shows whose these are. What is there for tests
//! only does not count, nor that a module hands on the names of what is below it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use syn::visit::{self, Visit};

/// The types of one crate whose methods are written in many files. Those of one family lie in one another,
/// and what is found by the name of one of them is a method of any.
pub type Owners = &'static [Family];

pub type Family = &'static [&'static str];

/// A method of a family: the family's number, and the method's name.
type Method = (usize, String);

/// A module's path below the crate's root; none of the root itself.
pub type Module = Vec<String>;

/// What a file says of others, before it is known what is where.
#[derive(Default)]
struct File {
    /// Paths from the crate's root.
    paths: BTreeSet<Vec<String>>,
    /// Names that it hands on, and the paths that they have.
    handed_on: BTreeMap<String, Vec<String>>,
    /// Methods of the owners that are written here, and those that are called.
    written: BTreeSet<Method>,
    called: BTreeSet<Method>,
    /// The modules below that have files of their own, and those of them that are for tests only.
    below: BTreeSet<String>,
    for_tests: BTreeSet<String>,
    /// Paths that begin with no word for a place: with a module below, another crate, or a name.
    relative: BTreeSet<Vec<String>>,
}

/// Reads a file of this module.
struct Reader<'a> {
    module: &'a [String],
    owners: Owners,
    file: File,
    /// The family of the type whose methods are read.
    within: Option<usize>,
}

impl Reader<'_> {
    /// The family of the type that is called so.
    fn family(&self, is_it: impl Fn(&str) -> bool) -> Option<usize> {
        self.owners.iter().position(|family| family.iter().any(|owner| is_it(owner)))
    }

    /// The family of what a variable, a field, or a method that gives one is called, if it is one of those
    /// types.
    fn named(&self, name: &str) -> Option<usize> {
        self.family(|owner| owner.to_lowercase() == name)
    }

    /// The family of that whose method is called, if it is a variable of those types, a field of that name,
    /// or one that is asked for the owner which is made of its parts.
    fn receiver(&self, receiver: &syn::Expr) -> Option<usize> {
        match receiver {
            syn::Expr::Path(path) => match path.path.get_ident()?.to_string().as_str() {
                "self" => self.within,
                name => self.named(name),
            },
            syn::Expr::Field(field) => match &field.member {
                syn::Member::Named(name) => self.named(&name.to_string()),
                syn::Member::Unnamed(_) => None,
            },
            syn::Expr::MethodCall(call) => {
                self.receiver(&call.receiver)?;
                self.named(&call.method.to_string())
            }
            _ => None,
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string() == "test",
        _ => false,
    })
}

/// Each path that an import names, and what it is called here.
fn imported(tree: &syn::UseTree, before: &[String], all: &mut Vec<(Vec<String>, String)>) {
    let and = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        syn::UseTree::Path(path) => imported(&path.tree, &and(&path.ident), all),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| imported(tree, before, all)),
        syn::UseTree::Name(name) if name.ident == "self" => {
            all.push((before.to_vec(), before.last().cloned().unwrap_or_default()));
        }
        syn::UseTree::Name(name) => all.push((and(&name.ident), name.ident.to_string())),
        syn::UseTree::Rename(name) => all.push((and(&name.ident), name.rename.to_string())),
        syn::UseTree::Glob(_) => all.push((before.to_vec(), String::new())),
    }
}

impl Reader<'_> {
    /// A path as it is from the crate's root; none: it leads elsewhere, or is of this file.
    fn rooted(&self, path: &[String]) -> Option<Vec<String>> {
        let mut base = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => self.module.to_vec(),
            _ => return None,
        };
        let ups = path.iter().take_while(|part| *part == "super").count();
        base.truncate(base.len().checked_sub(ups)?);
        let rest = path.iter().skip_while(|part| ["crate", "self", "super"].contains(&part.as_str()));
        Some(base.into_iter().chain(rest.cloned()).collect())
    }

    fn sees(&mut self, path: &syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if let [.., owner, name] = &parts[..] {
            let own = if owner == "Self" { self.within } else { None };
            let family = own.or_else(|| self.family(|it| it == owner));
            self.file.called.extend(family.map(|family| (family, name.clone())));
        }
        match self.rooted(&parts) {
            Some(path) => drop(self.file.paths.insert(path)),
            None => drop(self.file.relative.insert(parts)),
        }
    }

    /// What the file says, when all of it has been read.
    fn done(mut self) -> File {
        let relative = std::mem::take(&mut self.file.relative);
        let is_below = |path: &Vec<String>| path.first().is_some_and(|first| self.file.below.contains(first));
        let below = relative.iter().filter(|path| is_below(path));
        let below: Vec<_> = below.map(|path| [self.module, &path[..]].concat()).collect();
        self.file.paths.extend(below);
        self.file
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(it) => &it.attrs,
            syn::Item::Fn(it) => &it.attrs,
            syn::Item::Impl(it) => &it.attrs,
            syn::Item::Use(it) => &it.attrs,
            _ => return visit::visit_item(self, item),
        };
        match item {
            _ if !is_for_tests(attributes) => visit::visit_item(self, item),
            syn::Item::Mod(it) => drop(self.file.for_tests.insert(it.ident.to_string())),
            _ => {}
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() {
            self.file.below.insert(item.ident.to_string());
        }
        visit::visit_item_mod(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut all = Vec::new();
        imported(&item.tree, &[], &mut all);
        for (path, name) in all {
            let is_public = !matches!(item.vis, syn::Visibility::Inherited);
            let below = is_public.then(|| [self.module, &path[..]].concat());
            match (self.rooted(&path), below) {
                (rooted, Some(below)) => {
                    self.file.handed_on.insert(name, rooted.unwrap_or(below));
                }
                (Some(path), None) => {
                    self.file.paths.insert(path);
                }
                // A module below, or another crate, which nobody finds here.
                (None, None) => {
                    self.file.paths.insert([self.module, &path[..]].concat());
                }
            }
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|part| part.ident.to_string()),
            _ => None,
        };
        let family = of.and_then(|of| self.family(|owner| owner == of));
        let before = std::mem::replace(&mut self.within, family);
        if let Some(family) = family
            && item.trait_.is_none()
        {
            let methods = item.items.iter().filter_map(|item| match item {
                syn::ImplItem::Fn(method) => Some((family, method.sig.ident.to_string())),
                _ => None,
            });
            self.file.written.extend(methods);
        }
        visit::visit_item_impl(self, item);
        self.within = before;
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let family = self.receiver(&call.receiver);
        self.file.called.extend(family.map(|family| (family, call.method.to_string())));
        visit::visit_expr_method_call(self, call);
    }

    /// `pub(super)` is no knowledge of what is above.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.sees(path);
        visit::visit_path(self, path);
    }

    /// What is in a macro's brackets is words; calls by `self` and `domain` are found there too.
    fn visit_macro(&mut self, it: &'ast syn::Macro) {
        let text = it.tokens.to_string();
        let words: Vec<&str> = text
            .split(|c: char| c.is_whitespace())
            .flat_map(|word| word.split_inclusive(['.', '(']))
            .flat_map(|word| match word.strip_suffix(['.', '(']) {
                Some(name) => vec![name, &word[name.len()..]],
                None => vec![word],
            })
            .filter(|word| !word.is_empty())
            .collect();
        for call in words.windows(4) {
            if let [by, ".", name, "("] = call {
                let family = if *by == "self" { self.within } else { self.named(by) };
                self.file.called.extend(family.map(|family| (family, (*name).to_owned())));
            }
        }
    }
}

/// The files of a crate, its root among them, but for those of its tests.
fn files<'a>(sources: &'a BTreeMap<Module, String>, owners: Owners) -> BTreeMap<&'a Module, File> {
    let read = |(module, text): (&'a Module, &'a String)| {
        let mut reader = Reader { module, owners, file: File::default(), within: None };
        reader.visit_file(&syn::parse_file(text).expect("it compiles"));
        (module, reader.done())
    };
    let mut files: BTreeMap<&Module, File> = sources.iter().map(read).collect();
    let tests = files.iter().flat_map(|(module, file)| {
        file.for_tests.iter().map(|name| [&module[..], std::slice::from_ref(name)].concat())
    });
    let tests: Vec<Module> = tests.collect();
    files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    files
}

/// Which modules each module knows, and by which names. Those of tests are not among them.
pub type Known = BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>;

pub fn known(sources: &BTreeMap<Module, String>, owners: Owners) -> Known {
    let files = files(sources, owners);
    let written: BTreeMap<&Method, &Module> = files
        .iter()
        .flat_map(|(module, file)| file.written.iter().map(move |method| (method, *module)))
        .collect();
    let found = |path: &Vec<String>| {
        let mut path = path.clone();
        // Names are handed on a few times at the most.
        for _ in 0..8 {
            let at = (0..=path.len()).rev().find(|len| files.contains_key(&path[..*len].to_vec()))?;
            let (module, rest) = path.split_at(at);
            let handed_on = rest.first().and_then(|name| files[&module.to_vec()].handed_on.get(name));
            match handed_on {
                Some(elsewhere) => path = [&elsewhere[..], &rest[1..]].concat(),
                None => return Some((module.to_vec(), rest.join("::"))),
            }
        }
        None
    };
    // The root knows all that is right below it, and is known by nobody.
    let all = files.iter().filter(|(module, _)| !module.is_empty()).map(|(module, file)| {
        let mut knows: BTreeMap<Module, BTreeSet<String>> = BTreeMap::new();
        let methods =
            file.called.iter().filter_map(|it| Some(((*written.get(it)?).clone(), format!(".{}()", it.1))));
        for (other, name) in file.paths.iter().filter_map(found).chain(methods) {
            if other != **module && !other.is_empty() {
                knows.entry(other).or_default().insert(name);
            }
        }
        ((*module).clone(), knows)
    });
    all.collect()
}

/// The circles of modules that know each other, each in the order of their names.
pub fn circles(known: &Known) -> Vec<Vec<&Module>> {
    let reached = |from: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(
                known.get(module).into_iter().flat_map(BTreeMap::keys).filter(|it| !seen.contains(it)),
            );
            seen.extend(known.get(module).into_iter().flat_map(BTreeMap::keys));
        }
        seen
    };
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = known.keys().map(|it| (it, reached(it))).collect();
    let circle = |it: &Module| -> Vec<&Module> {
        let others = reach[it].iter().filter(|other| reach.get(**other).is_some_and(|all| all.contains(it)));
        others.copied().collect()
    };
    let all: BTreeSet<Vec<&Module>> = known.keys().map(circle).filter(|it| it.len() > 1).collect();
    all.into_iter().collect()
}

/// Each module of a crate, with its text.
pub fn sources(of: &str) -> BTreeMap<Module, String> {
    fn read(folder: &Path, module: &[String], all: &mut BTreeMap<Module, String>) {
        for entry in fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
            // What the compiler of the schema has made knows no file of ours, and is longer than all of them.
            if name == "generated" {
                continue;
            }
            let is_folders = ["mod", "lib", "main"].contains(&name.as_str());
            let below = if is_folders { module.to_vec() } else { [module, &[name]].concat() };
            if path.is_dir() {
                read(&path, &below, all);
            } else if path.extension().is_some_and(|end| end == "rs") {
                all.insert(below, fs::read_to_string(&path).expect("a source"));
            }
        }
    }
    let mut all = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of).join("src"), &[], &mut all);
    all
}
