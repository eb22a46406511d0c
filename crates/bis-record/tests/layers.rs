//! The layers of this crate: which file may import, and call, what of which other. The list of the layers is
//! the table in ARCHITECTURE.md; it is read there, so that there is one. Of other crates, the circles. Of all
//! crates, names that ask where neither yes nor no is answered.
//!
//! A file knows another by what it imports of it, by paths in its code, and by the methods of `Domain`, and
//! of what a domain is made of, that it calls: these are written in many files, and no import shows whose
//! they are. What is there for tests only does not count, nor that a module hands on the names of what is
//! below it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use syn::visit::{self, Visit};

/// The types of one crate whose methods are written in many files. The first has the others inside, and what
/// is found by their names is a method of one of them.
type Owners = &'static [&'static str];

/// The crates whose files are looked at, the types whose methods are written in many of them, and the most
/// files that may know each other in a circle. In the debugger these are all for one idea, how a position is
/// reached: its name may lead to a window of steps, whose end is a position, too.
const CRATES: [(&str, Owners, usize); 3] =
    [("bis-record", DOMAIN, 5), ("bis-replay", &["Replica"], 5), ("bis-debug", &["Session"], 11)];

const DOMAIN: Owners = &["Domain", "Recorder", "Process", "Crew"];

/// A module's path below the crate's root; none of the root itself.
type Module = Vec<String>;

/// What a file says of others, before it is known what is where.
#[derive(Default)]
struct File {
    /// Paths from the crate's root.
    paths: BTreeSet<Vec<String>>,
    /// Names that it hands on, and the paths that they have.
    handed_on: BTreeMap<String, Vec<String>>,
    /// Methods of the owners that are written here, and those that are called.
    written: BTreeSet<String>,
    called: BTreeSet<String>,
}

/// Reads a file of this module.
struct Reader<'a> {
    module: &'a [String],
    owners: Owners,
    file: File,
    in_owner: bool,
}

impl Reader<'_> {
    /// Is a variable of this name one of those types?
    fn is_owner(&self, name: &str) -> bool {
        self.owners.iter().any(|owner| owner.to_lowercase() == name) || name == "self" && self.in_owner
    }

    /// Is this a variable of those types, or one that is asked for the owner which is made of its parts?
    fn is_owners(&self, receiver: &syn::Expr) -> bool {
        match receiver {
            syn::Expr::Path(path) => {
                path.path.get_ident().is_some_and(|name| self.is_owner(&name.to_string()))
            }
            syn::Expr::MethodCall(call) => {
                let name = call.method.to_string();
                self.owners.iter().any(|owner| owner.to_lowercase() == name) && self.is_owners(&call.receiver)
            }
            _ => false,
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
        if let [.., owner, name] = &parts[..]
            && (self.owners.contains(&owner.as_str()) || owner == "Self" && self.in_owner)
        {
            self.file.called.insert(name.clone());
        }
        self.file.paths.extend(self.rooted(&parts));
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
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
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
        let is_owner = of.is_some_and(|of| self.owners.contains(&of.as_str()));
        let before = std::mem::replace(&mut self.in_owner, is_owner);
        if self.in_owner && item.trait_.is_none() {
            let methods = item.items.iter().filter_map(|item| match item {
                syn::ImplItem::Fn(method) => Some(method.sig.ident.to_string()),
                _ => None,
            });
            self.file.written.extend(methods);
        }
        visit::visit_item_impl(self, item);
        self.in_owner = before;
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if self.is_owners(&call.receiver) {
            self.file.called.insert(call.method.to_string());
        }
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
            if let [by, ".", name, "("] = call
                && self.is_owner(by)
            {
                self.file.called.insert((*name).to_owned());
            }
        }
    }
}

/// Which modules each module knows, and by which names.
type Known = BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>;

