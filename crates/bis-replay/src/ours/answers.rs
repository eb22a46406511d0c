//! The questions that a debugger asks about the program's text, and the answers.

use std::{ops::Range, os::unix::fs::FileExt, sync::Arc};

use bis_agent::hooks::{self, AREA_BASE, Places, state};
use bis_rewrite::Place;
use bis_trace::{
    event::{Insn, Prot},
    ours::{Diverted, Patch, RUN_BYTES_MAX},
    types::{Addr, Registers},
};
use bis_tracee::cpu::instruction_of;

use super::{Believed, Dense, Known, Pool, ProgramText, TextError};

/// Where a task stands, as the program would have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// About to execute this instruction of the program, with nothing else changed.
    Program { addr: Addr },
    /// In what is executed on behalf of the instruction at `addr`, or on the way to it: no place of the
    /// program's. Of a function of the vdso, `addr` is the begin.
    Within { addr: Addr, exit: Exit },
    /// In the hooks. [`ProgramText::original_of`] knows more.
    Hook,
    /// In memory of ours that executes nothing for the program.
    Nowhere,
}

/// How a task comes to stand at an instruction of the program's again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// By going on to this address of the replayed process, which is [`Shown::Program`]: a breakpoint there
    /// catches the task. Before it comes there, its events may come, and a signal's handler may run. It never
    /// comes there if its call does not return, or if an event on the way puts it elsewhere (text is changed
    /// in front of a call): look again after each of its events.
    At(Addr),
    /// By going on to this instruction, before any other of the program: [`ProgramText::places`] of it.
    Instruction(Addr),
    /// By returning to the address on the top of its stack.
    Return,
    /// By single steps: it is a few instructions.
    Step,
}

/// A site that leads to a hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HookedSite {
    /// The address of the program's instruction; of a function of the vdso, its begin.
    pub addr: Addr,
    /// None: a system call.
    pub insn: Option<Insn>,
    /// Where the hook continues the program.
    pub done: Addr,
}

