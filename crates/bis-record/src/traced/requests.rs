//! What a tracer asks of its tracees: the `ptrace` call.

use bis_syscalls::{Call, sandbox::Table};
use bis_trace::{
    event::MemWrite,
    types::{Addr, NARROW_TABLE, PAGE, Signal, Tid},
};
use bis_tracee::{Memory, debug::Access, image::USER_END, maps, names, proc, siginfo::SigInfo, sys};

use super::{
    books::{DebugState, Kind, Mode, STATUS_RESERVED, State, Stop, Tracee},
    hold::siginfo_of_stop,
    layouts::{FXSAVE_LEN, Layout, SIGINFO_LEN, segment_base, segment_told},
};
use crate::{
    calls::Entry,
    crew::Crew,
    error::Result,
    session::Session,
    task::{parent_of, process_of},
};

const WORD: usize = 8;

const NT_PRSTATUS: u64 = linux_raw_sys::elf_uapi::NT_PRSTATUS as u64;
const NT_PRFPREG: u64 = linux_raw_sys::elf_uapi::NT_PRFPREG as u64;
const NT_X86_XSTATE: u64 = linux_raw_sys::elf_uapi::NT_X86_XSTATE as u64;
const NT_PRXFPREG: u64 = linux_raw_sys::elf_uapi::NT_PRXFPREG as u64;
const NT_386_TLS: u64 = linux_raw_sys::elf_uapi::NT_386_TLS as u64;
/// Bytes of a descriptor of thread-local storage.
const DESCRIPTOR_LEN: usize = 16;

/// PTRACE_SETOPTIONS, as kernels before 2.4.6 knew it.
const PTRACE_OLDSETOPTIONS: u32 = linux_raw_sys::ptrace::PTRACE_OLDSETOPTIONS;

/// PTRACE_O_* that are served.
const OPTIONS: u64 = (libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEVFORKDONE
    | libc::PTRACE_O_TRACEEXIT
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_EXITKILL) as u64;

/// The kernel has it for those that may administer it.
const SUSPEND_SECCOMP: u64 = libc::PTRACE_O_SUSPEND_SECCOMP as u64;

/// `arch_prctl` on a tracee, with its arguments the other way round; by it gdbserver finds a thread's memory.
const PTRACE_ARCH_PRCTL: u32 = linux_raw_sys::ptrace::PTRACE_ARCH_PRCTL;
const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = linux_raw_sys::general::ARCH_SET_FS as u64;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;
/// A descriptor of thread-local storage of a tracee: 32-bit programs have theirs there, and debuggers look.
const PTRACE_GET_THREAD_AREA: u32 = linux_raw_sys::ptrace::PTRACE_GET_THREAD_AREA;
const PTRACE_SET_THREAD_AREA: u32 = linux_raw_sys::ptrace::PTRACE_SET_THREAD_AREA;
/// What FXSAVE knows, which 32-bit tracers ask for by a request of its own.
const PTRACE_GETFPXREGS: u32 = linux_raw_sys::ptrace::PTRACE_GETFPXREGS;
const PTRACE_SETFPXREGS: u32 = linux_raw_sys::ptrace::PTRACE_SETFPXREGS;
/// Where the bases of its segments are among the registers of `struct user`.
const FS_BASE_AT: usize = 21 * WORD;
const GS_BASE_AT: usize = 22 * WORD;

/// What a request comes to: a result, or the error's number.
type Answer<T = i64> = std::result::Result<T, i32>;

/// `siginfo_t` of a stop. One for no signal comes from the task itself (`ptrace_do_notify` in the kernel's
/// `signal.c`), unless its tracer has put another one there.
fn siginfo(target: Tid, stop: &Stop) -> [u8; SIGINFO_LEN] {
    if stop.kind == Kind::Signal || stop.siginfo != siginfo_of_stop(stop.status) {
        return stop.siginfo;
    }
    let own = names::own(target).unwrap_or(target);
    SigInfo(stop.siginfo).sent_by(own, names::own_user(target)).0
}

