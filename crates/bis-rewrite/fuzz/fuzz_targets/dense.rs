//! Any bytes as an ELF file: refused, or made dense, and the map answers for every address of what was made.
#![no_main]

use bis_rewrite::{DenseLayout, DenseName, DenseOptions, Error, Key, SiteKind, SiteKinds, Text};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = Text::parse(bytes) else { return };
    let key = Key::of_content(&[0; 32]);
    for short_loops in [false, true] {
        let options = DenseOptions { short_loops, hooks: SiteKinds::of(&SiteKind::ALL) };
        let plan = text.dense(options);
        let layout = DenseLayout {
            trampolines: 0x4000_0000,
            counter: 0x7000_1000,
            save: 0x7000_1008,
            hooks: SiteKind::ALL.map(|kind| (kind, 0x7000_2000)).to_vec(),
            hook_save: Some(0x7000_1010),
        };
        let _ = DenseName::of(&key, options, 0, &layout);
        match plan.build(0, &layout) {
            Ok(dense) => {
                for offset in 0..dense.trampolines.len() as u64 + 1 {
                    let _ = dense.map.place(0, layout.trampolines + offset);
                }
            }
            // What the text refers to may be out of reach.
            Err(error) => assert!(matches!(error, Error::TooFar { .. } | Error::TooLarge(_)), "{error}"),
        }
    }
});