impl ProgramText {
    /// Memory that the program does not have, in no order.
    pub fn ours(&self) -> impl Iterator<Item = Range<Addr>> + '_ {
        self.known.ours()
    }

    /// Is this an address that the program does not have?
    pub fn is_ours(&self, addr: Addr) -> bool {
        self.known.is_ours(addr)
    }

    /// Text that shows another file than the program believes, in the order of addresses.
    pub fn believed(&self) -> impl Iterator<Item = Believed> + '_ {
        let dense = self.known.dense.iter().map(|(start, text)| (*start..text.end, text.id, text.offset));
        let mapped = self.known.mapped.iter().map(|(start, text)| (*start..text.end, text.id, text.offset));
        let mut all: Vec<_> = dense.chain(mapped).collect();
        all.sort_by_key(|(range, ..)| range.start);
        all.into_iter().map(|(range, file, offset)| Believed { range, file, offset })
    }

    /// The pages that have another protection than the program believes, with the one that it does.
    pub fn guards(&self) -> impl Iterator<Item = (Addr, Prot)> + '_ {
        self.known.guards.iter().map(|(page, prot)| (*page, *prot))
    }

    /// Puts the program's own bytes into what was read at `addr` of the replayed memory.
    ///
    /// # Errors
    /// Where the program's own file in the trace cannot be read.
    pub fn show(&self, addr: Addr, bytes: &mut [u8]) -> Result<(), TextError> {
        let range = addr..addr.saturating_add(bytes.len() as u64);
        for (start, text) in self.known.dense_in(&range) {
            let (from, to) = (range.start.max(*start), range.end.min(text.end));
            let part = &mut bytes[offset(from, addr)..offset(to, addr)];
            let at = text.offset.wrapping_add(from - start);
            read(text, at, part).map_err(|source| TextError::Read { file: text.id, source })?;
        }
        for patch in self.known.patches_in(&range) {
            put(addr, bytes, patch.start, &patch.original);
        }
        let first = addr.saturating_sub(RUN_BYTES_MAX as u64);
        for (site, fault) in self.known.faults.range(first..range.end.max(first)) {
            put(addr, bytes, *site, &fault.original);
        }
        // These last: patches in them have what had been diverted.
        for (start, part) in self.known.diverted.range(..range.end) {
            put(addr, bytes, *start, &part.original);
        }
        Ok(())
    }

    /// Where a task stands that has this program counter.
    pub fn original(&self, pc: Addr) -> Shown {
        let known = &*self.known;
        if let Some(patch) = known.trampoline_at(pc) {
            return known.in_trampoline(patch, pc);
        }
        if let Some(pool) = known.pool_at(pc) {
            return in_pool(pool, pc);
        }
        if (hooks::TEXT_BASE..hooks::TABLE_BASE).contains(&pc.0) {
            return if known.is_ours(pc) { Shown::Hook } else { program(pc) };
        }
        if known.is_ours(pc) {
            return Shown::Nowhere;
        }
        known.in_program(pc)
    }

    /// Where a task stands that has these registers, in an address space of which `word` reads 64 bits: in
    /// the hooks, what they are executed for.
    pub fn original_of(&self, regs: &Registers, hooks: &Places, word: impl Fn(Addr) -> Option<u64>) -> Shown {
        match self.original(regs.ip()) {
            Shown::Hook => match self.hook_of(regs, hooks, word) {
                Some(site) => Shown::Within { addr: site.addr, exit: Exit::At(site.done) },
                None => Shown::Nowhere,
            },
            shown => shown,
        }
    }

    /// Is there text that counts its branches?
    pub fn counts(&self) -> bool {
        !self.known.pools.is_empty()
    }

    /// Where a task goes on whose count has trapped, with its `int3` at this address; and whether nobody
    /// looks at the flags, which then count as cleared.
    pub fn behind_trap(&self, trap: Addr) -> Option<(Addr, bool)> {
        let pool = self.known.pool_at(trap)?;
        match pool.map.place(pool.bias, trap.0)? {
            Place::Count { resume, flags_lost, trap: true, .. } => Some((Addr(resume), flags_lost)),
            _ => None,
        }
    }

    /// For a task in the hooks: which site has led there.
    pub fn hook_of(
        &self,
        regs: &Registers,
        hooks: &Places,
        word: impl Fn(Addr) -> Option<u64>,
    ) -> Option<HookedSite> {
        let state = |offset: u64| word(Addr(AREA_BASE + offset));
        // cpuid's hook has its own word, which may lie in front of the trampoline's copy.
        let is_cpuid = (hooks.cpuid..hooks.cpuid_end).contains(&regs.rip);
        let written = Addr(if is_cpuid { state(state::EXIT) } else { state(state::DONE) }?);
        let by_word = || {
            let again = is_cpuid.then(|| self.hooked_site(Addr(written.0.wrapping_add(2)))).flatten();
            self.hooked_site(written).or(again)
        };
        // At the very begin of a hook the address is in a register only; later, the register may have been
        // another hook's.
        let is_begin = state(state::IN_HOOK)? == 0 && (hooks.enter..hooks.cpuid_end).contains(&regs.rip);
        let in_rdx = is_cpuid || (hooks.rdtscp..hooks.chance).contains(&regs.rip);
        let register = if in_rdx { regs.rdx } else { regs.rcx };
        let by_register = is_begin.then(|| self.hooked_site(Addr(register))).flatten();
        by_register.or_else(by_word)
    }

    /// The site whose hook, entered, has `done` as the address where to continue the program: in rcx at
    /// [`hooks::ENTER`], [`hooks::CLOCK`] and [`hooks::CHANCE`], in rdx at the others.
    pub fn hooked_site(&self, done: Addr) -> Option<HookedSite> {
        let known = &*self.known;
        if let Some(pool) = known.pool_at(done) {
            let site = pool.map.site_of(pool.bias, done.0)?;
            let addr = Addr(site.site.wrapping_add(pool.bias));
            return Some(HookedSite { addr, insn: instruction_of(site.kind), done });
        }
        let patch = known.trampoline_at(done).filter(|patch| patch.done() == Some(done))?;
        let addr = known.diverted_at(patch.site()).map_or(patch.site(), |function| function.addr);
        Some(HookedSite { addr, insn: patch.insn, done })
    }

    /// Where a jump of ours leads that is at `pc`. The task is shown at an instruction of the program
    /// ([`Shown::Program`]) which lies elsewhere; to execute the jump executes nothing of the program.
    pub fn leads_to(&self, pc: Addr) -> Option<Addr> {
        let known = &*self.known;
        if let Some(patch) = known.patches.get(&pc) {
            let first = known.diverted_at(pc).is_none().then(|| patch.places().next());
            return first.flatten().map(|(_, at)| at);
        }
        if let Some(patch) = known.trampoline_at(pc) {
            let (original, at) = patch.places().next_back()?;
            return (at == pc && known.diverted_at(original).is_none()).then_some(original);
        }
        if let Some(pool) = known.pool_at(pc) {
            return match in_pool(pool, pc) {
                Shown::Program { addr } if pool.original_of_copy(pc).is_none() => Some(addr),
                _ => None,
            };
        }
        known.dense_copy(pc)
    }

    /// Where breakpoints catch a task that is about to execute the program's instruction at `addr`: each
    /// arrival passes exactly one of these. Empty where nobody arrives. The module's essay says why.
    pub fn places(&self, addr: Addr) -> Vec<Addr> {
        let known = &*self.known;
        if known.is_ours(addr) {
            return Vec::new();
        }
        if let Some(function) = known.diverted_at(addr) {
            return if function.addr == addr { vec![addr] } else { Vec::new() };
        }
        let mut places = Vec::new();
        let copy = |patch: &Patch| {
            let in_run = patch.places().find(|(original, _)| *original == addr && addr < patch.end());
            in_run.map(|(_, at)| at)
        };
        match known.patch_at(addr) {
            Some(patch) => places.extend(copy(patch)),
            None if known.dense_copy(addr).is_none() => places.push(addr),
            None => {}
        }
        // Tasks may be in trampolines to which nothing leads any more.
        let in_pools = known.pools.iter().filter_map(|pool| pool.copy_of(addr));
        places.extend(in_pools);
        let first = addr.saturating_sub(RUN_BYTES_MAX as u64 - 1);
        let old =
            known.old.range((first, Addr::NULL)..=(addr, Addr::MAX)).filter_map(|(_, patch)| copy(patch));
        places.extend(old);
        places
    }

    /// The system call instructions that lead to hooks, by the program's addresses, also where the text is
    /// gone that led there. Not the functions of the vdso.
    pub fn hooked_sites(&self) -> impl Iterator<Item = Addr> + '_ {
        let patches = self.known.trampolines.values().filter(|patch| patch.insn.is_none());
        let patches = patches.map(|patch| patch.site());
        let patches = patches.filter(|site| self.known.diverted_at(*site).is_none());
        let in_pool = |pool: &Pool| {
            let bias = pool.bias;
            let sites = pool.map.sites().iter();
            let sites = sites.filter(|site| instruction_of(site.kind).is_none());
            sites.map(move |site| Addr(site.site.wrapping_add(bias))).collect::<Vec<_>>()
        };
        patches.chain(self.known.pools.iter().flat_map(in_pool))
    }

    /// Every instruction that has moved, also where the text is gone that led to the copy: the program's
    /// address, and the copy's. Not transactions, which fail in their place, nor what is in the place of the
    /// vdso's functions.
    pub fn copies(&self) -> impl Iterator<Item = (Addr, Addr)> + '_ {
        let patches = self.known.trampolines.values();
        let in_run = |patch: &Arc<Patch>| {
            let end = patch.end();
            patch.places().filter(move |(addr, _)| *addr < end).collect::<Vec<_>>()
        };
        let is_moved = |patch: &&Arc<Patch>| {
            patch.insn != Some(Insn::Xbegin) && self.known.diverted_at(patch.site()).is_none()
        };
        let patches = patches.filter(is_moved).flat_map(in_run);
        patches.chain(self.known.pools.iter().flat_map(Pool::copies))
    }
}

