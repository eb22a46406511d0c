//! What attempts to replay a trace have taught about its pauses.
//!
//! A place is known by its state, and that can deceive: the task may have been there before in what looks the
//! same, and then what follows differs. No look at the state tells; only the divergence does. So the replay
//! goes back to before that pause (to a checkpoint of the domain, if there is one that depends on nobody
//! else: [`crate::run`]; else to the begin of everything), and takes the next place that fits. And a program
//! that reads its own text must not find a jump there: where one does, that pause is looked for by a debug
//! register alone. A pause that was missed is looked for by less of its memory.
//!
//! Which pause is to blame is a guess: the last ones before the divergence, one after another. A guess that
//! does not take the replay further is given up. What was right is kept in the trace's folder
//! ([`FILE_NAME`]), so that it is learnt once; without that file, or with a wrong one, a replay only takes
//! longer. It also says whether a replay of all was ever right to its end: before that a debugger's session,
//! which cannot begin again, has one made ([`has_guesses`]).

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::Write,
    os::unix::fs::OpenOptionsExt,
};

use bis_trace::{
    Trace,
    event::{Event, EventKind},
    types::{DomainId, EventSeq},
};

use crate::{divergence::Divergence, error::ReplayError};

/// The file's name in a trace's folder: a line for each pause.
pub const FILE_NAME: &str = "places";

/// A line of that file: a replay of the whole trace has found all pauses so.
const PROVEN: &str = "proven";

/// How many of the pauses before a divergence are suspected, how many places of each are tried, and how many
/// attempts there are in all.
const SUSPECTS_MAX: usize = 3;
const SKIPS_MAX: u32 = 4;
const ATTEMPTS_MAX: u32 = 40;

/// How to look for a pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct How {
    /// How many places that fit come before it.
    pub skips: u32,
    /// No jump may be put into the text.
    pub no_jump: bool,
    /// Of its memory, only what is compared word by word is to be as it was, not what there are sums of: a
    /// program may have copied what an xsave left on its stack, which does not repeat; and of its vector
    /// registers, not what may be such a word.
    pub loose: bool,
}

/// Does a trace have pauses that are found by their state, and no replay of all of it has shown yet that
/// these are the right places? A replay of a part of the trace alone would meet a wrong one as a divergence,
/// somewhere.
#[must_use]
pub fn has_guesses(trace: &Trace) -> bool {
    if is_proven(trace) {
        return false;
    }
    let is_guess = |event: Event| matches!(event.kind, EventKind::Pause(_)) && event.ticks.is_none();
    let has_one = |domain| trace.events(domain).without_ours().map_while(Result::ok).any(is_guess);
    trace.domains().any(|entry| has_one(entry.domain))
}

/// Has a replay of the whole trace come to its end?
pub(crate) fn is_proven(trace: &Trace) -> bool {
    let text = fs::read_to_string(trace.dir().join(FILE_NAME)).unwrap_or_default();
    text.lines().any(|line| line == PROVEN)
}

/// Keeps what was learnt with the trace, if that may be written: it is of use, and not needed.
pub(crate) fn keep(trace: &Trace, learnt: &Learnt, is_proven: bool) {
    let proven = if is_proven { format!("{PROVEN}\n") } else { String::new() };
    let path = trace.dir().join(FILE_NAME);
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
    let text = format!("{proven}{}", learnt.to_text());
    if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
        tracing::info!(%error, "what was learnt is not kept");
    }
}

/// How to look for the pauses of a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Learnt(BTreeMap<EventSeq, How>);

impl Learnt {
    /// How to look for the pause of this event.
    #[must_use]
    pub fn of(&self, pause: EventSeq) -> How {
        self.0.get(&pause).copied().unwrap_or_default()
    }

