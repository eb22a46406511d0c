//! The connection with a client: packets in, packets out. A thread reads, so that an interrupt is seen while
//! the session is at work.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    sync::mpsc::{self, Receiver},
    thread::{self, JoinHandle},
};

use crate::{
    protocol::packet::{self, Decoder, Item},
    session::Stopper,
};

/// How many packets may wait for the session. Clients wait for the answer to one before they send the next,
/// or send a few ahead; one that sends on and on has to wait, and so does its interrupt.
const WAITING_MAX: usize = 64;

/// See the module's text. Dropping it ends the connection.
pub(super) struct Connection {
    stream: TcpStream,
    /// None at the end only.
    items: Option<Receiver<Item>>,
    reader: Option<JoinHandle<()>>,
    no_ack: bool,
    /// The last packet, should the client want it again.
    last: Vec<u8>,
}

impl Connection {
    /// `begin` is called by the thread that reads, first of all.
    pub(super) fn new(
        stream: TcpStream,
        stopper: Stopper,
        begin: impl FnOnce() + Send + 'static,
    ) -> io::Result<Connection> {
        let mut input = stream.try_clone()?;
        let (tell, items) = mpsc::sync_channel(WAITING_MAX);
        let read = move || {
            begin();
            let mut decoder = Decoder::new();
            let mut buffer = [0; 1 << 14];
            loop {
                let Ok(count @ 1..) = input.read(&mut buffer) else {
                    // Whatever the session is doing is for nobody.
                    stopper.ask();
                    return;
                };
                decoder.feed(&buffer[..count]);
                while let Some(item) = decoder.next_item() {
                    match item {
                        Item::Interrupt => stopper.ask(),
                        // What came before it was for what the client has heard the end of. What comes behind
                        // it is for this, whether the session has begun with it or not.
                        Item::Packet(_) => stopper.forget(),
                        _ => {}
                    }
                    if matches!(&item, Item::Packet(payload) if payload == b"QStartNoAckMode") {
                        decoder.set_no_ack(true);
                    }
                    if tell.send(item).is_err() {
                        return;
                    }
                }
            }
        };
        let reader = thread::Builder::new().name("client".into()).spawn(read)?;
        Ok(Connection { stream, items: Some(items), reader: Some(reader), no_ack: false, last: Vec::new() })
    }

    /// The next packet's payload; none: the client has gone.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let Some(Ok(item)) = self.items.as_ref().map(Receiver::recv) else { return Ok(None) };
            match item {
                Item::Packet(payload) => {
                    if !self.no_ack {
                        self.stream.write_all(b"+")?;
                    }
                    return Ok(Some(payload));
                }
                Item::Nack => self.stream.write_all(&self.last)?,
                Item::BadChecksum | Item::TooLarge if !self.no_ack => self.stream.write_all(b"-")?,
                Item::Ack | Item::Interrupt | Item::BadChecksum | Item::TooLarge => {}
            }
        }
    }

    pub(super) fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        tracing::trace!(reply = %String::from_utf8_lossy(payload), "sent");
        self.last = packet::encode(payload);
        self.stream.write_all(&self.last)
    }

    /// From now on, packets are not acknowledged.
    pub(super) fn set_no_ack(&mut self) {
        self.no_ack = true;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        // The thread may be waiting for room.
        drop(self.items.take());
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