impl Known {
    fn ours(&self) -> impl Iterator<Item = Range<Addr>> + '_ {
        let areas = self.areas.iter().map(|area| area.addr..area.addr.saturating_add(area.len));
        areas.chain(self.pools.iter().map(|pool| pool.range.clone()))
    }

    fn is_ours(&self, addr: Addr) -> bool {
        self.ours().any(|range| range.contains(&addr))
    }

    fn trampoline_at(&self, pc: Addr) -> Option<&Patch> {
        let (_, patch) = self.trampolines.range(..=pc).next_back()?;
        (pc < patch.trampoline_end()).then_some(&**patch)
    }

    fn pool_at(&self, pc: Addr) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.range.contains(&pc))
    }

    /// The patch that has this address in its run.
    fn patch_at(&self, addr: Addr) -> Option<&Patch> {
        let (_, patch) = self.patches.range(..=addr).next_back()?;
        (addr < patch.end()).then_some(&**patch)
    }

    /// The function of the vdso in whose place this is.
    fn diverted_at(&self, addr: Addr) -> Option<&Diverted> {
        let (start, part) = self.diverted.range(..=addr).next_back()?;
        let is_within = addr - start < part.original.len() as u64;
        (is_within && part.is_function).then_some(&**part)
    }

    /// Where in a pool the instruction is that this address of a text that counts has given way to.
    fn dense_copy(&self, addr: Addr) -> Option<Addr> {
        let (_, text) = self.dense.range(..=addr).next_back().filter(|(_, text)| addr < text.end)?;
        self.pool_at(text.pool)?.copy_of(addr)
    }

    fn in_program(&self, pc: Addr) -> Shown {
        match self.diverted_at(pc).filter(|function| function.addr != pc) {
            Some(function) => within(function.addr, Exit::Return),
            None => program(pc),
        }
    }

    fn in_trampoline(&self, patch: &Patch, pc: Addr) -> Shown {
        let Some((addr, at)) = patch.places().rev().find(|(_, at)| *at <= pc) else { return Shown::Nowhere };
        if let Some(function) = self.diverted_at(patch.site()) {
            return within(function.addr, Exit::Return);
        }
        if at == pc {
            return program(addr);
        }
        let done = patch.done().filter(|_| addr == patch.site());
        within(addr, done.map_or(Exit::Step, Exit::At))
    }
}

