//! Packets: how a payload travels as `$payload#checksum`, with acknowledgements and the interrupt byte
//! between packets.
//!
//! [`Decoder`] is fed with bytes in pieces of any size, and yields [`Item`]s; it keeps at most one packet.
//! [`encode`] is the other direction. The escapes of binary data are undone and made here, so a payload is
//! always plain bytes.
//!
//! The protocol allows run lengths (`*`) in replies only. In a request a `*` is itself: a client may put it
//! into a packet of text without an escape. [`Decoder::of_replies`] expands run lengths, for programs that
//! are clients.

use std::collections::VecDeque;

/// The largest payload that is kept, in bytes as they come. It is more than a client ever sends: gdb and LLDB
/// keep to the `PacketSize` that the server gives.
pub const PAYLOAD_MAX: usize = 1 << 20;

/// The byte that asks a running program to stop.
const INTERRUPT: u8 = 3;
const ESCAPE: u8 = b'}';
const ESCAPE_XOR: u8 = 0x20;
/// A run length is its count and this, as one printable character.
const RUN_BASE: u8 = 29;

/// What a decoder has found in the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// A payload, whose checksum is right, or does not count (see [`Decoder::set_no_ack`]).
    Packet(Vec<u8>),
    /// `+`: the last packet has arrived.
    Ack,
    /// `-`: the last packet has to be sent again.
    Nack,
    /// The client wants the program to stop.
    Interrupt,
    /// A packet whose checksum is wrong, and which is to be asked for again (`-`).
    BadChecksum,
    /// A packet with more than [`PAYLOAD_MAX`] bytes, which is lost.
    TooLarge,
}

/// Where the next byte belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Between,
    Payload,
    /// Behind the `}` that says that the next byte is escaped.
    Escaped,
    /// Behind the `*` that says that the next byte is a run length.
    Run,
    Checksum,
    /// The second digit of the checksum; the first is kept.
    Checksum2(u8),
}

/// Makes [`Item`]s of bytes.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    payload: Vec<u8>,
    /// The sum of the bytes as they came.
    sum: u8,
    is_too_large: bool,
    no_ack: bool,
    run_lengths: bool,
    items: VecDeque<Item>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder for what clients send.
    #[must_use]
    pub fn new() -> Decoder {
        Decoder {
            state: State::Between,
            payload: Vec::new(),
            sum: 0,
            is_too_large: false,
            no_ack: false,
            run_lengths: false,
            items: VecDeque::new(),
        }
    }

    /// A decoder for what servers send.
    #[must_use]
    pub fn of_replies() -> Decoder {
        Decoder { run_lengths: true, ..Decoder::new() }
    }

    /// From now on nobody acknowledges packets, and the transport is trusted: checksums do not count.
    pub fn set_no_ack(&mut self, no_ack: bool) {
        self.no_ack = no_ack;
    }

    /// Are packets not acknowledged?
    #[must_use]
    pub fn no_ack(&self) -> bool {
        self.no_ack
    }

    /// Takes bytes. [`Decoder::next_item`] then yields what they complete.
    pub fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.byte(*byte);
        }
    }

    /// The next item, in the order of the bytes; none before more bytes come.
    pub fn next_item(&mut self) -> Option<Item> {
        self.items.pop_front()
    }

    fn byte(&mut self, byte: u8) {
        match self.state {
            State::Between => self.between(byte),
            State::Payload => self.in_payload(byte),
            State::Escaped if byte == b'#' => self.in_payload(byte),
            State::Escaped => {
                self.sum = self.sum.wrapping_add(byte);
                self.keep(byte ^ ESCAPE_XOR, 1);
                self.state = State::Payload;
            }
            State::Run => self.run(byte),
            State::Checksum => self.state = State::Checksum2(byte),
            State::Checksum2(first) => self.finish(first, byte),
        }
    }

    /// Anything that does not begin something is noise, and is skipped.
    fn between(&mut self, byte: u8) {
        let item = match byte {
            b'$' => return self.start(),
            b'+' => Item::Ack,
            b'-' => Item::Nack,
            INTERRUPT => Item::Interrupt,
            _ => return,
        };
        self.items.push_back(item);
    }

    fn start(&mut self) {
        self.state = State::Payload;
        self.payload.clear();
        self.sum = 0;
        self.is_too_large = false;
    }

    fn in_payload(&mut self, byte: u8) {
        match byte {
            b'#' => return self.state = State::Checksum,
            // What came before has lost its end; a packet never holds this byte without an escape.
            b'$' => return self.start(),
            ESCAPE => self.state = State::Escaped,
            b'*' if self.run_lengths && !self.payload.is_empty() => self.state = State::Run,
            _ => self.keep(byte, 1),
        }
        self.sum = self.sum.wrapping_add(byte);
    }

    fn run(&mut self, byte: u8) {
        self.state = State::Payload;
        // Nothing below a space is a run length.
        match (byte.checked_sub(RUN_BASE).filter(|count| *count >= 3), self.payload.last()) {
            (Some(count), Some(last)) if byte < 0x7f && !matches!(byte, b'#' | b'$') => {
                self.sum = self.sum.wrapping_add(byte);
                self.keep(*last, usize::from(count));
            }
            _ => {
                self.keep(b'*', 1);
                self.in_payload(byte);
            }
        }
    }

    fn keep(&mut self, byte: u8, count: usize) {
        if self.payload.len() + count > PAYLOAD_MAX {
            self.is_too_large = true;
        } else if !self.is_too_large {
            self.payload.resize(self.payload.len() + count, byte);
        }
    }

    fn finish(&mut self, first: u8, second: u8) {
        self.state = State::Between;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let told = digit(first).zip(digit(second)).map(|(high, low)| high << 4 | low);
        let payload = std::mem::take(&mut self.payload);
        let item = if self.is_too_large {
            Item::TooLarge
        } else if self.no_ack || told == Some(u32::from(self.sum)) {
            Item::Packet(payload)
        } else {
            Item::BadChecksum
        };
        self.items.push_back(item);
    }
}

/// Does a byte of a payload need an escape?
fn is_special(byte: u8) -> bool {
    matches!(byte, b'#' | b'$' | b'}' | b'*')
}

/// How many bytes of a payload this byte becomes. For servers that fill a packet of the client's size.
#[must_use]
pub fn encoded_len(byte: u8) -> usize {
    1 + usize::from(is_special(byte))
}

/// A payload as a packet, any byte of it escaped that needs to be.
#[must_use]
pub fn encode(payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(payload.len() + 4);
    packet.push(b'$');
    for byte in payload {
        if is_special(*byte) {
            packet.extend([ESCAPE, byte ^ ESCAPE_XOR]);
        } else {
            packet.push(*byte);
        }
    }
    let sum = packet.iter().skip(1).fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    packet.extend(format!("#{sum:02x}").bytes());
    packet
}

#[cfg(test)]
mod tests;