/// What PTRACE_GET_SYSCALL_INFO says of a stop.
fn call_info(stop: &Stop) -> Vec<u8> {
    let is_filtered = stop.status >> 16 == libc::PTRACE_EVENT_SECCOMP;
    let op: u8 = match stop.kind {
        Kind::Entry { .. } if is_filtered => 3,
        // Its tracer has asked it to stop there.
        Kind::Entry { .. } if stop.status >> 16 != 0 => 0,
        Kind::Entry { .. } => 1,
        Kind::Exit { .. } => 2,
        _ => 0,
    };
    let mut info = vec![op, 0, 0, 0];
    let table = if stop.regs.is_narrow() { Table::Narrow } else { Table::Wide };
    info.extend(table.arch().to_le_bytes());
    info.extend(stop.regs.rip.to_le_bytes());
    info.extend(stop.regs.rsp.to_le_bytes());
    match stop.kind {
        Kind::Entry { nr, args, .. } if op != 0 => {
            info.extend(nr.to_le_bytes());
            info.extend(args.into_iter().flat_map(u64::to_le_bytes));
            if is_filtered {
                info.extend((stop.message & u64::from(u32::MAX)).to_le_bytes());
            }
        }
        Kind::Exit { .. } => {
            let table = if stop.regs.is_narrow() { NARROW_TABLE } else { 0 };
            let result = stop.regs.result_of(table);
            info.extend(result.to_le_bytes());
            info.push(u8::from((-4095..0).contains(&result)));
        }
        _ => {}
    }
    info
}

/// A signal of a request's argument.
fn signal_of(data: u64) -> Answer<Option<Signal>> {
    match u8::try_from(data) {
        Ok(0) => Ok(None),
        Ok(number) if number <= 64 => Ok(Some(Signal(number))),
        _ => Err(libc::EIO),
    }
}

/// May a tracer have these options?
fn check_options(options: u64) -> Answer<()> {
    if options & !(OPTIONS | SUSPEND_SECCOMP) != 0 {
        return Err(libc::EINVAL);
    }
    if options & SUSPEND_SECCOMP != 0 { Err(libc::EPERM) } else { Ok(()) }
}

/// What PTRACE_PEEKUSER says of this debug register.
fn debug_register(debug: &DebugState, number: usize) -> u64 {
    match number {
        6 => debug.status ^ STATUS_RESERVED,
        7 => debug.control,
        number => debug.addrs.get(number).copied().unwrap_or(0),
    }
}

/// A write to a debug register. Of the instructions that can be waited for in the processor's own way there
/// are none: a tracee may execute them in a copy of its text. That is as where all registers are in use.
fn write_debug_register(debug: &mut DebugState, number: usize, word: u64) -> Answer {
    let (mut addrs, mut control) = (debug.addrs, debug.control);
    match number {
        6 => {
            debug.status = word ^ STATUS_RESERVED;
            return Ok(0);
        }
        7 => control = word,
        number => {
            let place = addrs.get_mut(number).ok_or(libc::EIO)?;
            *place = Some(word).filter(|addr| *addr < USER_END).ok_or(libc::EINVAL)?;
        }
    }
    let mut next = *debug;
    if !next.set(addrs, control) {
        return Err(libc::EINVAL);
    }
    if next.watches.iter().flatten().any(|watch| watch.access == Access::Execute) {
        return Err(libc::ENOSPC);
    }
    *debug = next;
    Ok(0)
}

impl Crew {
    pub fn enter_ptrace(&mut self, tid: Tid, call: &Call) -> Result<Entry> {
        let pid = self.task(tid)?.pid;
        let request = call.args[0].cast_signed();
        let answer = match i32::try_from(request) {
            Ok(0) => self.trace_me(tid, pid),
            Ok(request) => {
                let target = self.session.outside(tid, Tid(call.i32(1)));
                match request.cast_unsigned() {
                    libc::PTRACE_ATTACH | libc::PTRACE_SEIZE => {
                        attach(&self.session, pid, target, request, call)
                    }
                    _ => self.request(tid, pid, target, request, call),
                }
            }
            Err(_) => Err(libc::EIO),
        };
        Ok(Entry::Done(answer.unwrap_or_else(|errno| -i64::from(errno))))
    }

