//! Any bytes from a client: items, whose payloads are commands or errors, and travel back as they are.
#![no_main]

use bis_debug::protocol::{
    Numbers,
    command::{self, Command},
    packet::{Decoder, Item, encode},
    reply::Errors,
};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for mut decoder in [Decoder::new(), Decoder::of_replies()] {
        // Without checksums, most of what is tried comes through.
        decoder.set_no_ack(true);
        decoder.feed(bytes);
        while let Some(item) = decoder.next_item() {
            let Item::Packet(payload) = item else { continue };
            look(&payload);
            let mut again = Decoder::new();
            again.feed(&encode(&payload));
            assert_eq!(again.next_item(), Some(Item::Packet(payload)));
        }
    }
    look(bytes);
});

fn look(payload: &[u8]) {
    match command::parse(payload, Numbers::Gdb) {
        Ok(Command::WriteMemory { data, .. }) => assert!(data.len() <= payload.len()),
        Ok(_) => {}
        Err(error) => assert!(Errors::Sentences.sentence(&error.to_string()).starts_with(b"E.malformed")),
    }
}
