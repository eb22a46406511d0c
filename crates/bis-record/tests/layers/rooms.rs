//! The rooms of a crate, in layers, as ARCHITECTURE.md has them: a table for each crate.

use std::{fs, path::Path};

use crate::reading::{Known, Module};

/// A room of a layer: a file, or a folder with all in it that is not named elsewhere.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Room {
    pub module: Module,
    pub is_file: bool,
}

impl Room {
    pub fn has(&self, module: &Module) -> bool {
        if self.is_file { *module == self.module } else { module.starts_with(&self.module) }
    }
}

/// From the lowest to the highest: the name of each, and its rooms.
pub type Layers = Vec<(String, Vec<Room>)>;

/// The layers of a crate.
pub fn layers(of: &str) -> Layers {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let text = fs::read_to_string(page).expect("ARCHITECTURE.md");
    let head = format!("| layer of `{of}` | rooms |");
    let rows = text.lines().skip_while(|line| !line.starts_with(&head)).skip(2);
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
pub fn layer_of(module: &Module, layers: &Layers) -> Option<usize> {
    let rooms =
        layers.iter().enumerate().flat_map(|(at, (_, rooms))| rooms.iter().map(move |room| (at, room)));
    let closest =
        rooms.filter(|(_, room)| room.has(module)).max_by_key(|(_, room)| (room.module.len(), room.is_file));
    closest.map(|(at, _)| at)
}

/// What is known of layers above.
pub fn upward(known: &Known, layers: &Layers) -> Vec<String> {
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