fn known(sources: &BTreeMap<Module, String>, owners: Owners) -> Known {
    let files: BTreeMap<&Module, File> = sources
        .iter()
        .map(|(module, text)| {
            let mut reader = Reader { module, owners, file: File::default(), in_owner: false };
            reader.visit_file(&syn::parse_file(text).expect("it compiles"));
            (module, reader.file)
        })
        .collect();
    let written: BTreeMap<&String, &Module> = files
        .iter()
        .flat_map(|(module, file)| file.written.iter().map(move |method| (method, *module)))
        .collect();
    let found = |path: &Vec<String>| {
        let mut path = path.clone();
        // Names are handed on a few times at the most.
        for _ in 0..8 {
            let at = (1..=path.len()).rev().find(|len| files.contains_key(&path[..*len].to_vec()))?;
            let (module, rest) = path.split_at(at);
            let handed_on = rest.first().and_then(|name| files[&module.to_vec()].handed_on.get(name));
            match handed_on {
                Some(elsewhere) => path = [&elsewhere[..], &rest[1..]].concat(),
                None => return Some((module.to_vec(), rest.join("::"))),
            }
        }
        None
    };
    let all = files.iter().map(|(module, file)| {
        let mut knows: BTreeMap<Module, BTreeSet<String>> = BTreeMap::new();
        let methods =
            file.called.iter().filter_map(|name| Some(((*written.get(name)?).clone(), format!(".{name}()"))));
        for (other, name) in file.paths.iter().filter_map(found).chain(methods) {
            if other != **module {
                knows.entry(other).or_default().insert(name);
            }
        }
        ((*module).clone(), knows)
    });
    all.collect()
}

/// The circles of modules that know each other, each in the order of their names.
fn circles(known: &Known) -> Vec<Vec<&Module>> {
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

/// Each module of a crate, with its text; the root, which names them all, is not among them.
fn sources(of: &str) -> BTreeMap<Module, String> {
    fn read(folder: &Path, module: &[String], all: &mut BTreeMap<Module, String>) {
        for entry in fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
            let below = if name == "mod" { module.to_vec() } else { [module, &[name]].concat() };
            if path.is_dir() {
                read(&path, &below, all);
            } else if below != ["lib"] && path.extension().is_some_and(|end| end == "rs") {
                all.insert(below, fs::read_to_string(&path).expect("a source"));
            }
        }
    }
    let mut all = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of).join("src"), &[], &mut all);
    all
}

/// A room of a layer: a file, or a folder with all in it that is not named elsewhere.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Room {
    module: Module,
    is_file: bool,
}

impl Room {
    fn has(&self, module: &Module) -> bool {
        if self.is_file { *module == self.module } else { module.starts_with(&self.module) }
    }
}

/// From the lowest to the highest: the name of each, and its rooms.
type Layers = Vec<(String, Vec<Room>)>;

/// The layers, as ARCHITECTURE.md has them.
fn layers() -> Layers {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let text = fs::read_to_string(page).expect("ARCHITECTURE.md");
    let rows = text.lines().skip_while(|line| !line.starts_with("| layer | rooms |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|')).map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let room = |name: &str| {
            let file = name.strip_suffix(".rs");
            let path = file.or(name.strip_suffix('/'))?;
            let module = path.strip_suffix("/mod").unwrap_or(path).split('/').map(str::to_owned).collect();
            Some(Room { module, is_file: file.is_some() })
        };
        (cells[0].trim().to_owned(), cells[1].split('`').skip(1).step_by(2).filter_map(room).collect())
    });
    rows.collect()
}

/// The layer of a module: of the room that names it most closely.
fn layer_of(module: &Module, layers: &Layers) -> Option<usize> {
    let rooms =
        layers.iter().enumerate().flat_map(|(at, (_, rooms))| rooms.iter().map(move |room| (at, room)));
    let closest =
        rooms.filter(|(_, room)| room.has(module)).max_by_key(|(_, room)| (room.module.len(), room.is_file));
    closest.map(|(at, _)| at)
}

/// What is known of layers above.
fn upward(known: &Known, layers: &Layers) -> Vec<String> {
    let mut all = Vec::new();
    for (module, others) in known {
        for (other, names) in others {
            let (from, to) = (layer_of(module, layers), layer_of(other, layers));
            if from < to {
                let name = |at: Option<usize>| at.map_or("no layer", |at| layers[at].0.as_str());
                let names = names.iter().cloned().collect::<Vec<_>>().join(" ");
                let (module, other) = (module.join("/"), other.join("/"));
                all.push(format!("{module} ({}) knows {other} ({}): {names}", name(from), name(to)));
            }
        }
    }
    all
}

#[test]
fn every_file_has_its_layer() {
    let (sources, layers) = (sources("bis-record"), layers());
    assert!(layers.len() > 5 && sources.len() > 100, "{} layers, {} files", layers.len(), sources.len());
    let without: Vec<String> = sources
        .keys()
        .filter(|module| layer_of(module, &layers).is_none())
        .map(|module| module.join("/"))
        .collect();
    assert!(without.is_empty(), "no layer in ARCHITECTURE.md has {without:?}");
    let rooms: Vec<&Room> = layers.iter().flat_map(|(_, rooms)| rooms).collect();
    for room in &rooms {
        assert!(sources.keys().any(|module| room.has(module)), "there is no {room:?}");
        assert_eq!(rooms.iter().filter(|other| *other == room).count(), 1, "{room:?} is named twice");
    }
}