    fn trace_me(&mut self, tid: Tid, pid: Tid) -> Answer {
        let tracer = parent_of(pid);
        // Its tracer may have no need of us; but then nobody serves it.
        if !self.session.mail.is_member(tracer) {
            return Err(libc::EPERM);
        }
        let tracee = Tracee { is_child: tid == pid, ..Tracee::new(tracer, pid, self.id) };
        if self.session.traced.enter(tid, tracee) { Ok(0) } else { Err(libc::EPERM) }
    }

    /// A request to a tracee of the process `tracer`.
    fn request(&mut self, tid: Tid, tracer: Tid, target: Tid, request: i32, call: &Call) -> Answer {
        let is_ours = self.session.traced.with_live(target, |it| it.is_traced_by(tracer));
        if is_ours != Some(true) {
            return Err(libc::ESRCH);
        }
        match request.cast_unsigned() {
            libc::PTRACE_KILL => {
                let _ = sys::kill_task(target, Signal::KILL);
                Ok(0)
            }
            libc::PTRACE_INTERRUPT => interrupt_tracee(&self.session, target),
            request => {
                let stop = self.session.traced.with_live(target, |it| it.stop().cloned()).flatten();
                self.request_at_stop(tid, target, &stop.ok_or(libc::ESRCH)?, request, call)
            }
        }
    }

    /// A request to a tracee that is in this stop.
    fn request_at_stop(&mut self, tid: Tid, target: Tid, stop: &Stop, request: u32, call: &Call) -> Answer {
        let (addr, data) = (call.args[2], call.args[3]);
        let to = Addr(data);
        let is_narrow = self.call(tid).is_ok_and(|call| call.entry.narrow().is_some());
        let layout = if is_narrow { Layout::Narrow } else { Layout::Wide };
        if let Some(mode) = Mode::of_request(request) {
            return self.let_go_on(target, mode, data);
        }
        match request {
            libc::PTRACE_PEEKTEXT | libc::PTRACE_PEEKDATA => {
                let word = self.peek(target, Addr(addr), layout.word())?;
                self.answer_with(tid, to, word)
            }
            libc::PTRACE_POKETEXT | libc::PTRACE_POKEDATA => {
                self.poke(target, Addr(addr), &layout.bytes_of_word(data))
            }
            // Of a stop of its process only a tracer hears more that has seized it.
            libc::PTRACE_GETSIGINFO if stop.kind == Kind::Group && !stop.is_event_stop() => Err(libc::EINVAL),
            libc::PTRACE_GETSIGINFO => self.answer_with(tid, to, layout.siginfo(&siginfo(target, stop))),
            libc::PTRACE_SETSIGINFO => self.put_siginfo(layout, target, to),
            libc::PTRACE_GETSIGMASK if addr != WORD as u64 => Err(libc::EINVAL),
            libc::PTRACE_GETSIGMASK => self.answer_with(tid, to, stop.sigmask.to_le_bytes().to_vec()),
            // To be had by nobody but a process that was checkpointed.
            libc::PTRACE_SETSIGMASK => Err(libc::EIO),
            libc::PTRACE_GETEVENTMSG => self.answer_with(tid, to, layout.bytes_of_word(stop.message)),
            libc::PTRACE_GET_SYSCALL_INFO => self.get_call_info(tid, stop, addr, to),
            libc::PTRACE_SETOPTIONS | PTRACE_OLDSETOPTIONS => set_options(&self.session, target, data),
            libc::PTRACE_LISTEN => self.listen(target, stop),
            _ => self.request_for_registers(tid, (target, stop), layout, request, call),
        }
    }