    /// Those that are not looked for as all others are.
    pub fn iter(&self) -> impl Iterator<Item = (EventSeq, How)> + '_ {
        self.0.iter().map(|(seq, how)| (*seq, *how))
    }

    /// What is kept with a trace: nothing where there is no such file.
    #[must_use]
    pub fn of_trace(trace: &Trace) -> Learnt {
        Learnt::from_text(&fs::read_to_string(trace.dir().join(FILE_NAME)).unwrap_or_default())
    }

    /// Reads what [`Learnt::to_text`] has made; lines that are something else do not count.
    #[must_use]
    pub fn from_text(text: &str) -> Learnt {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let seq = words.next()?.parse().ok().map(EventSeq)?;
            let skips = words.next()?.parse().ok()?;
            let mut how = How { skips, ..How::default() };
            for word in words {
                match word {
                    "register" => how.no_jump = true,
                    "loose" => how.loose = true,
                    _ => {}
                }
            }
            Some((seq, how))
        };
        Learnt(text.lines().filter_map(line).collect())
    }

    /// A line for each pause: the event, how many places come before it, "register" where no jump may be
    /// used, and "loose" for [`How::loose`].
    #[must_use]
    pub fn to_text(&self) -> String {
        let line = |(seq, how): (EventSeq, How)| {
            let register = if how.no_jump { " register" } else { "" };
            let loose = if how.loose { " loose" } else { "" };
            format!("{seq} {}{register}{loose}\n", how.skips)
        };
        self.iter().map(line).collect()
    }

    fn set(&mut self, pause: EventSeq, how: How) {
        if how == How::default() {
            self.0.remove(&pause);
        } else {
            self.0.insert(pause, how);
        }
    }
}

/// The pauses that an attempt has looked for, by domain, in order, and whether it has found them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found(HashMap<DomainId, Vec<(EventSeq, bool)>>);

impl Found {
    pub(crate) fn begin(&mut self, domain: DomainId, pause: EventSeq) {
        self.0.entry(domain).or_default().push((pause, false));
    }

    /// The one that was begun last was found.
    pub(crate) fn end(&mut self, domain: DomainId) {
        if let Some((_, found)) = self.0.get_mut(&domain).and_then(|all| all.last_mut()) {
            *found = true;
        }
    }

    /// The domain goes back: what was found from this event on was not.
    pub(crate) fn go_back(&mut self, domain: DomainId, seq: EventSeq) {
        if let Some(all) = self.0.get_mut(&domain) {
            all.retain(|(pause, _)| *pause < seq);
        }
    }

    /// Were any looked for?
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that were found, the last one first.
    fn found(&self, domain: DomainId) -> impl Iterator<Item = EventSeq> + '_ {
        let all = self.0.get(&domain).into_iter().flatten().rev();
        all.filter(|(_, found)| *found).map(|(seq, _)| *seq)
    }

    fn was_missed(&self, domain: DomainId, pause: EventSeq) -> bool {
        self.0.get(&domain).is_some_and(|all| all.contains(&(pause, false)))
    }
}

/// A divergence, and the pauses that are suspected of it.
struct Trial {
    divergence: Box<Divergence>,
    /// The last pause first.
    suspects: Vec<EventSeq>,
    /// What had been learnt of the first of them before.
    before: How,
}

/// A search for the right places, over attempts.
#[derive(Default)]
pub(crate) struct Search {
    pub learnt: Learnt,
    attempts: u32,
    /// By the domain that has diverged.
    trials: HashMap<DomainId, Trial>,
    /// The domain of the last one.
    last: Option<DomainId>,
}

impl Search {
    pub(crate) fn new(learnt: Learnt) -> Search {
        Search { learnt, ..Search::default() }
    }

    /// The program has read the text at this pause while a jump was there. Is there another way?
    pub(crate) fn without_jump(&mut self, pause: EventSeq) -> bool {
        let how = self.learnt.of(pause);
        self.learnt.set(pause, How { no_jump: true, ..how });
        !how.no_jump
    }

    /// Is something tried that may be wrong? Then the program may do what it never did, for ever.
    pub(crate) fn is_trying_any(&self) -> bool {
        !self.trials.is_empty()
    }

    /// Is something tried in this domain that may be wrong?
    pub(crate) fn is_trying(&self, domain: DomainId) -> bool {
        self.trials.contains_key(&domain)
    }

    /// The domain has come past where it had diverged.
    pub(crate) fn note_come(&mut self, domain: DomainId) {
        self.trials.remove(&domain);
    }

