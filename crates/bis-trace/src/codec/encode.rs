//! From the model to Cap'n Proto: events. (`meta.rs` has the meta entries.)

use super::{
    Malformed, Result, check_cloned, check_domain, check_siginfo, check_signal, check_tid, ours,
    registers_to_bytes, require,
};
use crate::{
    bis_capnp as schema,
    event::{
        Backing, Base, Cloned, Echo, Effect, Event, EventKind, LastWay, MemWrite, Outcome, PausePlace,
        Program, RangeSum, SignalEvent, SignalPoint, TaskEnd, Turn,
    },
    types::Registers,
};

/// A list's length in Cap'n Proto's own type.
pub(super) fn count(len: usize) -> Result<u32> {
    u32::try_from(len)
        .ok()
        .filter(|len| *len < 1 << 29)
        .ok_or_else(|| Malformed(format!("a list of {len} entries is too long")))
}

pub(super) fn event(event: &Event, mut to: schema::event::Builder<'_>) -> Result<()> {
    require(event.seq.0 > 0, || "events are numbered from 1".into())?;
    check_tid(event.tid.0)?;
    to.set_seq(event.seq.0);
    to.set_tid(event.tid.0);
    if let Some(ticks) = event.ticks {
        require(ticks < u64::MAX, || "more counts than there can be".into())?;
        to.set_ticks(ticks + 1);
    }
    to.set_lapse(event.lapse.0);
    if !event.sums.is_empty() {
        sums(&event.sums, to.reborrow().init_sums(count(event.sums.len())?));
    }
    let mut to = to.init_kind();
    match &event.kind {
        EventKind::Start(start) => {
            let mut to = to.init_start();
            base(&start.base, to.reborrow().init_base())?;
            to.set_own_cpuid(start.has_own_cpuid);
            to.set_core(start.core.map_or(0, |core| core.saturating_add(1)));
            outcome(&start.outcome, None, to.init_outcome())
        }
        EventKind::Syscall { nr, entry, outcome: result } => {
            let mut to = to.init_syscall();
            to.set_nr(*nr);
            to.set_entry(&registers_to_bytes(entry));
            outcome(result, Some(entry), to.init_outcome())
        }
        EventKind::SyscallEnter { nr, entry } => {
            let mut to = to.init_syscall_enter();
            to.set_nr(*nr);
            to.set_entry(&registers_to_bytes(entry));
            Ok(())
        }
        EventKind::SyscallExit { nr, outcome: result } => {
            let mut to = to.init_syscall_exit();
            to.set_nr(*nr);
            outcome(result, None, to.init_outcome())
        }
        EventKind::Signal(event) => signal(event, to.init_signal()),
        EventKind::Instruction { insn, before, after } => {
            let mut to = to.init_instruction();
            to.set_insn(ours::insn_to(*insn));
            to.set_before(&registers_to_bytes(before));
            to.set_after(&registers_to_bytes(after));
            Ok(())
        }
        EventKind::TaskExit { status, outcome: result, last_way } => {
            let mut to = to.init_task_exit();
            to.set_last_way(match last_way {
                LastWay::None => schema::LastWay::None,
                LastWay::Log => schema::LastWay::Log,
                LastWay::Call => schema::LastWay::Call,
            });
            task_end(*status, to.reborrow().init_status())?;
            outcome(result, None, to.init_outcome())
        }
        EventKind::Token { acquired, released } => {
            let mut to = to.init_token();
            turns(acquired, to.reborrow().init_acquired(count(acquired.len())?));
            turns(released, to.init_released(count(released.len())?));
            Ok(())
        }
        EventKind::End => {
            to.set_end(());
            Ok(())
        }
        EventKind::Pause(pause) => {
            let mut to = to.init_pause();
            match pause.place {
                PausePlace::State => to.reborrow().init_place().set_state(()),
                PausePlace::Count(count) => to.reborrow().init_place().set_count(count),
            }
            to.set_regs(&registers_to_bytes(&pause.regs));
            to.set_extended(&pause.extended);
            to.set_span(&pause.span);
            to.set_trap(pause.trap);
            writes(&pause.held, to.reborrow().init_held(count(pause.held.len())?));
            sums(&pause.seen, to.init_seen(count(pause.seen.len())?));
            Ok(())
        }
        EventKind::Hooked { alone, log } => {
            require(!log.is_empty(), || "an empty log of hooked calls".into())?;
            let mut to = to.init_hooked();
            to.set_alone(*alone);
            to.set_log(log);
            Ok(())
        }
    }
}