    /// A request for what the tracee has in its registers, of whatever kind, in this stop.
    fn request_for_registers(
        &mut self,
        tid: Tid,
        (target, stop): (Tid, &Stop),
        layout: Layout,
        request: u32,
        call: &Call,
    ) -> Answer {
        let (addr, data) = (call.args[2], call.args[3]);
        let (to, is_narrow) = (Addr(data), layout == Layout::Narrow);
        match request {
            libc::PTRACE_PEEKUSER => {
                let word = self.peek_user(layout, target, stop, addr)?;
                self.answer_with(tid, to, word)
            }
            libc::PTRACE_POKEUSER => self.poke_user(layout, target, addr, data),
            libc::PTRACE_GETREGS => self.answer_with(tid, to, layout.registers(&stop.regs)),
            libc::PTRACE_SETREGS => {
                let bytes = given(&self.memory, to, layout.registers_len())?;
                self.change_regs(layout, target, 0, &bytes)
            }
            PTRACE_ARCH_PRCTL if !is_narrow => match data {
                ARCH_GET_FS => self.answer_with(tid, Addr(addr), stop.regs.fs_base.to_le_bytes().to_vec()),
                ARCH_GET_GS => self.answer_with(tid, Addr(addr), stop.regs.gs_base.to_le_bytes().to_vec()),
                ARCH_SET_FS => self.set_base(target, FS_BASE_AT, addr),
                ARCH_SET_GS => self.set_base(target, GS_BASE_AT, addr),
                _ => Err(libc::EINVAL),
            },
            libc::PTRACE_GETFPREGS => {
                let bytes = layout.floating(&stop.regs, &stop.xstate).ok_or(libc::EIO)?;
                self.answer_with(tid, to, bytes)
            }
            libc::PTRACE_SETFPREGS => {
                let bytes = given(&self.memory, to, layout.floating_len())?;
                self.change_floating(layout, target, &bytes)
            }
            PTRACE_GETFPXREGS if is_narrow => {
                let bytes = stop.xstate.get(..FXSAVE_LEN).ok_or(libc::EIO)?.to_vec();
                self.answer_with(tid, to, bytes)
            }
            PTRACE_SETFPXREGS if is_narrow => {
                let bytes = given(&self.memory, to, FXSAVE_LEN)?;
                self.change_floating(Layout::Wide, target, &bytes)
            }
            libc::PTRACE_GETREGSET => self.get_set(tid, layout, stop, addr, to),
            libc::PTRACE_SETREGSET => self.put_set(tid, layout, (target, stop), addr, to),
            PTRACE_GET_THREAD_AREA | PTRACE_SET_THREAD_AREA if call.i32(2) < 0 => Err(libc::EIO),
            PTRACE_GET_THREAD_AREA => {
                let segment = segment_at(stop, call.u32(2))?;
                self.answer_with(tid, to, segment.to_vec())
            }
            PTRACE_SET_THREAD_AREA => self.put_segment(target, call.u32(2), to),
            _ => Err(libc::EIO),
        }
    }

    /// A word of `struct user`. All but the registers is zero.
    fn peek_user(&self, layout: Layout, target: Tid, stop: &Stop, offset: u64) -> Answer<Vec<u8>> {
        let at = user_word(layout, offset)?;
        if let Some(number) = layout.debug_number(offset) {
            let word = self.session.traced.with_live(target, |it| debug_register(&it.debug, number));
            return Ok(layout.bytes_of_word(word.unwrap_or(0)));
        }
        let regs = layout.registers(&stop.regs);
        Ok(regs.get(at..at + layout.word()).map_or(layout.bytes_of_word(0), <[u8]>::to_vec))
    }

    fn poke_user(&mut self, layout: Layout, target: Tid, offset: u64, word: u64) -> Answer {
        let at = user_word(layout, offset)?;
        if let Some(number) = layout.debug_number(offset) {
            let write = |it: &mut Tracee| write_debug_register(&mut it.debug, number, word);
            return self.session.traced.with_live(target, write).unwrap_or(Err(libc::ESRCH));
        }
        if layout == Layout::Narrow && at >= layout.registers_len() {
            // The kernel takes these words of 32-bit tracers, and forgets them.
            return Ok(0);
        }
        self.change_regs(layout, target, at, &layout.bytes_of_word(word))
    }

    fn set_base(&mut self, target: Tid, at: usize, base: u64) -> Answer {
        if base >= USER_END {
            return Err(libc::EPERM);
        }
        self.change_regs(Layout::Wide, target, at, &base.to_le_bytes())
    }

    /// A descriptor of thread-local storage. A segment register that has it gets its base.
    fn put_segment(&mut self, target: Tid, entry: u32, from: Addr) -> Answer {
        let bytes = given(&self.memory, from, DESCRIPTOR_LEN)?;
        let given = bytes.first_chunk().ok_or(libc::EFAULT)?;
        let segment = segment_told(entry, given).ok_or(libc::EINVAL)?;
        let mut result = Ok(0);
        with_stop(&self.session, target, |stop| {
            if let Err(errno) = segment_at(stop, entry) {
                result = Err(errno);
                return;
            }
            stop.segments.retain(|it| it[..4] != segment[..4]);
            stop.segments.push(segment);
            stop.segments.sort_by_key(|it| it[0]);
            stop.change.segments = true;
            let (selector, base) = (u64::from(entry << 3 | 3), segment_base(&segment));
            let regs = &mut stop.regs;
            for (own, place) in [(regs.fs, &mut regs.fs_base), (regs.gs, &mut regs.gs_base)] {
                if own == selector {
                    *place = base;
                    stop.change.regs = true;
                }
            }
        })?;
        result
    }

