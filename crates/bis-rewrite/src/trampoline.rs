//! Making the new place of a run.
//!
//! A trampoline is: the instructions before the site; the way to the hook; the site's own instruction, to
//! which the hook jumps when it wants it executed after all; the instructions after it; a jump back. An
//! `xsavec` or `fnstenv` comes before the way to its hook, which fills in what it has left out. A trampoline
//! never touches the stack, below or above the stack pointer, nor a flag, nor any register but the one that
//! [`crate::Entry`] names.
//!
//! Moved instructions keep their bytes, except for displacements, which are counted from the new place, and
//! for jumps, which get their long form. Nothing is encoded afresh, so nothing can be encoded differently.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use crate::{
    movable::movable_beside,
    run::{Entry, Error, JUMP, Run, SiteKind},
};

/// The number of that register.
const RCX: u8 = 1;

/// Where a trampoline's hook is.
#[derive(Clone, Copy, Debug)]
pub struct Hook {
    /// Address of eight bytes that hold the hook's address, within 2 GiB of the trampoline.
    pub slot: u64,
    /// Address below 2 GiB of eight bytes where rcx is kept, for sites with [`Entry::SavedRcx`]. The hook of
    /// an `xsavec` or `fnstenv` finds in the eight bytes behind them the address of the area that this has
    /// written, that of an `lsl` the register with the selector.
    pub save: Option<u32>,
}

/// A trampoline and what leads to it, as bytes for memory. All addresses are those of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trampoline {
    /// The trampoline itself.
    pub bytes: Vec<u8>,
    /// What takes the place of the run: a jump, then `int3`. As long as the run.
    pub patch: Vec<u8>,
    /// Address of the trampoline's own copy of the special instruction.
    pub traced: u64,
    /// Address just after that copy: where the hook continues the program, and what it is entered with.
    pub done: u64,
    /// For `xbegin`: where the program goes on when the transaction fails.
    pub abort: Option<u64>,
    /// Every instruction boundary of the run, in order: (address in the run, address in the trampoline). The
    /// site's is the way to the hook; the run's end is the jump back.
    pub places: Vec<(u64, u64)>,
}

impl Trampoline {
    /// The address in the run that corresponds to a program counter in the trampoline; none if it is outside,
    /// or not between instructions as far as this can tell.
    ///
    /// Anywhere from the way to the hook up to [`Trampoline::traced`] is the site: as if it had not begun.
    /// For [`Entry::SavedRcx`] that is not quite so, rcx may have its value elsewhere. And an `xsavec` may
    /// have been executed; it may be executed again. (An `fnstenv` may not: it masks all exceptions, and its
    /// hook is ended by hand.)
    #[must_use]
    pub fn original(&self, pc: u64) -> Option<u64> {
        if let Some((original, _)) = self.places.iter().find(|(_, place)| *place == pc) {
            return Some(*original);
        }
        let done = self.places.iter().position(|(_, place)| *place == self.done)?;
        let (site, place) = self.places[done.checked_sub(1)?];
        (place..=self.traced).contains(&pc).then_some(site)
    }
}

