//! Every run of real libraries, moved to many places: what the trampoline holds is decoded again and compared
//! with the run, instruction by instruction, by what each one reads, writes and branches to.
//!
//! Nothing is executed here.

use crate::common::{check, libraries};
use bis_rewrite::{Hook, Reason, Run, SiteKind, Text, trampoline};
use iced_x86::{Decoder, DecoderOptions, OpKind};
use object::{Object as _, ObjectSection as _, SectionKind};
use proptest::prelude::*;

#[test]
fn every_run_of_libraries_is_the_same_elsewhere() {
    let mut runs = 0;
    for library in libraries() {
        let text = Text::parse(&library).expect("a library");
        for (site, kind) in text.sites() {
            let Ok(run) = text.run_at(site) else { continue };
            assert_eq!((run.site(), run.kind()), (site, kind));
            assert!(run.len() >= 5 && run.start() <= site && site < run.end());
            for (bias, at, slot) in [
                (0x7f12_3456_7000, 0x7f12_3400_0000, 0x7f12_3300_0000),
                (0x7f12_3456_7000, 0x7f12_3500_0123, 0x7f12_34ff_fff8),
                (0x5555_5555_4000, 0x5555_9555_4000, 0x5555_d000_0000),
            ] {
                check(&run, bias, at, slot);
            }
            runs += 1;
        }
    }
    assert!(runs > 300, "only {runs} runs: where is the C library?");
}

/// The analysis looks for branches byte by byte; this decodes whole sections instead, from their start.
#[test]
fn no_instruction_of_a_library_leads_into_a_run() {
    for library in libraries() {
        let text = Text::parse(&library).expect("a library");
        let runs: Vec<Run> = text.sites().filter_map(|(site, _)| text.run_at(site).ok()).collect();
        let mut interior: Vec<u64> = runs.iter().flat_map(|run| run.start() + 1..run.end()).collect();
        interior.sort_unstable();
        let file = object::File::parse(&*library).expect("a library");
        for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
            let code = section.data().expect("in the file");
            for it in Decoder::with_ip(64, code, section.address(), DecoderOptions::NONE) {
                let target = match it.op0_kind() {
                    OpKind::NearBranch64 => it.near_branch64(),
                    _ if it.is_ip_rel_memory_operand() => it.memory_displacement64(),
                    _ => continue,
                };
                assert!(interior.binary_search(&target).is_err(), "{:#x} leads to {target:#x}", it.ip());
            }
        }
    }
}

#[test]
fn nearly_every_call_of_the_c_library_can_move() {
    let library = &libraries()[0];
    let text = Text::parse(library).expect("a library");
    let sites: Vec<u64> =
        text.sites().filter(|(_, kind)| *kind == SiteKind::Syscall).map(|(site, _)| site).collect();
    let refused: Vec<Reason> = sites.iter().filter_map(|site| text.run_at(*site).err()).collect();
    assert!(sites.len() > 300, "only {} calls", sites.len());
    assert!(
        refused.iter().filter(|reason| **reason != Reason::Sigreturn).count() * 100 < sites.len(),
        "{refused:?}"
    );
    assert!(refused.contains(&Reason::Sigreturn) && refused.len() < sites.len());
}

#[test]
fn other_addresses_are_refused() {
    let library = &libraries()[0];
    let text = Text::parse(library).expect("a library");
    let (site, _) = text.sites().next().expect("a call");
    assert!(text.run_at(site + 1).is_err());
    assert_eq!(text.run_at(0), Err(Reason::NotASite));
    assert_eq!(text.run_at(u64::MAX), Err(Reason::NotASite));
}

#[test]
fn distances_are_checked() {
    let library = &libraries()[0];
    let text = Text::parse(library).expect("a library");
    let run = text.sites().find_map(|(site, _)| text.run_at(site).ok()).expect("a run");
    let bias = 0x7f00_0000_0000;
    let hook = |slot| Hook { slot, save: None };
    assert!(trampoline(&run, bias, bias + (4 << 30), hook(bias + (4 << 30))).is_err());
    assert!(trampoline(&run, bias, bias - (1 << 30), hook(bias + (2 << 30))).is_err());
    assert!(trampoline(&run, bias, bias - (1 << 30), hook(bias)).is_ok());
}

proptest! {
    /// Runs of one library at any distance that displacements reach.
    #[test]
    fn runs_are_the_same_anywhere(
        pick in any::<prop::sample::Index>(),
        bias in (1_u64 << 32..1 << 46).prop_map(|bias| bias & !0xfff),
        distance in -(1_i64 << 30)..1 << 30,
        slot in -(1_i64 << 30)..1 << 30,
    ) {
        thread_local! {
            static RUNS: Vec<Run> = libraries().iter().flat_map(|library| {
                let text = Text::parse(library).expect("a library");
                text.sites().filter_map(|(site, _)| text.run_at(site).ok()).collect::<Vec<_>>()
            }).collect();
        }
        RUNS.with(|runs| {
            let run = &runs[pick.index(runs.len())];
            let at = (run.start() + bias).wrapping_add_signed(distance);
            check(run, bias, at, at.wrapping_add_signed(slot));
        });
    }
}