    /// What to do after a divergence in an attempt that found these pauses: the first pause that is looked
    /// for in another way from now on.
    ///
    /// # Errors
    /// The divergence to report, when there is nothing else to try.
    pub(crate) fn diverged(
        &mut self,
        divergence: Box<Divergence>,
        found: &Found,
    ) -> Result<EventSeq, ReplayError> {
        let (domain, seq) = (divergence.domain, divergence.seq);
        self.attempts += 1;
        let how = self.learnt.of(seq);
        if found.was_missed(domain, seq) && how.skips == 0 && !how.loose {
            self.learnt.set(seq, How { loose: true, ..how });
            return Ok(seq);
        }
        if found.was_missed(domain, seq) && how.skips > 0 && !self.trials.contains_key(&domain) {
            // Nobody has tried that here: what was kept with the trace is wrong.
            self.learnt.set(seq, How::default());
            return Ok(seq);
        }
        let trial = match self.trials.remove(&domain) {
            Some(trial) if seq <= trial.divergence.seq => trial,
            _ => {
                let suspects: Vec<EventSeq> =
                    found.found(domain).filter(|pause| *pause <= seq).take(SUSPECTS_MAX).collect();
                let before = suspects.first().map_or(How::default(), |pause| self.learnt.of(*pause));
                Trial { divergence, suspects, before }
            }
        };
        self.trials.insert(domain, trial);
        self.last = Some(domain);
        self.go_on(domain, found)
    }

    /// What to do after an attempt at the whole replay that did not come to an end: as [`Self::diverged`], in
    /// the domain where something was tried last.
    ///
    /// # Errors
    /// The divergence to report, when there is nothing else to try.
    pub(crate) fn give_up(&mut self, found: &Found) -> Result<EventSeq, ReplayError> {
        self.go_on(self.last.unwrap_or(DomainId(0)), found)
    }

    /// What to do next in a domain in which something is tried: as [`Self::diverged`].
    ///
    /// # Errors
    /// The divergence to report, when there is nothing else to try.
    pub(crate) fn go_on(&mut self, domain: DomainId, found: &Found) -> Result<EventSeq, ReplayError> {
        let Some(trial) = self.trials.get_mut(&domain) else {
            return Err(ReplayError::Machine("a replay was given up though nothing was tried".into()));
        };
        while let Some(&suspect) = trial.suspects.first() {
            let how = self.learnt.of(suspect);
            // Where the suspect itself was not found any more, there are no more places that fit.
            let has_more = found.found(domain).any(|pause| pause == suspect);
            let may_skip = how.skips < trial.before.skips.saturating_add(SKIPS_MAX);
            if has_more && may_skip && self.attempts <= ATTEMPTS_MAX {
                self.learnt.set(suspect, How { skips: how.skips + 1, ..how });
                return Ok(suspect);
            }
            self.learnt.set(suspect, trial.before);
            trial.suspects.remove(0);
            let Some(&next) = trial.suspects.first() else { break };
            trial.before = self.learnt.of(next);
            if self.attempts <= ATTEMPTS_MAX {
                self.learnt.set(next, How { skips: trial.before.skips + 1, ..trial.before });
                return Ok(next);
            }
        }
        Err(ReplayError::Divergence(trial.divergence.clone()))
    }
}

#[cfg(test)]
mod tests {
    use bis_trace::types::Tid;

    use super::*;

    fn diverged(search: &mut Search, seq: u64, found: &Found) -> bool {
        search.diverged(divergence(1, seq), found).is_ok()
    }

    fn divergence(domain: u32, seq: u64) -> Box<Divergence> {
        Box::new(Divergence {
            domain: DomainId(domain),
            pid: Tid(1),
            command: String::new(),
            tid: Tid(1),
            seq: EventSeq(seq),
            position: seq,
            expected: String::new(),
            found: String::new(),
            registers: Vec::new(),
            place: String::new(),
            code: Vec::new(),
            recent: Vec::new(),
            cause: String::new(),
        })
    }

    fn found(pauses: &[u64]) -> Found {
        let mut found = Found::default();
        for pause in pauses {
            found.begin(DomainId(1), EventSeq(*pause));
            found.end(DomainId(1));
        }
        found
    }