/// What a map says, which knows addresses as numbers: it is made, and read, where there is no tracee.
impl Pool {
    /// Where the instruction is that has moved from this address of the text.
    fn copy_of(&self, addr: Addr) -> Option<Addr> {
        self.map.enter(self.bias, addr.0).map(Addr)
    }

    /// The instruction whose copy begins here.
    fn original_of_copy(&self, pc: Addr) -> Option<Addr> {
        self.map.copy_of(self.bias, pc.0).map(Addr)
    }

    fn copies(&self) -> impl Iterator<Item = (Addr, Addr)> + '_ {
        self.map.copies(self.bias).map(|(addr, copy)| (Addr(addr), Addr(copy)))
    }
}

fn program(addr: Addr) -> Shown {
    Shown::Program { addr }
}

fn within(addr: Addr, exit: Exit) -> Shown {
    Shown::Within { addr, exit }
}

fn in_pool(pool: &Pool, pc: Addr) -> Shown {
    let (map, bias) = (&pool.map, pool.bias);
    if let Some(addr) = pool.original_of_copy(pc) {
        return program(addr);
    }
    match map.place(bias, pc.0) {
        Some(Place::Program { address }) => {
            let addr = Addr(address);
            let found = map.sites().binary_search_by_key(&address.wrapping_sub(bias), |site| site.site);
            let site = found.ok().map(|index| &map.sites()[index]);
            let own = pc.0.wrapping_sub(bias);
            match site.filter(|site| site.entry < own && own <= site.traced) {
                Some(site) => Shown::Within { addr, exit: Exit::At(Addr(site.done.wrapping_add(bias))) },
                // A jump back.
                None => Shown::Program { addr },
            }
        }
        Some(Place::Count { address, resume, .. }) => {
            let addr = Addr(address);
            let exit = if resume == address { Exit::Instruction(addr) } else { Exit::Step };
            Shown::Within { addr, exit }
        }
        None => Shown::Nowhere,
    }
}

/// How far `to` is behind `from`; what is read is in memory.
fn offset(to: Addr, from: Addr) -> usize {
    usize::try_from(to.saturating_since(from)).unwrap_or(usize::MAX)
}

/// Puts those of the bytes at `at` that lie in what was read at `addr` there.
fn put(addr: Addr, read: &mut [u8], at: Addr, bytes: &[u8]) {
    for (place, byte) in at.and_behind(1).zip(bytes) {
        let place = place.checked_since(addr).and_then(|offset| usize::try_from(offset).ok());
        if let Some(place) = place.and_then(|offset| read.get_mut(offset)) {
            *place = *byte;
        }
    }
}

/// What the program's file has at this offset; behind its end, zeros.
pub(super) fn read(text: &Dense, mut at: u64, mut bytes: &mut [u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match text.file.read_at(bytes, at) {
            Ok(0) => {
                bytes.fill(0);
                return Ok(());
            }
            Ok(len) => {
                at = at.wrapping_add(len as u64);
                bytes = &mut bytes[len..];
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