/// Makes the trampoline for `run` of a file that is loaded `bias` bytes above its own addresses, to lie at
/// `at`.
///
/// # Errors
/// If the run, the trampoline, the hook's slot, or what the run's instructions refer to are too far from one
/// another for displacements of 32 bits; if a place to save a register is needed and missing.
pub fn trampoline(run: &Run, bias: u64, at: u64, hook: Hook) -> Result<Trampoline, Error> {
    let bad = || Error::BadRun(run.start());
    let mut out = Builder { at, bytes: Vec::with_capacity(80) };
    let start = run.start().wrapping_add(bias);
    let end = start.wrapping_add(u64::from(run.len()));
    let site = run.site().wrapping_add(bias);
    let mut decoder = Decoder::with_ip(64, run.bytes(), start, DecoderOptions::NONE);
    let mut places = Vec::new();
    let (mut traced, mut done, mut abort) = (None, None, None);
    while decoder.can_decode() {
        let it = decoder.decode();
        let offset = (it.ip().wrapping_sub(start)) as usize;
        let bytes = run.bytes().get(offset..offset + it.len()).ok_or_else(bad)?;
        places.push((it.ip(), out.here()));
        if it.ip() == site {
            let displacement = decoder.get_constant_offsets(&it);
            let displacement = displacement.has_displacement().then(|| displacement.displacement_offset());
            let way = out.hook(&it, (bytes, displacement), hook)?;
            traced = Some(out.here());
            if it.flow_control() == FlowControl::XbeginXabortXend {
                abort = Some(it.near_branch_target());
                out.branch(&[0xc7, 0xf8], it.near_branch_target())?;
            } else {
                out.moved(&it, bytes, displacement)?;
            }
            done = Some(out.here());
            out.finish(way)?;
        } else {
            // A run from `run_at` is known to be movable, but one from a cache may be anything. Filler after
            // the code's end is int3 at times.
            let filler = bytes == [0xcc] && done.is_some();
            if !movable_beside(run.kind(), &it) && !filler {
                return Err(bad());
            }
            let displacement = decoder.get_constant_offsets(&it);
            out.moved(
                &it,
                bytes,
                displacement.has_displacement().then(|| displacement.displacement_offset()),
            )?;
        }
    }
    places.push((end, out.here()));
    out.branch(&[0xe9], end)?;
    let mut patch = Builder { at: start, bytes: Vec::with_capacity(Run::MAX) };
    patch.branch(&[0xe9], at)?;
    patch.bytes.resize(usize::from(run.len()).max(JUMP), 0xcc);
    let (traced, done) = (traced.ok_or_else(bad)?, done.ok_or_else(bad)?);
    Ok(Trampoline { bytes: out.bytes, patch: patch.bytes, traced, done, abort, places })
}

pub(crate) struct Builder {
    pub at: u64,
    pub bytes: Vec<u8>,
}

/// A displacement that is not known yet, by its offset.
pub(crate) struct Pending(usize);

