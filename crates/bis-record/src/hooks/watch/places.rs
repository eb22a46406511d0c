//! Which core each domain is on: what balances, and what gathers, have one look at them in common.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    sync::Arc,
};

use bis_agent::hooks::state;
use bis_trace::types::DomainId;
use bis_tracee::balance::{self, Balance};

use super::Watched;
use crate::{
    cores::Cores,
    gather::{Gather, Placing, Work},
};

/// Which core each domain is on, and why.
pub(super) struct Places {
    pub(super) balance: Balance,
    gather: Gather,
    /// How many hooked calls each pinned domain had made at the last look.
    calls: HashMap<DomainId, u64>,
    /// The core that all share, and where each domain was before that.
    shared: Option<usize>,
    homes: HashMap<DomainId, usize>,
}

impl Places {
    pub(super) fn new(cores: &Cores) -> Places {
        Places {
            balance: Balance::new(cores.numbers().to_vec()),
            gather: Gather::new(),
            calls: HashMap::new(),
            shared: None,
            homes: HashMap::new(),
        }
    }

    /// What these domains have done since the last look, as far as they were there.
    fn take_work(&mut self, all: &[(DomainId, Arc<Watched>)]) -> Vec<Work> {
        let then = mem::take(&mut self.calls);
        let share = balance::EVERY.as_secs_f64() / self.balance.passed().as_secs_f64();
        let of = |(id, watched): &(DomainId, Arc<Watched>)| {
            let now = watched.get(state::COUNT);
            self.calls.insert(*id, now);
            let calls = (now.saturating_sub(*then.get(id)?) as f64 * share) as u64;
            Some(Work { calls, ran: self.balance.ran(u64::from(id.0)) })
        };
        all.iter().filter_map(of).collect()
    }

    /// All these domains go to one core, or each to its own again, if that is likely to be faster. On
    /// `starved`, one has just got nothing at all.
    pub(super) fn gather(&mut self, all: &[(DomainId, Arc<Watched>)], cores: &Cores, starved: Option<usize>) {
        let work = self.take_work(all);
        let is_starved = starved.is_some() && starved == self.shared;
        let changed = if is_starved { self.gather.spread() } else { self.gather.look(&work) };
        if let Some(placing) = changed {
            tracing::debug!(?placing, ?work, "domains are sent elsewhere");
            self.shared = (placing == Placing::Together).then(|| busiest(all)).flatten();
            self.balance.set_together(self.shared.is_some());
            cores.share(self.shared);
        }
        match self.shared {
            // Some may have come since.
            Some(core) => {
                for (id, watched) in all {
                    if let Some(home) = watched.seat.core().filter(|home| *home != core) {
                        self.homes.insert(*id, home);
                        watched.seat.send_to(core);
                    }
                }
            }
            None => {
                for (id, watched) in all {
                    self.homes.remove(id).into_iter().for_each(|home| watched.seat.send_to(home));
                }
                self.homes.clear();
            }
        }
    }
}

/// The core on which most of these domains are.
fn busiest(all: &[(DomainId, Arc<Watched>)]) -> Option<usize> {
    let mut counts = BTreeMap::new();
    all.iter()
        .filter_map(|(_, watched)| watched.seat.core())
        .for_each(|core| *counts.entry(core).or_insert(0) += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(core, _)| core)
}
