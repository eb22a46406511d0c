//! Tests of [`super`].

use proptest::prelude::*;

use super::*;

fn decode(mut decoder: Decoder, chunks: &[&[u8]]) -> Vec<Item> {
    for chunk in chunks {
        decoder.feed(chunk);
    }
    std::iter::from_fn(|| decoder.next_item()).collect()
}

fn packet(payload: &[u8]) -> Item {
    Item::Packet(payload.to_vec())
}

#[test]
fn packets_and_what_is_between_them() {
    let check = |bytes: &[u8], expected: &[Item]| assert_eq!(decode(Decoder::new(), &[bytes]), expected);
    check(b"$#00", &[packet(b"")]);
    check(b"+$g#67", &[Item::Ack, packet(b"g")]);
    check(b"$g#68$g#67", &[Item::BadChecksum, packet(b"g")]);
    check(b"$g#zz", &[Item::BadChecksum]);
    check(b"-noise\x03+", &[Item::Nack, Item::Interrupt, Item::Ack]);
    check(b"$half$g#67", &[packet(b"g")]);
    check(b"$g#6", &[]);
    check(b"$X1,1:}\x03#a0", &[packet(b"X1,1:#")]);
    check(b"$X1,1:\x03#23", &[packet(b"X1,1:\x03")]);
    check(b"$a*b#ed", &[packet(b"a*b")]);
    // An escape without its byte is nothing; the packet still ends.
    check(b"$a}#de$g#67", &[packet(b"a"), packet(b"g")]);
}

#[test]
fn run_lengths_of_replies() {
    let check = |bytes: &[u8], expected: &[u8]| {
        let mut decoder = Decoder::of_replies();
        decoder.set_no_ack(true);
        assert_eq!(decode(decoder, &[bytes]), [packet(expected)]);
    };
    check(b"$0* #7a", b"0000");
    check(b"$x0*\"1#00", b"x0000001");
    check(b"$*a#00", b"*a");
    check(b"$0*\x01#00", b"0*\x01");
    check(b"$0*#00", b"0*");
}

#[test]
fn no_ack_mode_ignores_checksums() {
    let mut decoder = Decoder::new();
    decoder.set_no_ack(true);
    assert_eq!(decode(decoder, &[b"$g#00"]), [packet(b"g")]);
}

#[test]
fn a_packet_that_is_too_large_is_dropped() {
    let check = |len: usize, expected: Item| {
        let bytes = [b"$".as_slice(), &vec![b'a'; len], b"#00$g#67"].concat();
        let mut decoder = Decoder::new();
        decoder.set_no_ack(true);
        decoder.feed(&bytes);
        assert!(decoder.payload.capacity() <= 2 * PAYLOAD_MAX);
        let items: Vec<Item> = std::iter::from_fn(|| decoder.next_item()).collect();
        assert!(items == [expected, packet(b"g")], "{len}");
    };
    check(PAYLOAD_MAX, Item::Packet(vec![b'a'; PAYLOAD_MAX]));
    check(PAYLOAD_MAX + 1, Item::TooLarge);
    check(3 * PAYLOAD_MAX, Item::TooLarge);
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..6),
        size in 1usize..40,
    ) {
        let bytes: Vec<u8> = payloads.iter().flat_map(|payload| encode(payload)).collect();
        let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
        let expected: Vec<Item> = payloads.iter().map(|payload| packet(payload)).collect();
        prop_assert_eq!(&decode(Decoder::new(), &chunks), &expected);
        prop_assert_eq!(&decode(Decoder::of_replies(), &chunks), &expected);
        for payload in &payloads {
            let len: usize = payload.iter().map(|byte| encoded_len(*byte)).sum();
            prop_assert_eq!(encode(payload).len(), len + 4);
        }
    }

    #[test]
    fn any_bytes_in_any_pieces_give_the_same(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"$#}*+-\x03a0".to_vec())], 0..200),
        size in 1usize..40,
    ) {
        let whole = decode(Decoder::of_replies(), &[&bytes]);
        let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
        prop_assert_eq!(decode(Decoder::of_replies(), &chunks), whole);
    }
}