    fn put_siginfo(&mut self, layout: Layout, target: Tid, from: Addr) -> Answer {
        let bytes = layout.siginfo_of(given(&self.memory, from, SIGINFO_LEN)?);
        with_stop(&self.session, target, |stop| {
            stop.siginfo.copy_from_slice(&bytes);
            stop.change.siginfo = true;
        })
    }

    /// As much of PTRACE_GET_SYSCALL_INFO's answer as there is room for; the result is how much there is.
    fn get_call_info(&mut self, tid: Tid, stop: &Stop, room: u64, to: Addr) -> Answer {
        let info = call_info(stop);
        let len = usize::try_from(room).unwrap_or(usize::MAX).min(info.len());
        self.answer_with(tid, to, info[..len].to_vec())?;
        Ok(i64::try_from(info.len()).unwrap_or(0))
    }

    /// A tracee that was seized, and has stopped with its process, stays stopped and reports what comes.
    fn listen(&mut self, target: Tid, stop: &Stop) -> Answer {
        let may = self.session.traced.with_live(target, |it| it.is_seized);
        if may != Some(true) || !stop.is_event_stop() {
            return Err(libc::EIO);
        }
        // It stands in the stop that it was asked for, if it was.
        self.session.traced.with_live(target, |it| it.is_asked = false);
        self.let_tracee_go(target, Mode::Listen, None);
        Ok(0)
    }

    fn let_go_on(&mut self, target: Tid, mode: Mode, data: u64) -> Answer {
        let signal = signal_of(data)?;
        self.let_tracee_go(target, mode, signal);
        Ok(0)
    }

    /// The caller is given these bytes.
    pub(super) fn answer_with(&mut self, tid: Tid, addr: Addr, data: Vec<u8>) -> Answer {
        self.memory.write(addr, &data).map_err(|_| libc::EFAULT)?;
        let call = self.call(tid).map_err(|_| libc::ESRCH)?;
        call.found.add_write(MemWrite { addr, data });
        Ok(0)
    }

    /// A tracee's memory, with what its tracers have put there.
    fn peek(&self, target: Tid, addr: Addr, len: usize) -> Answer<Vec<u8>> {
        let read = if self.tasks.contains_key(&target) {
            self.memory.read_vec(addr, len)
        } else {
            Memory::open(target).and_then(|memory| memory.read_vec(addr, len))
        };
        let mut bytes = read.map_err(|_| libc::EIO)?;
        if let Some(domain) = self.session.traced.with(target, |it| it.domain) {
            self.session.traced.overlay(domain, addr, &mut bytes);
        }
        Ok(bytes)
    }

    /// Writes to a tracee's memory. Where nobody uses that, it is there at once, for whatever way it is read;
    /// else, when the next of its tracees goes on.
    fn poke(&self, target: Tid, addr: Addr, data: &[u8]) -> Answer {
        self.peek(target, addr, data.len())?;
        let known = self.session.traced.with_live(target, |it| (it.pid, it.domain));
        let (pid, domain) = known.ok_or(libc::ESRCH)?;
        let mappings = maps::read(target).map_err(|_| libc::ESRCH)?;
        // What processes share has an order of its own, in which nothing says when this comes.
        if mappings.iter().any(|m| m.shared && m.start <= addr && addr < m.end) {
            return Err(libc::EIO);
        }
        let is_quiet = self.session.mail.is_one(domain) && self.session.traced.hold_all(&proc::threads(pid));
        if is_quiet {
            let memory = Memory::open(target).map_err(|_| libc::EIO)?;
            memory.write(addr, data).map_err(|_| libc::EIO)?;
        }
        self.session.traced.write(domain, MemWrite { addr, data: data.to_vec() });
        Ok(0)
    }

