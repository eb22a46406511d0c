use bis_trace::types::{DomainId, Registers};
use proptest::prelude::*;

use super::*;
use crate::traced::tells::Tell;

const ENTRY: Kind = Kind::Entry { nr: 39, args: [1, 2, 3, 4, 5, 6], is_emulated: false };

fn stop(tell: Tell, regs: Registers) -> Stop {
    Stop {
        kind: tell.kind,
        status: tell.status,
        is_waited: false,
        message: tell.message,
        regs,
        xstate: Vec::new(),
        sigmask: 0,
        siginfo: [0; 128],
        segments: Vec::new(),
        change: super::super::books::Change::default(),
    }
}

fn word(info: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(info[at..at + 8].try_into().unwrap())
}

/// The place of a program of 64 bits.
fn regs(rax: i64) -> Registers {
    Registers { rip: 0x1000, rsp: 0x7000, cs: 0x33, rax: rax.cast_unsigned(), ..Registers::default() }
}

#[test]
fn what_is_said_of_a_call_is_the_entry_or_the_return_that_its_tracer_is_told_of() {
    let tracee = Tracee::new(Tid(1), Tid(2), DomainId(1));
    let entry = call_info(&stop(Tell { kind: ENTRY, ..tracee.tell_return(39) }, regs(-38)));
    assert_eq!((entry[0], entry.len()), (1, 80));
    assert_eq!((word(&entry, 8), word(&entry, 16)), (0x1000, 0x7000));
    assert_eq!((word(&entry, 24), word(&entry, 32), word(&entry, 72)), (39, 1, 6));
    for (result, is_error) in [(7, 0), (-4095, 1), (-4096, 0), (-1, 1), (0, 0)] {
        let exit = call_info(&stop(tracee.tell_return(39), regs(result)));
        assert_eq!((exit[0], exit.len()), (2, 33));
        assert_eq!((word(&exit, 24), exit[32]), (result.cast_unsigned(), is_error), "{result}");
    }
}

#[test]
fn what_is_said_of_a_filters_question_has_its_number() {
    let tell = Tell { kind: ENTRY, ..Tell::event(libc::PTRACE_EVENT_SECCOMP, 0xffff_0007) };
    let info = call_info(&stop(tell, regs(0)));
    assert_eq!((info[0], info.len()), (3, 88));
    assert_eq!(word(&info, 80), 0xffff_0007);
}

#[test]
fn of_other_stops_only_the_place_is_said() {
    let asked = Tell { kind: ENTRY, ..Tell::event(libc::PTRACE_EVENT_STOP, 1) };
    for tell in [asked, Tell::signal(Signal(10)), Tell::group(Signal::STOP, true)] {
        let info = call_info(&stop(tell, regs(0)));
        assert_eq!((info[0], info.len(), word(&info, 8)), (0, 24, 0x1000), "{tell:?}");
    }
}

#[test]
fn a_tracer_gives_a_signal_that_there_is_or_none() {
    assert_eq!((signal_of(0), signal_of(64)), (Ok(None), Ok(Some(Signal(64)))));
    assert_eq!((signal_of(65), signal_of(u64::MAX)), (Err(libc::EIO), Err(libc::EIO)));
}

#[test]
fn a_tracer_has_the_options_that_are_served() {
    assert_eq!((check_options(0), check_options(OPTIONS)), (Ok(()), Ok(())));
    assert_eq!(check_options(SUSPEND_SECCOMP), Err(libc::EPERM));
    assert_eq!(check_options(SUSPEND_SECCOMP | 1 << 40), Err(libc::EINVAL));
}

#[test]
fn a_debug_register_says_what_was_written_to_it() {
    let mut debug = DebugState::default();
    assert_eq!(debug_register(&debug, 6), STATUS_RESERVED);
    assert_eq!(write_debug_register(&mut debug, 1, 0x1000), Ok(0));
    // For writes of 8 bytes.
    assert_eq!(write_debug_register(&mut debug, 7, 0b100 | 0b1001 << 20), Ok(0));
    assert!(debug.is_used());
    assert_eq!((debug_register(&debug, 1), debug_register(&debug, 0)), (0x1000, 0));
    assert_eq!(write_debug_register(&mut debug, 6, STATUS_RESERVED | 2), Ok(0));
    assert_eq!((debug_register(&debug, 6), debug.status), (STATUS_RESERVED | 2, 2));
}

#[test]
fn a_debug_register_is_left_as_it_was_where_what_is_written_is_not_served() {
    let mut debug = DebugState::default();
    assert_eq!(write_debug_register(&mut debug, 1, 0x1000), Ok(0));
    let before = debug;
    assert_eq!(write_debug_register(&mut debug, 0, USER_END), Err(libc::EINVAL));
    assert_eq!(write_debug_register(&mut debug, 5, 0), Err(libc::EIO));
    assert_eq!(write_debug_register(&mut debug, 7, 0b100), Err(libc::ENOSPC), "to be executed");
    assert_eq!(debug, before);
}

proptest! {
    /// Whatever is written: it is there, or an error is told and nothing has changed.
    #[test]
    fn a_write_to_a_debug_register_is_whole(
        writes in prop::collection::vec((0..9_usize, prop_oneof![0..0x1_0000_u64, any::<u64>()]), 0..12),
    ) {
        let mut debug = DebugState::default();
        for (number, word) in writes {
            let before = debug;
            match write_debug_register(&mut debug, number, word) {
                Ok(_) => prop_assert_eq!(debug_register(&debug, number), word),
                Err(_) => prop_assert_eq!(debug, before),
            }
            let executes = |watch: &bis_tracee::debug::Watch| watch.access == Access::Execute;
            prop_assert!(!debug.watches.iter().flatten().any(executes));
        }
    }

    /// Each word of `struct user` is found, and nothing between two words or behind the last.
    #[test]
    fn a_word_of_struct_user_is_one_of_its_words(offset in prop_oneof![0..1000_u64, any::<u64>()]) {
        for layout in [Layout::Wide, Layout::Narrow] {
            let word = layout.word() as u64;
            let is_one = offset.is_multiple_of(word) && offset < layout.user_len();
            prop_assert_eq!(user_word(layout, offset).is_ok(), is_one);
            prop_assert!(layout.debug_number(offset).is_none_or(|number| is_one && number < 8));
        }
    }
}

#[test]
fn a_set_of_registers_is_asked_for_in_its_own_units() {
    assert_eq!((unit(Layout::Wide, NT_PRSTATUS), unit(Layout::Narrow, NT_PRSTATUS)), (Some(8), Some(4)));
    for set in [NT_PRXFPREG, NT_386_TLS] {
        assert!(unit(Layout::Wide, set).is_none() && unit(Layout::Narrow, set).is_some());
    }
    assert_eq!(unit(Layout::Wide, 0), None);
}
