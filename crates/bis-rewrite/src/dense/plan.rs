//! The plan of a dense text: which bytes of the file give way, and to what. It knows no place for the
//! trampolines yet, so it is right for all of them.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction};

use super::{
    Coverage, DenseOptions, calls, flags,
    loads::Loads,
    runs::{Chooser, Row},
    survey::{Candidate, Survey, What},
};
use crate::{analysis::Analysis, bits::Bits, run::Reason, text::Text};

/// Bytes of text that give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patch {
    /// The file's address.
    pub start: u64,
    pub len: u8,
    pub change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The last four bytes are a displacement; they are to lead to a count before `target`.
    Displacement { target: u64, keep_flags: bool },
    /// A run. Bit N of `marks`: its instruction N is counted or hooked; of `keep_flags`: with the flags kept.
    Run { marks: u16, keep_flags: u16 },
}

/// What is to be done to a file's text to make it count.
pub struct DensePlan<'t, 'a> {
    pub(super) text: &'t Analysis<'a>,
    pub(super) options: DenseOptions,
    pub(super) loads: Loads,
    /// By address.
    pub(super) patches: Vec<Patch>,
    coverage: Coverage,
    left: Vec<(u64, Reason)>,
}

impl<'a> Text<'a> {
    /// Works out the dense variant of this text: one look at all of it, in time that grows with the file's
    /// size alone (about 10 ms for each MiB).
    #[must_use]
    pub fn dense(&self, options: DenseOptions) -> DensePlan<'_, 'a> {
        DensePlan::new(&self.analysis, options)
    }
}

impl<'t, 'a> DensePlan<'t, 'a> {
    fn new(text: &'t Analysis<'a>, options: DenseOptions) -> Self {
        let loads = Loads::of(text);
        let mut survey = Survey::of(text, options, &loads);
        let closes = calls::closing(&survey.edges, text.functions().all().len());
        for (edge, closes) in survey.edges.iter().zip(closes) {
            match (closes, edge.candidate.what) {
                (true, _) => survey.candidates.push(edge.candidate),
                (false, What::Call) => survey.coverage.calls.needless += 1,
                (false, _) => survey.coverage.crossing.needless += 1,
            }
        }
        survey.edges = Vec::new();
        survey.candidates.sort_unstable_by_key(|candidate| candidate.at);
        let coverage = survey.coverage;
        let mut planner = Planner {
            done: vec![false; survey.candidates.len()],
            chooser: Chooser { text, survey: &survey, taken: Bits::new(text) },
            coverage,
            patches: Vec::new(),
            left: Vec::new(),
            computed: None,
        };
        planner.all();
        let Planner { coverage, mut patches, mut left, .. } = planner;
        patches.sort_unstable_by_key(|patch| patch.start);
        left.sort_unstable();
        Self { text, options, loads, patches, coverage, left }
    }

    /// What the plan covers.
    #[must_use]
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Every place that should be counted or hooked, and is left as it is. By address.
    #[must_use]
    pub fn left(&self) -> &[(u64, Reason)] {
        &self.left
    }
}

struct Planner<'p, 'a> {
    chooser: Chooser<'p, 'a>,
    /// For each candidate, whether it has been decided.
    done: Vec<bool>,
    coverage: Coverage,
    patches: Vec<Patch>,
    left: Vec<(u64, Reason)>,
    /// Whether computed jumps of the function of this number keep the flags.
    computed: Option<(u32, bool)>,
}

impl Planner<'_, '_> {
    /// First the hooks, which matter most; then what needs a run, which may take in what would need none;
    /// then the rest.
    fn all(&mut self) {
        let survey = self.chooser.survey;
        for hooks in [true, false] {
            for (index, candidate) in survey.candidates.iter().enumerate() {
                let is_hook = matches!(candidate.what, What::Site(_));
                let stays = !is_hook && self.stays(candidate);
                if is_hook == hooks && !stays && !self.done[index] {
                    self.run(index, candidate);
                }
            }
        }
        for (index, candidate) in survey.candidates.iter().enumerate() {
            if !self.done[index] {
                self.in_place(candidate);
            }
        }
    }

    /// Whether a candidate can be counted without being moved. (A call cannot be moved at all.)
    fn stays(&self, candidate: &Candidate) -> bool {
        match candidate.what {
            What::Call => true,
            What::Branch | What::Crossing => self.has_displacement(candidate),
            What::Computed | What::Site(_) => false,
        }
    }

    /// Whether its bytes are an opcode and a displacement of 32 bits, and nothing else.
    fn has_displacement(&self, candidate: &Candidate) -> bool {
        let bytes = self.chooser.text.bytes_from(candidate.at).unwrap_or_default();
        match bytes {
            [0xe8 | 0xe9, ..] => candidate.len == 5,
            [0x0f, 0x80..=0x8f, ..] => candidate.len == 6,
            _ => false,
        }
    }

