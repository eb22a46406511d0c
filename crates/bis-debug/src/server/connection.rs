//! The connection with a client: packets in, packets out. A thread reads, so that an interrupt is seen while
//! the session is at work.
//!
//! An interrupt is about the move that the client has asked for last, as it knows it. Where that was over
//! before the interrupt came, for something else, the client may pass over that stop by itself, and its user
//! still waits: so the interrupt is kept, whatever the client reads and sets meanwhile, and its next resume
//! is answered by it. One that comes when the client is told of a stop by an interrupt already has its
//! answer, and so has one that comes before the program was ever let go.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver},
    },
    thread::{self, JoinHandle},
};

use crate::{
    protocol::packet::{self, Decoder, Item},
    session::Stopper,
};

/// How many packets may wait for the session. Clients wait for the answer to one before they send the next,
/// or send a few ahead; one that sends on and on has to wait, and so does its interrupt.
const WAITING_MAX: usize = 64;

/// What the thread that reads and the session's thread both know.
#[derive(Debug)]
struct Asked {
    stopper: Stopper,
    /// Interrupts that were read, and that the session's thread has not come to among the packets.
    ahead: usize,
    /// The session is at work on a move: it is what they stop.
    is_moving: bool,
    /// There will be no more packets. Whatever the session is doing is for nobody.
    is_gone: bool,
}

impl Asked {
    fn lock(this: &Mutex<Asked>) -> MutexGuard<'_, Asked> {
        this.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module's text. Dropping it ends the connection.
pub(super) struct Connection {
    stream: TcpStream,
    /// None at the end only.
    items: Option<Receiver<Item>>,
    reader: Option<JoinHandle<()>>,
    asked: Arc<Mutex<Asked>>,
    /// The client has what it wants of interrupts that come before the next move.
    is_answered: bool,
    /// An interrupt is kept for the next resume.
    is_held: bool,
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
        let asked = Asked { stopper, ahead: 0, is_moving: false, is_gone: false };
        let asked = Arc::new(Mutex::new(asked));
        let its_asked = Arc::clone(&asked);
        let read = move || {
            begin();
            let mut decoder = Decoder::new();
            let mut buffer = [0; 1 << 14];
            loop {
                let Ok(count @ 1..) = input.read(&mut buffer) else {
                    let mut asked = Asked::lock(&its_asked);
                    asked.is_gone = true;
                    asked.stopper.ask();
                    return;
                };
                decoder.feed(&buffer[..count]);
                while let Some(item) = decoder.next_item() {
                    if item == Item::Interrupt {
                        let mut asked = Asked::lock(&its_asked);
                        asked.ahead += 1;
                        if asked.is_moving {
                            asked.stopper.ask();
                        }
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
        Ok(Connection {
            stream,
            items: Some(items),
            reader: Some(reader),
            asked,
            is_answered: true,
            is_held: false,
            no_ack: false,
            last: Vec::new(),
        })
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
                Item::Interrupt => {
                    Asked::lock(&self.asked).ahead -= 1;
                    self.is_held |= !self.is_answered;
                }
                Item::Ack | Item::BadChecksum | Item::TooLarge => {}
            }
        }
    }

    /// The session begins with a move that the client has just asked for. Interrupts that were read already
    /// and are not among the packets yet came behind it: they stop it.
    pub(super) fn begin_move(&mut self) {
        let mut asked = Asked::lock(&self.asked);
        asked.is_moving = true;
        if asked.ahead > 0 {
            asked.stopper.ask();
        }
    }

    /// The move is over; is that the answer to interrupts that come before the next one?
    pub(super) fn end_move(&mut self, is_answered: bool) {
        let mut asked = Asked::lock(&self.asked);
        asked.is_moving = false;
        if !asked.is_gone {
            asked.stopper.forget();
        }
        self.is_answered = is_answered;
    }

    /// Is a resume to be answered by an interrupt that was kept?
    pub(super) fn take_held(&mut self) -> bool {
        std::mem::take(&mut self.is_held)
    }

    /// The user has seen the stop: interrupts that came for the move before have what they were for.
    pub(super) fn forget_held(&mut self) {
        self.is_held = false;
        self.is_answered = true;
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