    /// A write to the memory of `target` through its file in /proc: how many bytes of it were written; none:
    /// the caller's process does not trace it, or it does not hold.
    pub fn poke_through_file(&self, tid: Tid, target: Tid, addr: Addr, data: &[u8]) -> Option<usize> {
        let pid = self.tasks.get(&tid)?.pid;
        let traces = |tid: &Tid| {
            let it = |it: &mut Tracee| it.tracer == pid && it.stop().is_some();
            self.session.traced.with(*tid, it) == Some(true)
        };
        let held = proc::threads(process_of(target)?).into_iter().find(traces)?;
        let (mut at, mut done) = (addr, 0);
        while done < data.len() {
            let room = usize::try_from((at + 1).next_multiple_of(PAGE) - at).unwrap_or(usize::MAX);
            let end = done.saturating_add(room).min(data.len());
            if self.poke(held, at, &data[done..end]).is_err() {
                break;
            }
            at += (end - done) as u64;
            done = end;
        }
        Some(done)
    }

    fn change_regs(&mut self, layout: Layout, target: Tid, at: usize, data: &[u8]) -> Answer {
        let mut result = None;
        with_stop(&self.session, target, |stop| {
            result = layout.put_registers(&mut stop.regs, at, data);
            stop.change.regs |= result.is_some();
        })?;
        result.map(|()| 0).ok_or(libc::EIO)
    }

    fn change_floating(&mut self, layout: Layout, target: Tid, data: &[u8]) -> Answer {
        let mut result = None;
        with_stop(&self.session, target, |stop| {
            result = layout.put_floating(&stop.regs, &mut stop.xstate, data);
            stop.change.xstate |= result.is_some();
        })?;
        result.map(|()| 0).ok_or(libc::EIO)
    }

    fn change_xstate(&mut self, target: Tid, data: &[u8]) -> Answer {
        let mut result = Err(libc::EIO);
        with_stop(&self.session, target, |stop| {
            if let Some(place) = stop.xstate.get_mut(..data.len()) {
                place.copy_from_slice(data);
                stop.change.xstate = true;
                result = Ok(0);
            }
        })?;
        result
    }

    fn get_set(&mut self, tid: Tid, layout: Layout, stop: &Stop, set: u64, iov: Addr) -> Answer {
        let (base, room) = set_buffer(&self.memory, layout, iov)?;
        let own = Layout::of(&stop.regs);
        if !room.is_multiple_of(unit(own, set).ok_or(libc::EINVAL)?) {
            return Err(libc::EINVAL);
        }
        let bytes = match set {
            NT_PRSTATUS => own.registers(&stop.regs),
            NT_PRFPREG => own.floating(&stop.regs, &stop.xstate).ok_or(libc::EIO)?,
            NT_PRXFPREG => stop.xstate.get(..FXSAVE_LEN).ok_or(libc::EIO)?.to_vec(),
            NT_386_TLS => stop.segments.concat(),
            _ => stop.xstate.clone(),
        };
        let len = room.min(bytes.len());
        self.answer_with(tid, base, bytes[..len].to_vec())?;
        self.answer_with(tid, iov + layout.word() as u64, layout.bytes_of_word(len as u64))
    }

    fn put_set(
        &mut self,
        tid: Tid,
        layout: Layout,
        (target, stop): (Tid, &Stop),
        set: u64,
        iov: Addr,
    ) -> Answer {
        let (base, len) = set_buffer(&self.memory, layout, iov)?;
        let own = Layout::of(&stop.regs);
        if !len.is_multiple_of(unit(own, set).ok_or(libc::EINVAL)?) {
            return Err(libc::EINVAL);
        }
        let most = match set {
            NT_PRSTATUS => own.registers_len(),
            NT_PRFPREG => own.floating_len(),
            NT_PRXFPREG => FXSAVE_LEN,
            NT_X86_XSTATE => stop.xstate.len(),
            _ => return Err(libc::EINVAL),
        };
        let bytes = given(&self.memory, base, len.min(most))?;
        match set {
            NT_PRSTATUS => self.change_regs(own, target, 0, &bytes)?,
            NT_PRFPREG => self.change_floating(own, target, &bytes)?,
            NT_PRXFPREG => self.change_floating(Layout::Wide, target, &bytes)?,
            _ => self.change_xstate(target, &bytes)?,
        };
        self.answer_with(tid, iov + layout.word() as u64, layout.bytes_of_word(bytes.len() as u64))
    }
}

