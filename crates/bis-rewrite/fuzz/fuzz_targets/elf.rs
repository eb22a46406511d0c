//! Any bytes as an ELF file: refused, or analysed to the end, and every run that comes out can be moved.
#![no_main]

use bis_rewrite::{Hook, Text, trampoline};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = Text::parse(bytes) else { return };
    for (site, kind) in text.sites().take(16) {
        let Ok(run) = text.run_at(site) else { continue };
        assert!(run.site() == site && run.kind() == kind && run.start() <= site && site < run.end());
        // What the run refers to may be out of reach, but the run itself can be moved.
        let hook = Hook { slot: 0x1_0001_0000, save: Some(0x1000) };
        let made = trampoline(&run, 0x1_0000_0000_u64.wrapping_sub(run.start()), 0x1_0002_0000, hook);
        match made {
            Ok(made) => assert_eq!(made.patch.len(), usize::from(run.len())),
            Err(error) => assert!(matches!(error, bis_rewrite::Error::TooFar { .. }), "{error}"),
        }
    }
});
