//! Whether the code at an address looks at the flags that a count changes: all six status flags.
//!
//! Execution is followed from the address, both ways at a branch, until each way has set the flags anew or
//! called somebody, to whom flags are not handed by the calling convention (unless his first instructions
//! read them: then he is asked). If a way ends otherwise, or has not ended after some instructions, the flags
//! are kept.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, RflagsBits};

use super::survey::Survey;
use crate::analysis::Analysis;

const CHANGED: u32 =
    RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::PF | RflagsBits::CF;

/// Instructions that are looked at, on all ways together.
const LOOK: usize = 40;

/// Ways that are followed at once, or jumps that are followed after one another.
const WAYS: usize = 12;

/// Whether a count right before `target` may change the flags. `called`: a call leads there.
pub(super) fn dead(text: &Analysis<'_>, survey: &Survey, target: u64, called: bool) -> bool {
    let mut look = LOOK;
    let mut ways = vec![(target, CHANGED, called)];
    let mut followed = 0;
    while let Some((address, mut wanted, called)) = ways.pop() {
        followed += 1;
        if !survey.starts.has(address) || followed > WAYS || look == 0 {
            // Of code that is unknown, or takes too long to look through, only the convention is known.
            if called {
                continue;
            }
            return false;
        }
        let Some(bytes) = text.code_at(address).and_then(|section| section.from(address)) else {
            return false;
        };
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let mut it = Instruction::default();
        loop {
            if look == 0 || !survey.starts.has(decoder.ip()) {
                if called {
                    break;
                }
                return false;
            }
            look -= 1;
            decoder.decode_out(&mut it);
            if it.rflags_read() & wanted != 0 {
                return false;
            }
            if sets(&it) {
                wanted &= !it.rflags_modified();
            }
            if wanted == 0 {
                break;
            }
            let near = it.op0_kind() == OpKind::NearBranch64;
            match it.flow_control() {
                FlowControl::Next => {}
                FlowControl::ConditionalBranch if near => ways.push((it.near_branch64(), wanted, called)),
                FlowControl::UnconditionalBranch if near => {
                    ways.push((it.near_branch64(), wanted, called));
                    break;
                }
                FlowControl::Call if near => {
                    ways.push((it.near_branch64(), wanted, true));
                    break;
                }
                // The kernel gives the flags back as they were.
                FlowControl::Call if it.code() == Code::Syscall => {}
                FlowControl::IndirectCall => break,
                _ if called => break,
                _ => return false,
            }
        }
    }
    true
}

/// Whether an instruction always sets the flags that it may set. Shifts by nothing and repetitions of nothing
/// do not.
fn sets(it: &Instruction) -> bool {
    use Mnemonic::{Rcl, Rcr, Rol, Ror, Sal, Sar, Shl, Shld, Shr, Shrd};
    let shift = matches!(it.mnemonic(), Rcl | Rcr | Rol | Ror | Sal | Sar | Shl | Shld | Shr | Shrd);
    !shift && !it.has_rep_prefix() && !it.has_repne_prefix()
}
