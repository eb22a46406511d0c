//! Objects that a client reads whole.

use bis_trace::event::DomainEntry;

use super::served::Served;
use crate::{
    protocol::reply::{OsTable, ThreadEntry, libraries_svr4_xml, os_data_xml, threads_xml},
    session::{
        libraries::{Libraries, Part},
        processes,
    },
};

impl Served<'_> {
    /// The threads, with their names.
    pub(super) fn threads_xml(&self) -> Vec<u8> {
        let entry = |tid| ThreadEntry {
            id: self.thread(tid),
            core: None,
            name: self.session.name(tid),
            note: self.session.note(tid),
        };
        let threads: Vec<ThreadEntry> = self.session.threads().into_iter().map(entry).collect();
        threads_xml(&threads).into_bytes()
    }

    /// What the dynamic linker has loaded. Without an answer, a client reads the list by itself.
    pub(super) fn list_libraries(&mut self, annex: &str) -> Option<Vec<u8>> {
        let found = self.libraries(annex)?;
        let told = found.libraries.iter().map(|library| (library.path.clone(), library.bias));
        self.memory.told_libraries.extend(told);
        Some(libraries_svr4_xml(found.main, &found.libraries).into_bytes())
    }

    pub(super) fn libraries(&self, annex: &str) -> Option<Libraries> {
        let mut part = Part::default();
        for (key, value) in annex.split(';').filter_map(|pair| pair.split_once('=')) {
            let value = u64::from_str_radix(value, 16).ok()?;
            match key {
                "start" => part.from = Some(value).filter(|from| *from != 0),
                "prev" => part.before = value,
                "lmid" => part.namespace = Some(value).filter(|namespace| *namespace != 0),
                _ => {}
            }
        }
        self.session.libraries(part, self.files.of_trace())
    }

    /// What `info os` shows: the recorded processes, and the threads of the one that is looked at.
    pub(super) fn os_data(&self, kind: &str) -> Option<Vec<u8>> {
        let world = self.session.world();
        let table = match kind {
            "" => OsTable {
                kind: "types",
                columns: &["Type", "Description", "Title"],
                rows: vec![
                    ["processes", "The recorded processes", "Processes"].map(String::from).to_vec(),
                    ["threads", "The threads of this process", "Threads"].map(String::from).to_vec(),
                ],
            },
            "processes" => {
                let images = processes::lives(world).into_iter().flat_map(|life| life.images);
                let row = |entry: &DomainEntry| {
                    vec![entry.pid.to_string(), entry.ppid.to_string(), world.command(entry)]
                };
                OsTable {
                    kind: "processes",
                    columns: &["pid", "parent", "command"],
                    rows: images.map(row).collect(),
                }
            }
            "threads" => {
                let row = |tid| {
                    vec![self.pid().to_string(), self.session.name(tid).unwrap_or_default(), tid.to_string()]
                };
                let rows = self.session.threads().into_iter().map(row).collect();
                OsTable { kind: "threads", columns: &["pid", "command", "tid"], rows }
            }
            _ => return None,
        };
        Some(os_data_xml(&table).into_bytes())
    }
}