#[test]
fn no_file_knows_a_layer_above_its_own() {
    let upward = upward(&known(&sources("bis-record"), DOMAIN), &layers());
    assert!(upward.is_empty(), "{}", upward.join("\n"));
}

#[test]
fn circles_are_small() {
    for (of, owners, max) in CRATES {
        look_for_circles(&known(&sources(of), owners), max);
    }
}

fn look_for_circles(known: &Known, max: usize) {
    for circle in circles(known) {
        let of: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
        let arrows: Vec<String> = circle
            .iter()
            .flat_map(|from| {
                let inside = known[*from].iter().filter(|(to, _)| circle.contains(to));
                inside.map(|(to, names)| format!("{} knows {}: {names:?}", from.join("/"), to.join("/")))
            })
            .collect();
        assert!(of.len() <= max, "{} files in a circle: {of:?}\n{}", of.len(), arrows.join("\n"));
    }
}

/// Functions and methods by these names ask something. One that changes something, or gives something else
/// than an answer, has a name that says so.
const QUESTIONS: [&str; 14] = [
    "is_", "has_", "may_", "can_", "was_", "wants_", "stands_", "holds_", "waits_", "goes_", "begins_",
    "refuses_", "ends_", "does_",
];

/// Is `bool` a part of a type?
#[derive(Default)]
struct Answers(bool);

impl<'ast> Visit<'ast> for Answers {
    fn visit_ident(&mut self, it: &'ast syn::Ident) {
        self.0 |= it == "bool";
    }
}

/// The names that ask, of what answers neither yes nor no.
#[derive(Default)]
struct Unanswered(Vec<String>);

impl<'ast> Visit<'ast> for Unanswered {
    fn visit_signature(&mut self, it: &'ast syn::Signature) {
        let name = it.ident.to_string();
        let mut answers = Answers::default();
        answers.visit_return_type(&it.output);
        if QUESTIONS.iter().any(|it| name.starts_with(it)) && !answers.0 {
            self.0.push(name);
        }
        visit::visit_signature(self, it);
    }
}

fn unanswered(text: &str) -> Vec<String> {
    let mut found = Unanswered::default();
    found.visit_file(&syn::parse_file(text).expect("it compiles"));
    found.0
}

#[test]
fn what_asks_by_its_name_answers() {
    let crates = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("the crates");
    let mut count = 0;
    for of in crates.map(|of| of.expect("a crate").file_name()) {
        for (module, text) in sources(of.to_str().expect("a name")) {
            // The compiler of the schema gives names of its own.
            if module.first().is_some_and(|first| first == "generated") {
                continue;
            }
            let names = unanswered(&text);
            assert!(names.is_empty(), "{of:?}: {}: {names:?}", module.join("/"));
            count += 1;
        }
    }
    assert!(count > 400, "{count} files");
    let text =
        "impl It { fn is_old(&mut self); fn has_it(&mut self) -> Result<(), E>; fn is_new(&self) -> bool; }
        fn may_last() -> Duration; fn can_end() -> Result<Option<bool>, E>;";
    assert_eq!(unanswered(&text.replace(';', " {}")), ["is_old", "has_it", "may_last"]);
}

/// What these tests would say of a crate of three files.
#[test]
fn what_is_wrong_is_found() {
    let module = |name: &str| vec![name.to_owned()];
    let low =
        "pub use inner::Name; use crate::high::Loop; #[cfg(test)] mod tests { use crate::middle::Part; }";
    let middle = "use crate::low::Name; impl Crew { fn asked(&self) { if matches!(self.run(), 1) {} } }";
    let high =
        "impl Domain { fn run(&self) -> u8 { self.recorder().asked() } fn other(&self) { crate::low::f() } }";
    let sources = [(module("low"), low), (module("middle"), middle), (module("high"), high)];
    let known = known(&sources.map(|(name, text)| (name, text.to_owned())).into(), DOMAIN);
    let layers = ["low", "middle", "high"].map(|name| {
        let room = Room { module: module(name), is_file: true };
        (name.to_owned(), vec![room])
    });
    assert_eq!(
        upward(&known, &layers.to_vec()),
        ["low (low) knows high (high): Loop", "middle (middle) knows high (high): .run()"]
    );
    let circle = [module("high"), module("low"), module("middle")];
    assert_eq!(circles(&known), [circle.iter().collect::<Vec<_>>()]);
}
