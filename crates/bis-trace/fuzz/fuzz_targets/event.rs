//! Any bytes as a message: an error, or an event that can be written and read again as it is.
#![no_main]

use bis_trace::codec::{read_event, read_meta, write_event, write_meta};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(event) = read_event(&mut &*bytes) {
        let mut again = Vec::new();
        write_event(&event, &mut again).expect("what was read can be written");
        assert_eq!(read_event(&mut again.as_slice()).expect("what was written can be read"), event);
    }
    if let Ok(meta) = read_meta(&mut &*bytes) {
        let mut again = Vec::new();
        write_meta(&meta, &mut again).expect("what was read can be written");
        assert_eq!(read_meta(&mut again.as_slice()).expect("what was written can be read"), meta);
    }
});