fn sums(sums: &[RangeSum], mut to: capnp::struct_list::Builder<'_, schema::range_sum::Owned>) {
    for (index, sum) in (0..).zip(sums) {
        let mut entry = to.reborrow().get(index);
        entry.set_addr(sum.addr.0);
        entry.set_len(sum.len);
        entry.set_sum(sum.sum);
        entry.set_is_stack(sum.is_stack);
    }
}

fn writes(writes: &[MemWrite], mut to: capnp::struct_list::Builder<'_, schema::mem_write::Owned>) {
    for (index, write) in (0..).zip(writes) {
        let mut entry = to.reborrow().get(index);
        entry.set_addr(write.addr.0);
        entry.set_data(&write.data);
    }
}

fn cloned(cloned: &Cloned, mut to: schema::cloned::Builder<'_>) -> Result<()> {
    check_cloned(cloned.len)?;
    to.set_addr(cloned.addr.0);
    to.set_offset(cloned.offset);
    to.set_len(cloned.len);
    to.set_sum(cloned.sum);
    Ok(())
}

fn turns(turns: &[Turn], mut to: capnp::struct_list::Builder<'_, schema::turn::Owned>) {
    for (index, turn) in (0..).zip(turns) {
        let mut entry = to.reborrow().get(index);
        entry.set_object(turn.object.0);
        entry.set_turn(turn.turn);
    }
}

pub(super) fn data_list(items: &[Vec<u8>], mut to: capnp::data_list::Builder<'_>) {
    for (index, item) in (0..).zip(items) {
        to.set(index, item);
    }
}

fn program(base: &Base, mut to: schema::base::exec::Builder<'_>) -> Result<()> {
    let Some(Program { path, argv, envp, cwd }) = base.program() else { return Ok(()) };
    to.set_path(path);
    data_list(argv, to.reborrow().init_argv(count(argv.len())?));
    data_list(envp, to.reborrow().init_envp(count(envp.len())?));
    to.set_cwd(cwd);
    Ok(())
}

pub(super) fn base(base: &Base, to: schema::base::Builder<'_>) -> Result<()> {
    match base {
        Base::Exec { .. } => program(base, to.init_exec())?,
        Base::Image { auxv, .. } => {
            let mut to = to.init_image();
            program(base, to.reborrow().init_program())?;
            to.set_auxv(auxv);
        }
        Base::Fork { parent, at } => {
            check_domain(parent.0)?;
            let mut to = to.init_fork();
            to.set_parent(parent.0);
            to.set_at(at.0);
        }
    }
    Ok(())
}

/// `entry`: the registers at a system call's entry. Most calls change only rax (rcx and r11 have their new
/// values at the entry stop already), and then only rax is kept.
fn outcome(outcome: &Outcome, entry: Option<&Registers>, mut to: schema::outcome::Builder<'_>) -> Result<()> {
    let mut regs = to.reborrow().init_regs();
    let rax = outcome.regs.rax;
    if outcome.regs == Registers::default() {
        regs.set_zero(());
    } else if entry.is_some_and(|entry| Registers { rax, ..*entry } == outcome.regs) {
        regs.set_rax(rax);
    } else {
        regs.set_all(&registers_to_bytes(&outcome.regs));
    }
    if let Some(xstate) = &outcome.xstate {
        to.set_xstate(xstate);
    }
    if !outcome.effects.is_empty() {
        let mut list = to.reborrow().init_effects(count(outcome.effects.len())?);
        for (index, item) in (0..).zip(&outcome.effects) {
            effect(item, list.reborrow().get(index))?;
        }
    }
    if !outcome.clones.is_empty() {
        let mut list = to.reborrow().init_clones(count(outcome.clones.len())?);
        for (index, item) in (0..).zip(&outcome.clones) {
            cloned(item, list.reborrow().get(index))?;
        }
    }
    if !outcome.writes.is_empty() {
        writes(&outcome.writes, to.reborrow().init_writes(count(outcome.writes.len())?));
    }
    if let Some(from) = &outcome.ours {
        ours::encode(from, to.reborrow().init_ours())?;
    }
    if let Some(Echo { stream, ranges, sum }) = &outcome.echo {
        let mut to = to.init_echo();
        to.set_fd(stream.number());
        to.set_sum(*sum);
        let mut list = to.init_ranges(count(ranges.len())?);
        for (index, (addr, len)) in (0..).zip(ranges) {
            let mut entry = list.reborrow().get(index);
            entry.set_addr(addr.0);
            entry.set_len(*len);
        }
    }
    Ok(())
}