    fn in_place(&mut self, candidate: &Candidate) {
        let end = candidate.at + u64::from(candidate.len);
        let region = self.chooser.text.functions().all()[candidate.region as usize];
        let fits = match self.has_displacement(candidate) {
            false => Err(Reason::Unmovable),
            true if self.chooser.taken.any(candidate.at, end) => Err(Reason::Taken),
            true => self.chooser.clear(candidate.at, end, &region),
        };
        if let Err(reason) = fits {
            return self.leave(candidate, reason);
        }
        let keep_flags = self.keeps_flags(candidate);
        self.count(candidate, keep_flags);
        let change = Change::Displacement { target: candidate.target, keep_flags };
        self.patches.push(Patch { start: candidate.at, len: candidate.len, change });
    }

    fn run(&mut self, index: usize, candidate: &Candidate) {
        self.done[index] = true;
        let row = match self.chooser.choose(candidate) {
            Ok(row) => row,
            Err(reason) => return self.leave(candidate, reason),
        };
        let (start, len) = (row[0].ip(), row.iter().map(Instruction::len).sum::<usize>());
        let (mut marks, mut keep_flags) = (0, 0);
        for (bit, it) in row.iter().enumerate() {
            let Some((index, inside)) = self.candidate(it.ip()) else { continue };
            if inside.at != candidate.at && std::mem::replace(&mut self.done[index], true) {
                // It was left, when it was its turn: it moves without a count.
                continue;
            }
            let keep = !matches!(inside.what, What::Site(_)) && self.keeps_flags(&inside);
            marks |= 1 << bit;
            keep_flags |= u16::from(keep) << bit;
            self.count(&inside, keep);
        }
        for byte in start..start + len as u64 {
            self.chooser.taken.set(byte);
        }
        self.patches.push(Patch { start, len: len as u8, change: Change::Run { marks, keep_flags } });
    }

    fn candidate(&self, at: u64) -> Option<(usize, Candidate)> {
        let all = &self.chooser.survey.candidates;
        let index = all.binary_search_by_key(&at, |candidate| candidate.at).ok()?;
        Some((index, all[index]))
    }

    fn tally(&mut self, what: What) -> &mut super::Tally {
        match what {
            What::Branch => &mut self.coverage.backward,
            What::Crossing => &mut self.coverage.crossing,
            What::Call => &mut self.coverage.calls,
            What::Computed => &mut self.coverage.computed,
            What::Site(_) => &mut self.coverage.hooks,
        }
    }

    fn count(&mut self, candidate: &Candidate, keep_flags: bool) {
        let tally = self.tally(candidate.what);
        tally.taken += 1;
        tally.flags_kept += usize::from(keep_flags);
    }

    fn leave(&mut self, candidate: &Candidate, reason: Reason) {
        self.tally(candidate.what).leave(reason);
        self.left.push((candidate.at, reason));
    }

    fn keeps_flags(&mut self, candidate: &Candidate) -> bool {
        let Chooser { text, survey, .. } = self.chooser;
        match candidate.what {
            What::Computed => match self.computed {
                Some((region, keeps)) if region == candidate.region => keeps,
                _ => {
                    let keeps = self.computed_keep(candidate.region);
                    self.computed = Some((candidate.region, keeps));
                    keeps
                }
            },
            What::Call => !flags::dead(text, survey, candidate.target, true),
            What::Branch | What::Crossing => {
                let entry = text.functions().region(text, candidate.target);
                let entry = entry.is_some_and(|region| region.start == candidate.target);
                let called = candidate.what == What::Crossing && entry;
                !flags::dead(text, survey, candidate.target, called)
            }
            What::Site(_) => false,
        }
    }

    /// Whether computed jumps of a function must keep the flags: they lead to addresses in it that the file
    /// names, or to the starts of other functions, which look at no flags.
    fn computed_keep(&self, region: u32) -> bool {
        let Chooser { text, survey, .. } = self.chooser;
        let known = survey.obscure.binary_search(&region).is_err();
        let region = text.functions().all()[region as usize];
        let pointed = text.targets().pointers.members(region.start + 1, region.end);
        !known || pointed.filter(|at| survey.starts.has(*at)).any(|at| !flags::dead(text, survey, at, false))
    }
}

/// The instructions of a run, from the file's bytes.
pub(super) fn decode_run(text: &Analysis<'_>, patch: &Patch) -> Option<(Row, Vec<u8>)> {
    let bytes = text.bytes_from(patch.start)?.get(..usize::from(patch.len))?;
    let mut row = Vec::new();
    let mut decoder = Decoder::with_ip(64, bytes, patch.start, DecoderOptions::NONE);
    while decoder.can_decode() {
        row.push(decoder.decode());
    }
    (row.iter().all(|it| it.code() != Code::INVALID)).then(|| (row, bytes.to_vec()))
}
