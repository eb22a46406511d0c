//! How a program image begins: what a process executes from its exec on.

use bis_replay::{Halt, Limit, Solo, Stop};
use bis_trace::types::{DomainId, EventSeq, Tid};
use bis_tracee::balance;

use super::{
    Session, Trouble,
    history::{History, Mark},
    live::Live,
    place::Position,
};

/// A replica behind the first event of an image, of which a checkpoint is kept.
pub(super) fn begin_image<'t>(
    host: &mut Solo<'t>,
    history: &mut History<'t>,
    images: &[DomainId],
    image: usize,
) -> Result<(Live<'t>, EventSeq), Halt> {
    let domain = images.get(image).copied().unwrap_or(DomainId(0));
    let mut replica = host.begin(domain)?;
    if let Some(core) = replica.own_core() {
        balance::pin(Tid(0), core);
    }
    replica.attend();
    let each = Limit { each_event: true, ..Limit::default() };
    let stop = host.advance(&mut replica, &each, &mut |_, _| {})?;
    let Stop::Event(event) = stop else {
        return Err(Halt::Cut(format!("the program of domain {domain} does not begin ({stop:?})")));
    };
    let company = std::mem::take(&mut host.company);
    let mut live = Live::new(replica, company, image);
    if let Some(mark) = Mark::of(&mut live, Position::at(event))? {
        history.add(mark);
    }
    Ok((live, event))
}

impl Session<'_> {
    /// Is there a checkpoint at the begin of this image? There is now.
    pub(super) fn have_image(&mut self, image: usize) -> Result<(), Trouble> {
        let entry = self.images.get(image).and_then(|domain| self.world.entry(*domain).ok());
        if entry.is_some_and(|entry| self.history.has_event(entry.seq)) {
            return Ok(());
        }
        let was_audible = std::mem::replace(&mut self.host.is_audible, false);
        let begun = begin_image(&mut self.host, &mut self.history, &self.images, image);
        self.host.is_audible = was_audible;
        begun?;
        Ok(())
    }
}