impl Builder {
    /// Code that is to lie at `at`.
    pub(crate) fn new(at: u64) -> Self {
        Self { at, bytes: Vec::new() }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Room for a displacement of 32 bits that ends an instruction.
    pub(crate) fn pending(&mut self) -> Pending {
        let open = Pending(self.bytes.len());
        self.bytes.extend([0; 4]);
        open
    }

    /// Address of the next byte.
    pub(crate) fn here(&self) -> u64 {
        self.at.wrapping_add(self.bytes.len() as u64)
    }

    /// The displacement that leads from an instruction's end to `to`.
    fn distance(from: u64, to: u64) -> Result<[u8; 4], Error> {
        // Wrapping on purpose: an object's addresses may wrap around with its bias, a real distance does not.
        let distance = to.wrapping_sub(from) as i64;
        i32::try_from(distance).map(i32::to_le_bytes).map_err(|_| Error::TooFar { from, to })
    }

    /// An instruction that ends in a displacement of 32 bits.
    pub(crate) fn branch(&mut self, opcode: &[u8], to: u64) -> Result<(), Error> {
        self.bytes.extend(opcode);
        let distance = Self::distance(self.here().wrapping_add(4), to)?;
        self.bytes.extend(distance);
        Ok(())
    }

    /// The way to the hook, in which the address of what follows the site is open.
    ///
    /// An `xsavec` or `fnstenv` is executed first, in the place of its site: where it faults, it has not
    /// begun. Its hook makes whole what it has written.
    pub fn hook(
        &mut self,
        it: &Instruction,
        (bytes, displacement): (&[u8], Option<usize>),
        hook: Hook,
    ) -> Result<Pending, Error> {
        const WORD: u32 = 8;
        let kind = SiteKind::of(it).ok_or(Error::BadRun(it.ip()))?;
        let save = hook.save.filter(|save| i32::try_from(*save).is_ok()).ok_or(Error::NoSave(kind));
        let lea: &[u8] = match kind.entry() {
            Entry::Rcx => &[0x48, 0x8d, 0x0d],
            Entry::Rdx => &[0x48, 0x8d, 0x15],
            Entry::SavedRcx if kind.is_hooked_behind() => {
                self.moved(it, bytes, displacement)?;
                let save = save?;
                self.store(RCX, save);
                self.lea_rcx(it, bytes)?;
                self.store(RCX, save + WORD);
                &[0x48, 0x8d, 0x0d]
            }
            Entry::SavedRcx => {
                let save = save?;
                self.store(RCX, save);
                if kind == SiteKind::Lsl {
                    self.store(it.op1_register().full_register().number() as u8, save + WORD);
                }
                &[0x48, 0x8d, 0x0d]
            }
        };
        self.bytes.extend(lea);
        let open = self.pending();
        // jmp [rip + slot]
        self.branch(&[0xff, 0x25], hook.slot)?;
        Ok(open)
    }

    /// `mov [to], REGISTER`, by its number
    fn store(&mut self, register: u8, to: u32) {
        self.bytes.extend([0x48 | register >> 3 << 2, 0x89, (register & 7) << 3 | 0x04, 0x25]);
        self.bytes.extend(to.to_le_bytes());
    }

    /// `lea rcx` of the memory that this instruction, an `xsavec` or `fnstenv`, has as its operand. Not with
    /// prefixes other than REX: a segment's base is not known, and half addresses are nobody's.
    fn lea_rcx(&mut self, it: &Instruction, bytes: &[u8]) -> Result<(), Error> {
        const LEA: u8 = 0x8d;
        if it.is_ip_rel_memory_operand() {
            return self.branch(&[0x48, LEA, 0x05 | RCX << 3], it.memory_displacement64());
        }
        let (rex, rest) = match bytes {
            [rex @ 0x40..=0x4f, rest @ ..] => (rex & 0x03, rest),
            rest => (0, rest),
        };
        let (&[0x0f, 0xc7, modrm, ref operand @ ..] | &[0xd9 | 0xdd, modrm, ref operand @ ..]) = rest else {
            return Err(Error::BadRun(it.ip()));
        };
        self.bytes.extend([0x48 | rex, LEA, modrm & 0xc7 | RCX << 3]);
        self.bytes.extend(operand);
        Ok(())
    }

    /// Fills in that the open address is here.
    pub(crate) fn finish(&mut self, open: Pending) -> Result<(), Error> {
        let from = self.at.wrapping_add(open.0 as u64 + 4);
        let distance = Self::distance(from, self.here())?;
        self.bytes[open.0..open.0 + 4].copy_from_slice(&distance);
        Ok(())
    }

    /// Where a branch leads, from here: in a 32-bit program, distances wrap around.
    fn reach(&self, it: &Instruction) -> u64 {
        let target = it.near_branch_target();
        if it.op0_kind() == OpKind::NearBranch64 { target } else { self.narrow(target) }
    }

    /// An address of a 32-bit program, as far from here as the jump there is.
    pub(crate) fn narrow(&self, target: u64) -> u64 {
        let distance = target.wrapping_sub(self.here()) as u32 as i32;
        self.here().wrapping_add_signed(distance.into())
    }

    pub(crate) fn moved(
        &mut self,
        it: &Instruction,
        bytes: &[u8],
        displacement: Option<usize>,
    ) -> Result<(), Error> {
        if let OpKind::NearBranch64 | OpKind::NearBranch32 = it.op0_kind() {
            let target = self.reach(it);
            return match it.flow_control() {
                // The conditions are numbered alike in the short and the long form.
                FlowControl::ConditionalBranch => {
                    let condition = match it.is_jcc_short() {
                        true => bytes[bytes.len() - 2],
                        false => bytes[bytes.len() - 5],
                    };
                    self.branch(&[0x0f, 0x80 | condition & 0x0f], target)
                }
                _ => self.branch(&[0xe9], target),
            };
        }
        let first = self.bytes.len();
        let end = self.here().wrapping_add(bytes.len() as u64);
        self.bytes.extend(bytes);
        if it.is_ip_rel_memory_operand()
            && let Some(offset) = displacement
        {
            let distance = Self::distance(end, it.memory_displacement64())?;
            self.bytes[first + offset..first + offset + 4].copy_from_slice(&distance);
        }
        Ok(())
    }
}
