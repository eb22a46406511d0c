//! Makes trampolines, one after the other, and writes down what each stretch of them stands for.
//!
//! All addresses are the file's own. A trampoline names the text, and itself, by displacements only, so the
//! bytes are right wherever the file is loaded, as long as the trampolines are at the same distance.

use iced_x86::{FlowControl, Instruction, OpKind};

use super::{
    count::{self, Words},
    map::{DenseSite, Kind, MapBuilder},
    plan::{Change, Patch, decode_run},
};
use crate::{
    SiteKind,
    analysis::Analysis,
    movable::{falls_through, movable},
    run::Error,
    trampoline::{Builder, Hook},
};

/// Bytes of a jump to a fixed place.
const JUMP: usize = 5;

pub(super) struct Emitter<'t, 'a> {
    pub text: &'t Analysis<'a>,
    pub out: Builder,
    pub words: Words,
    /// Where rcx is kept for hooks that want it.
    pub hook_save: Option<u32>,
    /// Address of the word with the hook's address, by kind.
    pub slots: [u64; SiteKind::ALL.len()],
    pub map: MapBuilder,
}

impl Emitter<'_, '_> {
    /// Makes what a patch leads to. The answer is the bytes that take the place of those in the text.
    pub fn patch(&mut self, patch: &Patch) -> Result<Vec<u8>, Error> {
        let at = self.out.here();
        let bad = || Error::BadRun(patch.start);
        match patch.change {
            Change::Displacement { target, keep_flags } => {
                let bytes = self.text.bytes_from(patch.start).ok_or_else(bad)?;
                let opcode = bytes.get(..usize::from(patch.len) - 4).ok_or_else(bad)?;
                let mut changed = Builder { at: patch.start, bytes: Vec::with_capacity(8) };
                changed.branch(opcode, at)?;
                self.count(target, keep_flags)?;
                Ok(changed.bytes)
            }
            Change::Run { marks, keep_flags } => {
                let (row, bytes) = decode_run(self.text, patch).ok_or_else(bad)?;
                self.run(&row, &bytes, marks, keep_flags)?;
                let mut changed = Builder { at: patch.start, bytes: Vec::with_capacity(16) };
                changed.branch(&[0xe9], at)?;
                changed.bytes.resize(usize::from(patch.len), 0xcc);
                Ok(changed.bytes)
            }
        }
    }

    /// A count, and a jump to `target`.
    fn count(&mut self, target: u64, keep_flags: bool) -> Result<(), Error> {
        self.map.piece(&self.out, if keep_flags { Kind::KeptCount } else { Kind::Count }, target, 0);
        count::head(&mut self.out.bytes, self.words, keep_flags, JUMP);
        self.out.branch(&[0xe9], target)?;
        count::tail(&mut self.out.bytes, self.words, keep_flags);
        Ok(())
    }

    fn run(&mut self, row: &[Instruction], bytes: &[u8], marks: u16, keeps: u16) -> Result<(), Error> {
        let (start, first) = (row[0].ip(), self.out.here());
        let mut decoder = iced_x86::Decoder::with_ip(64, bytes, start, iced_x86::DecoderOptions::NONE);
        let mut reached = true;
        for (bit, it) in row.iter().enumerate() {
            if !reached {
                // Filler, which nobody ever executes.
                break;
            }
            let offset = (it.ip() - start) as usize;
            let own = &bytes[offset..offset + it.len()];
            decoder.set_ip(it.ip());
            decoder.set_position(offset).map_err(|_| Error::BadRun(start))?;
            let again = decoder.decode();
            let displacement = decoder.get_constant_offsets(&again);
            let displacement = displacement.has_displacement().then(|| displacement.displacement_offset());
            let (marked, keep) = (marks & 1 << bit != 0, keeps & 1 << bit != 0);
            if !marked {
                if !movable(it) {
                    return Err(Error::BadRun(start));
                }
                self.map.boundary(&self.out, it.ip());
                self.out.moved(it, own, displacement)?;
                reached = falls_through(it);
                continue;
            }
            match SiteKind::of(it) {
                Some(kind) => self.hook(it, own, displacement, kind)?,
                None => reached = self.counted(it, own, displacement, keep, (start, first))?,
            }
        }
        if reached {
            let end = start + bytes.len() as u64;
            self.map.piece(&self.out, Kind::Moved, end, 0);
            self.out.branch(&[0xe9], end)?;
        }
        Ok(())
    }

    /// A moved branch with its count. Whether execution goes on after it. `own_run` is the start of the run,
    /// and where that is now.
    fn counted(
        &mut self,
        it: &Instruction,
        bytes: &[u8],
        displacement: Option<usize>,
        keep: bool,
        own_run: (u64, u64),
    ) -> Result<bool, Error> {
        if it.flow_control() == FlowControl::IndirectBranch {
            let len = bytes.len();
            self.map.boundary(&self.out, it.ip());
            let kind = if keep { Kind::KeptJump } else { Kind::Jump };
            self.map.piece(&self.out, kind, it.ip(), len as u8);
            count::head(&mut self.out.bytes, self.words, keep, len);
            self.out.moved(it, bytes, displacement)?;
            count::tail(&mut self.out.bytes, self.words, keep);
            return Ok(false);
        }
        if it.op0_kind() != OpKind::NearBranch64 {
            return Err(Error::BadRun(own_run.0));
        }
        let target = it.near_branch64();
        let conditional = it.flow_control() == FlowControl::ConditionalBranch;
        self.map.boundary(&self.out, it.ip());
        if conditional {
            // The opposite condition leads around the count.
            let opcode = if it.is_jcc_short() { bytes[bytes.len() - 2] } else { bytes[bytes.len() - 5] };
            self.out.bytes.extend([0x70 | (opcode & 0x0f) ^ 1, count::size(keep, JUMP) as u8]);
        }
        self.map.piece(&self.out, if keep { Kind::KeptCount } else { Kind::Count }, target, 0);
        count::head(&mut self.out.bytes, self.words, keep, JUMP);
        // Back to the start of the same run: without going there first.
        let to = if target == own_run.0 { own_run.1 } else { target };
        self.out.branch(&[0xe9], to)?;
        count::tail(&mut self.out.bytes, self.words, keep);
        Ok(conditional)
    }

    fn hook(
        &mut self,
        it: &Instruction,
        bytes: &[u8],
        displacement: Option<usize>,
        kind: SiteKind,
    ) -> Result<(), Error> {
        let at = self.out.here();
        let first = self.out.bytes.len();
        let hook = Hook { slot: self.slots[kind as usize - 1], save: self.hook_save };
        self.map.boundary(&self.out, it.ip());
        let piece = self.map.piece(&self.out, Kind::Hook, it.ip(), 0);
        let way = self.out.hook(it, (bytes, displacement), hook)?;
        let traced = self.out.here();
        self.map.set_len(piece, (self.out.bytes.len() - first) as u8);
        let abort = (kind == SiteKind::Xbegin).then(|| it.near_branch_target());
        match abort {
            Some(to) => self.out.branch(&[0xc7, 0xf8], to)?,
            None => self.out.moved(it, bytes, displacement)?,
        }
        let done = self.out.here();
        self.out.finish(way)?;
        self.map.sites.push(DenseSite { kind, site: it.ip(), entry: at, traced, done, abort });
        Ok(())
    }
}