    #[test]
    fn a_pause_that_was_missed_is_looked_for_by_less_of_its_memory() {
        let mut search = Search::default();
        let mut missed = found(&[3]);
        missed.begin(DomainId(1), EventSeq(9));
        assert!(diverged(&mut search, 9, &missed));
        assert_eq!(search.learnt.to_text(), "9 0 loose\n");
        assert_eq!(Learnt::from_text(&search.learnt.to_text()), search.learnt);
        // Then the one before may have been another place.
        assert!(diverged(&mut search, 9, &missed));
        assert_eq!(search.learnt.of(EventSeq(3)).skips, 1);
    }

    #[test]
    fn what_was_kept_may_be_wrong() {
        let mut search = Search::new(Learnt::from_text("9 2\n"));
        let mut missed = found(&[3]);
        missed.begin(DomainId(1), EventSeq(9));
        assert_eq!(search.diverged(divergence(1, 9), &missed).ok(), Some(EventSeq(9)));
        assert_eq!(search.learnt, Learnt::default());
    }

    #[test]
    fn without_pauses_there_is_nothing_to_try() {
        assert!(!diverged(&mut Search::default(), 7, &found(&[])));
        assert!(!diverged(&mut Search::default(), 7, &found(&[8, 9])));
    }

    #[test]
    fn the_last_pause_is_suspected_first_and_acquitted_where_nothing_else_fits() {
        let mut search = Search::default();
        assert!(diverged(&mut search, 12, &found(&[3, 10])));
        assert_eq!(search.learnt.to_text(), "10 1\n");
        assert!(diverged(&mut search, 12, &found(&[3, 10])));
        assert_eq!(search.learnt.to_text(), "10 2\n");
        // It was not found a third time.
        assert!(diverged(&mut search, 10, &found(&[3])));
        assert_eq!(search.learnt.to_text(), "3 1\n");
        // That was right: the next divergence is later.
        assert!(diverged(&mut search, 40, &found(&[3, 10, 30])));
        assert_eq!(search.learnt.to_text(), "3 1\n30 1\n");
    }

    #[test]
    fn a_divergence_that_no_pause_explains_is_reported_in_the_end() {
        let mut search = Search::default();
        let found = found(&[1, 2, 3, 4, 5]);
        let mut attempts = 0;
        while diverged(&mut search, 6, &found) {
            attempts += 1;
        }
        assert_eq!(attempts, 3 * SKIPS_MAX);
        assert_eq!(search.learnt, Learnt::default());
    }

    #[test]
    fn it_is_said_how_far_back_it_goes() {
        let mut search = Search::default();
        let all = found(&[3, 10, 20]);
        for _ in 0..SKIPS_MAX {
            assert_eq!(search.diverged(divergence(1, 22), &all).ok(), Some(EventSeq(20)));
        }
        // The next suspect, and the last one is looked for as before again.
        assert_eq!(search.diverged(divergence(1, 22), &all).ok(), Some(EventSeq(10)));
        assert_eq!(search.learnt.to_text(), "10 1\n");
        let mut back = all.clone();
        back.go_back(DomainId(1), EventSeq(10));
        assert_eq!(back.found(DomainId(1)).collect::<Vec<_>>(), [EventSeq(3)]);
    }

    #[test]
    fn what_one_domain_tries_is_not_disturbed_by_another() {
        let mut search = Search::default();
        let mut all = found(&[3]);
        all.begin(DomainId(2), EventSeq(4));
        all.end(DomainId(2));
        for _ in 0..SKIPS_MAX {
            assert_eq!(search.diverged(divergence(1, 5), &all).ok(), Some(EventSeq(3)));
            assert_eq!(search.diverged(divergence(2, 6), &all).ok(), Some(EventSeq(4)));
        }
        assert!(search.diverged(divergence(1, 5), &all).is_err());
        assert!(search.diverged(divergence(2, 6), &all).is_err());
        assert_eq!(search.learnt, Learnt::default());
    }

    #[test]
    fn a_pause_loses_its_jump_once() {
        let mut search = Search::new(Learnt::from_text("5 2\nnot a line\n6 0 register\n"));
        assert!(search.without_jump(EventSeq(5)));
        assert!(!search.without_jump(EventSeq(5)));
        assert_eq!(search.learnt.to_text(), "5 2 register\n6 0 register\n");
        assert_eq!(Learnt::from_text(&search.learnt.to_text()), search.learnt);
    }
}