/// Of what the sets of a tracee with this layout are so many. None: it has no such set.
fn unit(own: Layout, set: u64) -> Option<usize> {
    let is_narrow = own == Layout::Narrow;
    match set {
        NT_PRSTATUS => Some(own.word()),
        NT_PRFPREG => Some(4),
        NT_PRXFPREG if is_narrow => Some(4),
        NT_386_TLS if is_narrow => Some(DESCRIPTOR_LEN),
        NT_X86_XSTATE => Some(8),
        _ => None,
    }
}

/// Where a word of `struct user` is.
fn user_word(layout: Layout, offset: u64) -> Answer<usize> {
    let is_one = offset.is_multiple_of(layout.word() as u64) && offset < layout.user_len();
    usize::try_from(offset).ok().filter(|_| is_one).ok_or(libc::EIO)
}

/// The descriptor of thread-local storage of this number.
fn segment_at(stop: &Stop, entry: u32) -> Answer<&[u8; DESCRIPTOR_LEN]> {
    let is_it = |segment: &&[u8; DESCRIPTOR_LEN]| segment[..4] == entry.to_le_bytes();
    stop.segments.iter().find(is_it).ok_or(libc::EINVAL)
}

fn with_stop(session: &Session, target: Tid, use_it: impl FnOnce(&mut Stop)) -> Answer {
    let done = session.traced.with_live(target, |it| it.stop().map(use_it));
    done.flatten().map(|()| 0).ok_or(libc::ESRCH)
}

fn set_options(session: &Session, target: Tid, options: u64) -> Answer {
    check_options(options)?;
    session.traced.with_live(target, |it| it.options = options);
    Ok(0)
}

/// A tracee that was seized stops wherever it is.
fn interrupt_tracee(session: &Session, target: Tid) -> Answer {
    let asked = session.traced.with_live(target, |it| {
        if !it.is_seized {
            return Err(libc::EIO);
        }
        it.is_asked = true;
        Ok(it.domain)
    });
    let domain = asked.ok_or(libc::ESRCH)??;
    session.watch.call(domain);
    Ok(0)
}

fn attach(session: &Session, tracer: Tid, target: Tid, request: i32, call: &Call) -> Answer {
    let is_seized = request.cast_unsigned() == libc::PTRACE_SEIZE;
    if is_seized && call.args[2] != 0 {
        return Err(libc::EIO);
    }
    if is_seized {
        check_options(call.args[3])?;
    }
    let pid = process_of(target).ok_or(libc::ESRCH)?;
    let domain = session.mail.target(pid, || false).ok_or(libc::EPERM)?;
    if pid == tracer {
        return Err(libc::EPERM);
    }
    let options = if is_seized { call.args[3] } else { 0 };
    let is_child = parent_of(pid) == tracer && target == pid;
    let tracee = Tracee { is_seized, options, is_child, ..Tracee::new(tracer, pid, domain) };
    if !session.traced.enter(target, tracee) {
        return Err(libc::EPERM);
    }
    if !is_seized {
        sys::tgkill(pid, target, Signal::STOP).map_err(|_| libc::ESRCH)?;
    }
    // It has stopped with its process, and says so again, to its tracer.
    if session.halted.has(target) {
        session.traced.with_live(target, |it| it.is_asked = it.state == State::Runs);
        session.watch.call(domain);
    }
    Ok(0)
}

/// The buffer of a `struct iovec`.
fn set_buffer(memory: &Memory, layout: Layout, iov: Addr) -> Answer<(Addr, usize)> {
    let bytes = given(memory, iov, 2 * layout.word())?;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let (base, len) = bytes.split_at(layout.word());
    Ok((Addr(word(base)), usize::try_from(word(len)).map_err(|_| libc::EINVAL)?))
}

/// What the caller gives: so many bytes of its memory.
fn given(memory: &Memory, from: Addr, len: usize) -> Answer<Vec<u8>> {
    memory.read_vec(from, len).map_err(|_| libc::EFAULT)
}

#[cfg(test)]
mod tests;
