//! Any bytes as bytecode: it ends, within its limits.
#![no_main]

use bis_debug::protocol::agent::{Limits, Look, Unreadable, run};

struct Fake;

impl Look for Fake {
    fn register(&mut self, number: u16) -> Option<u64> {
        (number < 60).then_some(u64::from(number))
    }

    fn memory(&mut self, addr: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        buffer.fill(addr.to_le_bytes()[0]);
        if addr < 1 << 63 { Ok(()) } else { Err(Unreadable) }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { steps: 1000, stack: 50, output: 1 << 12 };
    if let Ok(outcome) = run(bytes, &mut Fake, &limits) {
        assert!(outcome.output.len() <= limits.output);
    }
});
