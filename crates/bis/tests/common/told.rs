//! A trace with all of its events, to be written again with some of them told otherwise: what a replay must
//! see.

use std::{collections::BTreeMap, fmt::Display, fs, path::Path};

use bis_trace::{
    EchoEntry, Trace, Writer,
    event::{Event, Meta},
    types::DomainId,
};
use libtest_mimic::Failed;

fn failed(error: impl Display) -> Failed {
    error.to_string().into()
}

/// See the module's text.
pub struct Told {
    trace: Trace,
    /// By domain.
    pub events: BTreeMap<u32, Vec<Event>>,
    /// What `cpuid` offered to its programs (`Machine::features`).
    pub features: Vec<u32>,
}

impl Told {
    pub fn read(dir: &Path) -> Result<Told, Failed> {
        let trace = Trace::open(dir).map_err(failed)?;
        let mut events = BTreeMap::new();
        for domain in trace.domains() {
            let all: Result<Vec<Event>, _> = trace.events(domain.domain).collect();
            events.insert(domain.domain.0, all.map_err(failed)?);
        }
        let features = trace.machine().map(|machine| machine.features.clone()).unwrap_or_default();
        Ok(Told { trace, events, features })
    }

    /// Writes it as it is told. A domain that is not among `events` loses its end, too.
    pub fn write(&self, events: &BTreeMap<u32, Vec<Event>>, dir: &Path) -> Result<(), Failed> {
        let writer = Writer::create(dir).map_err(failed)?;
        for entry in fs::read_dir(self.trace.dir().join("files"))? {
            let entry = entry?;
            fs::hard_link(entry.path(), dir.join("files").join(entry.file_name()))?;
        }
        let (last, first): (Vec<_>, Vec<_>) =
            self.trace.metas().partition(|meta| matches!(meta, Meta::End { .. }));
        for meta in first {
            let mut meta = meta.clone();
            if let Meta::DomainEnd { domain, event_count, .. } = &mut meta {
                let Some(events) = events.get(&domain.0) else { continue };
                *event_count = events.len() as u64;
            }
            if let Meta::Machine(machine) = &mut meta {
                machine.features.clone_from(&self.features);
            }
            writer.meta(&meta).map_err(failed)?;
        }
        for EchoEntry { seq, domain, stream, len } in self.trace.echoes().iter().cloned() {
            writer.meta(&Meta::Echo { seq, domain, stream, len }).map_err(failed)?;
        }
        for (domain, events) in events {
            let mut stream = writer.stream(DomainId(*domain));
            events.iter().try_for_each(|event| stream.push(event)).map_err(failed)?;
            stream.flush().map_err(failed)?;
        }
        last.into_iter().try_for_each(|meta| writer.meta(meta)).map_err(failed)?;
        writer.finish().map_err(failed)
    }
}
