//! Memory that was mapped before the process was found: each mapping is told as if its call had just been
//! made, with what the memory holds.

use std::os::unix::fs::FileTypeExt;

use bis_trace::{
    event::{Backing, Effect, Outcome},
    types::{Tid, prot},
};
use bis_tracee::maps::Mapping;

use super::memory::{Made, is_as_installed, key_of};
use crate::{
    domain::Domain,
    error::{RecordError, Result},
    space::{content, open_mapped, own_pages},
};

impl Domain {
    /// Adds a mapping to the outcome that builds the address space, but for the main thread's stack, of which
    /// this tells only what it holds.
    pub fn tell_mapping(&mut self, tid: Tid, mapping: &Mapping, outcome: &mut Outcome) -> Result<()> {
        let looked_at =
            |source| RecordError::Os { what: "look at a file that the program has mapped", source };
        let Mapping { start: addr, prot, offset, .. } = *mapping;
        let len = mapping.len();
        let file = if mapping.inode == 0 { None } else { open_mapped(tid, mapping) };
        let opened =
            file.map(|file| file.metadata().map(|meta| (file, meta))).transpose().map_err(looked_at)?;
        // A device is memory here (/dev/zero); what cannot be opened is told whole.
        let Some((file, meta)) = opened.filter(|(_, meta)| !meta.file_type().is_char_device()) else {
            if mapping.name != b"[stack]" {
                outcome.effects.push(Effect::Map { addr, len, prot, backing: Backing::Anonymous });
            }
            outcome.writes.extend(content(tid, &self.memory, mapping)?);
            return Ok(());
        };
        let (key, name) = (key_of(&meta), mapping.name.clone());
        let is_as_installed = is_as_installed(&meta, &name);
        let is_open = || self.session.registry.find(key).is_some();
        if mapping.shared && (!is_as_installed || prot & prot::WRITE != 0 || is_open()) {
            let made = Made { tid, addr, len, prot, is_shared: true };
            return self.map_shared(&made, Some((key, file, offset, name)), outcome);
        }
        let file = if is_as_installed || mapping.shared {
            self.session.keep(&file, &name)?
        } else {
            self.add_view((addr, len), key, offset, (&file, &name))?.file
        };
        outcome.effects.push(Effect::Map { addr, len, prot, backing: Backing::File { file, offset } });
        outcome.writes.extend(own_pages(tid, &self.memory, mapping)?);
        Ok(())
    }
}