fn effect(effect: &Effect, to: schema::effect::Builder<'_>) -> Result<()> {
    match effect {
        Effect::Map { addr, len, prot, backing } => {
            let mut to = to.init_map();
            to.set_addr(addr.0);
            to.set_len(*len);
            to.set_prot(*prot);
            match backing {
                Backing::Anonymous => to.init_backing().set_anonymous(()),
                Backing::Stack => to.init_backing().set_stack(()),
                Backing::File { file, offset } => {
                    to.set_offset(*offset);
                    to.init_backing().set_file(file.0);
                }
                Backing::Shared { object, offset } => {
                    to.set_offset(*offset);
                    to.init_backing().set_shared(object.0);
                }
            }
        }
        Effect::Unmap { addr, len } => {
            let mut to = to.init_unmap();
            to.set_addr(addr.0);
            to.set_len(*len);
        }
        Effect::Protect { addr, len, prot } => {
            let mut to = to.init_protect();
            to.set_addr(addr.0);
            to.set_len(*len);
            to.set_prot(*prot);
        }
        Effect::Remap { addr, old_len, new_addr, new_len, keep } => {
            let mut to = to.init_remap();
            to.set_addr(addr.0);
            to.set_old_len(*old_len);
            to.set_new_addr(new_addr.0);
            to.set_new_len(*new_len);
            to.set_keep(*keep);
        }
        Effect::Advise { addr, len, advice } => {
            let mut to = to.init_advise();
            to.set_addr(addr.0);
            to.set_len(*len);
            to.set_advice(*advice);
        }
        Effect::NewObject { object, len, content } => {
            let mut to = to.init_new_object();
            to.set_object(object.0);
            to.set_len(*len);
            match content {
                None => to.init_content().set_zeros(()),
                Some(file) => to.init_content().set_file(file.0),
            }
        }
        Effect::WriteObject { object, offset, data } => {
            let mut to = to.init_write_object();
            to.set_object(object.0);
            to.set_offset(*offset);
            to.set_data(data);
        }
        Effect::ResizeObject { object, len } => {
            let mut to = to.init_resize_object();
            to.set_object(object.0);
            to.set_len(*len);
        }
        Effect::ClearObject { object, offset, len } => {
            let mut to = to.init_clear_object();
            to.set_object(object.0);
            to.set_offset(*offset);
            to.set_len(*len);
        }
        Effect::NewTask { tid, regs, xstate } => {
            check_tid(tid.0)?;
            let mut to = to.init_new_task();
            to.set_tid(tid.0);
            to.set_regs(&registers_to_bytes(regs));
            if let Some(xstate) = xstate {
                to.set_xstate(xstate);
            }
        }
        Effect::SetTask { tid, regs, xstate } => {
            check_tid(tid.0)?;
            let mut to = to.init_set_task();
            to.set_tid(tid.0);
            to.set_regs(&registers_to_bytes(regs));
            to.set_xstate(xstate);
        }
        Effect::Segment { tid, descriptor } => {
            check_tid(tid.0)?;
            let mut to = to.init_segment();
            to.set_tid(tid.0);
            to.set_descriptor(descriptor);
        }
        Effect::Fork { domain, tid } => {
            check_domain(domain.0)?;
            check_tid(tid.0)?;
            let mut to = to.init_fork();
            to.set_domain(domain.0);
            to.set_tid(tid.0);
        }
    }
    Ok(())
}

fn signal(event: &SignalEvent, mut to: schema::signal_event::Builder<'_>) -> Result<()> {
    check_signal(event.signal.0)?;
    check_siginfo(&event.siginfo)?;
    to.set_signal(event.signal.0);
    to.set_siginfo(&event.siginfo);
    to.set_point(match event.point {
        SignalPoint::Fault => schema::signal_event::Point::Fault,
        SignalPoint::AfterEvent => schema::signal_event::Point::AfterEvent,
        SignalPoint::BeforeSyscall => schema::signal_event::Point::BeforeSyscall,
        SignalPoint::Anywhere => schema::signal_event::Point::Anywhere,
        SignalPoint::AfterHook => schema::signal_event::Point::AfterHook,
    });
    to.set_before(&registers_to_bytes(&event.before));
    match &event.handler {
        Some(handler) => outcome(handler, None, to.init_handler()),
        None => Ok(()),
    }
}

pub(super) fn task_end(status: TaskEnd, mut to: schema::task_end::Builder<'_>) -> Result<()> {
    match status {
        TaskEnd::Exited(code) => to.set_exited(code),
        TaskEnd::Killed(signal) => {
            check_signal(signal.0)?;
            to.set_killed(signal.0);
        }
        TaskEnd::Exec(domain) => {
            check_domain(domain.0)?;
            to.set_exec(domain.0);
        }
        TaskEnd::Dethreaded => to.set_dethreaded(()),
    }
    Ok(())
}
