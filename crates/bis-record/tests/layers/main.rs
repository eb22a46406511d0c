//! The layers of each crate: which file may import, and call, what of which other. The lists of the layers
//! are the tables in ARCHITECTURE.md; they are read there, so that there is one of each. Of crates without
//! layers, the circles.

mod names;
mod reading;
mod rooms;

use self::{
    reading::{Known, Module, Owners, circles, known, sources},
    rooms::{Room, layer_of, layers, upward},
};

/// What is looked at in a crate.
struct Crate {
    name: &'static str,
    owners: Owners,
    /// Has it a table in ARCHITECTURE.md?
    has_layers: bool,
}

const fn layered(name: &'static str, owners: Owners) -> Crate {
    Crate { name, owners, has_layers: true }
}

const fn plain(name: &'static str, owners: Owners) -> Crate {
    Crate { name, owners, has_layers: false }
}

const CRATES: [Crate; 9] = [
    plain("bis", &[]),
    layered("bis-debug", &[&["Session"], &["Served"]]),
    layered("bis-record", DOMAIN),
    layered("bis-replay", &[&["Replica"], &["Task"], &["Traps"]]),
    layered("bis-tracee", &[]),
    plain("bis-agent", &[]),
    plain("bis-rewrite", &[]),
    plain("bis-syscalls", &[&["Maker"], &["Builder"]]),
    layered("bis-trace", &[&["Trace"]]),
];

const DOMAIN: Owners = &[&["Domain", "Recorder", "Process", "Crew"]];

/// So many files at most know each other in a circle: whoever reads one of them has to read all.
const CIRCLE_MAX: usize = 5;

impl Crate {
    fn known(&self) -> Known {
        known(&sources(self.name), self.owners)
    }
}

#[test]
fn every_file_has_its_layer() {
    for of in CRATES.iter().filter(|of| of.has_layers) {
        let (known, layers) = (of.known(), layers(of.name));
        let (count, files) = (layers.len(), known.len());
        assert!(count > 4 && files > 20, "{}: {count} layers, {files} files", of.name);
        let without = known.keys().filter(|module| layer_of(module, &layers).is_none());
        let without: Vec<String> = without.map(|module| module.join("/")).collect();
        assert!(without.is_empty(), "{}: no layer in ARCHITECTURE.md has {without:?}", of.name);
        let rooms: Vec<&Room> = layers.iter().flat_map(|(_, rooms)| rooms).collect();
        for room in &rooms {
            assert!(known.keys().any(|module| room.has(module)), "{}: there is no {room:?}", of.name);
            let count = rooms.iter().filter(|other| *other == room).count();
            assert_eq!(count, 1, "{}: {room:?} is named twice", of.name);
        }
    }
}

#[test]
fn no_file_knows_a_layer_above_its_own() {
    for of in CRATES.iter().filter(|of| of.has_layers) {
        let upward = upward(&of.known(), &layers(of.name));
        assert!(upward.is_empty(), "{}: {}", of.name, upward.join("\n"));
    }
}

#[test]
fn circles_are_small() {
    for of in &CRATES {
        look_for_circles(of.name, &of.known());
    }
}

fn look_for_circles(of: &str, known: &Known) {
    for circle in circles(known) {
        let files: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
        let arrows: Vec<String> = circle
            .iter()
            .flat_map(|from| {
                let inside = known[*from].iter().filter(|(to, _)| circle.contains(to));
                inside.map(|(to, names)| format!("{} knows {}: {names:?}", from.join("/"), to.join("/")))
            })
            .collect();
        let count = files.len();
        assert!(count <= CIRCLE_MAX, "{of}: {count} files in a circle: {files:?}\n{}", arrows.join("\n"));
    }
}

/// What these tests would say of a crate of some files.
#[test]
fn what_is_wrong_is_found() {
    let module = |name: &str| -> Module { name.split('/').map(str::to_owned).collect() };
    let files = [
        (
            "low",
            "#[cfg(test)] mod tests; pub use inner::Name; use crate::high::Loop;
            #[cfg(test)] mod of_tests { use crate::middle::Part; }",
        ),
        ("low/tests", "use crate::high::Loop;"),
        ("middle", "use crate::low::Name; impl Crew { fn asked(&self) { if matches!(self.run(), 1) {} } }"),
        (
            "high",
            "mod below; impl Domain { fn run(&self) -> u8 { self.recorder().asked() }
            fn other(&self, it: below::It) { crate::low::f() } }",
        ),
        (
            "high/below",
            "impl It { fn run(&self) { self.mine.domain.other() } } impl Other { fn other(&self) {} }",
        ),
    ];
    let sources = files.map(|(name, text)| (module(name), text.to_owned())).into();
    const OWNERS: Owners = &[DOMAIN[0], &["Other"]];
    let known = known(&sources, OWNERS);
    let layers = ["low", "middle", "high"].map(|name| {
        let room = Room { module: module(name), is_file: name != "high" };
        (name.to_owned(), vec![room])
    });
    assert_eq!(
        upward(&known, &layers.to_vec()),
        ["low (low) knows high (high): Loop", "middle (middle) knows high (high): .run()"]
    );
    let circle = ["high", "high/below", "low", "middle"].map(module);
    assert_eq!(circles(&known), [circle.iter().collect::<Vec<_>>()]);
}
