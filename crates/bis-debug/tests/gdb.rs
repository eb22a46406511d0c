//! The protocol against a real gdb: a server of one thread that does not exist, written with nothing but this
//! crate. gdb says whether it takes our target description and replies, and its compiler of agent expressions
//! says whether we run its bytecode right. Where there is no gdb, nothing is tested, and the test says so.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Command as Process,
    thread,
};

use bis_debug::protocol::{
    Client, Crc, Numbers, ThreadId,
    agent::{Limits, Look, Unreadable, run},
    command::{self, Access, Command, Object, Point},
    packet::{Decoder, Item, encode},
    reply::{self, Errors, Payload, Reason, Stop, ThreadEntry},
    target::{Offsets, Target, Width},
};
use bis_trace::types::{Addr, Registers, Signal, Tid};

const BASE: u64 = 0x1000;

/// The thread, and the client's session.
struct Server {
    target: Target,
    registers: Registers,
    extended: Vec<u8>,
    memory: Vec<u8>,
    points: Vec<Point>,
    errors: Errors,
    id: ThreadId,
}

impl Look for Server {
    fn register(&mut self, number: u16) -> Option<u64> {
        self.target.value(number.into(), &self.registers, &self.extended)
    }

    fn memory(&mut self, addr: Addr, buffer: &mut [u8]) -> Result<(), Unreadable> {
        let len = buffer.len() as u64;
        buffer.copy_from_slice(self.bytes(addr.0, len).ok_or(Unreadable)?);
        Ok(())
    }
}

impl Server {
    fn new() -> Server {
        let registers = Registers {
            rax: 5,
            rip: BASE,
            rsp: BASE + 0x800,
            eflags: 0x246,
            orig_rax: 59,
            ..Registers::default()
        };
        let extended = (0..2696u32).map(|at| if at < 576 { 0 } else { at.to_le_bytes()[0] }).collect();
        let mut memory = vec![0x90; 0x1000];
        memory[0x100..0x106].copy_from_slice(b"bytes\0");
        memory[0x200..0x204].copy_from_slice(b"#$}*");
        let target = Target::new(Width::Bits64, 0x2e7, &Offsets::default());
        let id = ThreadId::full(Tid(1), Tid(1));
        Server { target, registers, extended, memory, points: Vec::new(), errors: Errors::Numbers, id }
    }

    fn bytes(&self, addr: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(addr.checked_sub(BASE)?).ok()?;
        self.memory.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    }

    fn error(&self, sentence: &str) -> Payload {
        self.errors.sentence(sentence)
    }

    fn stop(&self, reason: Option<Reason>) -> Payload {
        Stop { signal: Some(Signal::TRAP), thread: Some(self.id), reason, ..Stop::default() }.payload()
    }

    /// "Runs" to the first breakpoint that counts; output comes first.
    fn resume(&mut self) -> Vec<Payload> {
        let mut replies = Vec::new();
        for point in self.points.clone() {
            self.registers.rip = point.addr.0;
            let mut conditions = point.conditions.iter();
            let limits = Limits::default();
            let counts = point.conditions.is_empty()
                || conditions.any(|code| run(code, self, &limits).expect("gdb's bytecode runs").holds());
            for code in point.commands.iter().filter(|_| counts) {
                let outcome = run(code, self, &limits).expect("gdb's bytecode runs");
                replies.push(reply::console(&outcome.output));
            }
            if counts && point.commands.is_empty() {
                replies.push(self.stop(Some(Reason::SoftwareBreakpoint)));
                return replies;
            }
        }
        replies.push(self.stop(Some(Reason::ReplayEnd)));
        replies
    }

    fn answer(&mut self, command: Command) -> Vec<Payload> {
        let reply = match command {
            Command::Supported(features) => {
                assert!(features.multiprocess() && features.has("swbreak"), "{features:?}");
                assert_eq!(features.client(), Client::Gdb, "{features:?}");
                if features.error_message() {
                    self.errors = Errors::Sentences;
                }
                reply::supported(
                    0x4000,
                    &[
                        "QStartNoAckMode+",
                        "multiprocess+",
                        "swbreak+",
                        "qXfer:features:read+",
                        "qXfer:threads:read+",
                        "ConditionalBreakpoints+",
                        "BreakpointCommands+",
                        "ReverseStep+",
                        "ReverseContinue+",
                        "vContSupported+",
                        "binary-upload+",
                        "error-message+",
                    ],
                )
            }
            Command::StartNoAck | Command::ExtendedMode | Command::IsAlive(_) | Command::Detach { .. } => {
                reply::ok()
            }
            Command::SelectThread(_) | Command::SelectResumed(_) => reply::ok(),
            Command::StopReason => self.stop(None),
            Command::CurrentThread => reply::current_thread(self.id),
            Command::Attached(_) => reply::attached(true),
            Command::ResumeActions => reply::resume_actions(),
            Command::ReadRegisters { .. } => {
                reply::hex(&self.target.read_all(&self.registers, &self.extended))
            }
            Command::ReadRegister { number, .. } => {
                let value = self.target.read(number, &self.registers, &self.extended);
                value.map_or_else(|| self.error("no such register"), |value| reply::hex(&value))
            }
            Command::WriteRegister { number, data, .. } => {
                match self.target.write(number, &data, &mut self.registers, &mut self.extended) {
                    Ok(()) => reply::ok(),
                    Err(error) => self.error(&error.to_string()),
                }
            }
            Command::ReadMemory { addr, len } => {
                self.bytes(addr.0, len).map_or_else(|| self.error("cannot read"), reply::hex)
            }
            Command::ReadMemoryBinary { addr, len } => match self.bytes(addr.0, len) {
                Some(bytes) => reply::memory_binary(bytes, true),
                None => self.error("cannot read"),
            },
            Command::WriteMemory { addr, data } => {
                let start = usize::try_from(addr.saturating_since(Addr(BASE))).expect("64 bits");
                match self.memory.get_mut(start..start + data.len()) {
                    Some(place) if addr >= Addr(BASE) => {
                        place.copy_from_slice(&data);
                        reply::ok()
                    }
                    _ => self.error("cannot write"),
                }
            }
            Command::Checksum { addr, len } => {
                let mut crc = Crc::default();
                crc.add(self.bytes(addr.0, len).unwrap_or_default());
                reply::checksum(crc)
            }
            Command::Search { addr, len, pattern } => {
                let bytes = self.bytes(addr.0, len).unwrap_or_default();
                let at = bytes.windows(pattern.len()).position(|window| window == pattern);
                reply::found(at.map(|at| addr + at as u64))
            }
            Command::InsertPoint(point) => {
                self.points.retain(|old| (old.kind, old.addr) != (point.kind, point.addr));
                self.points.push(point);
                reply::ok()
            }
            Command::RemovePoint { kind, addr, .. } => {
                self.points.retain(|old| (old.kind, old.addr) != (kind, addr));
                reply::ok()
            }
            Command::Resume(_) => return self.resume(),
            Command::ReverseContinue => {
                self.registers.rip = BASE;
                self.stop(Some(Reason::ReplayBegin))
            }
            Command::ReverseStep => {
                self.registers.rip -= 1;
                self.stop(None)
            }
            Command::Monitor(line) => {
                return vec![reply::console(format!("you said {line}\n").as_bytes()), reply::ok()];
            }
            Command::Transfer(transfer) => match (transfer.object, transfer.access) {
                (Object::Features, Access::Read { offset, len }) => {
                    let file = self.target.xml(&transfer.annex).expect("gdb asks for files that there are");
                    reply::chunk(file.as_bytes(), offset, len)
                }
                (Object::Threads, Access::Read { offset, len }) => {
                    let name = Some("the <thread>".to_owned());
                    let entry = ThreadEntry { id: self.id, core: None, name, note: "note".to_owned() };
                    reply::chunk(reply::threads_xml(&[entry]).as_bytes(), offset, len)
                }
                _ => reply::empty(),
            },
            _ => reply::empty(),
        };
        vec![reply]
    }

    fn serve(mut self, mut stream: TcpStream) {
        let mut decoder = Decoder::new();
        let mut bytes = [0; 1000];
        while let Ok(len @ 1..) = stream.read(&mut bytes) {
            decoder.feed(&bytes[..len]);
            while let Some(item) = decoder.next_item() {
                let Item::Packet(payload) = item else { continue };
                let mut send = |bytes: &[u8]| {
                    let _ = stream.write_all(bytes);
                };
                if !decoder.no_ack() {
                    send(b"+");
                }
                let command = command::parse(&payload, Numbers::Gdb).expect("gdb's packets parse");
                if command == Command::StartNoAck {
                    decoder.set_no_ack(true);
                }
                for reply in self.answer(command) {
                    send(&encode(&reply));
                }
            }
        }
    }
}

/// What gdb prints when it runs these commands in a session.
fn gdb(commands: &[&str]) -> Option<String> {
    if Process::new("gdb").arg("--version").output().is_err() {
        eprintln!("skipped: there is no gdb here");
        return None;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let connect = format!("target extended-remote {}", listener.local_addr().expect("has one"));
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("gdb connects");
        stream.set_nodelay(true).expect("a socket");
        Server::new().serve(stream);
    });
    let mut process = Process::new("gdb");
    process.args(["-nx", "-batch", "-ex", &connect]);
    for command in commands {
        process.args(["-ex", command]);
    }
    let output = process.output().expect("gdb runs");
    server.join().expect("the server understands gdb");
    Some(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
}

#[track_caller]
fn check(commands: &[&str], expected: &[&str]) {
    let Some(said) = gdb(commands) else { return };
    for line in expected {
        assert!(said.contains(line), "{line:?} is not in:\n{said}");
    }
}

#[test]
fn gdb_reads_and_writes_registers() {
    check(
        &[
            "p/x $rip",
            "p $eflags",
            "p $orig_rax",
            "p/x $fctrl",
            "p/x $mxcsr",
            "p $ftag",
            "p/x $zmm17.v8_int64[5]",
            "p/x $ymm1.v4_int64[3]",
            "p/x $zmm1.v8_int64[4]",
            "p/x $k1",
            "p/x $pkru",
            "set var $xmm1.v4_int32[2] = 77",
            "p $xmm1.v4_int32",
            "set var $rax = 99",
            "p $rax",
            "set var $st1 = 1.5",
            "p $st1",
            "info registers rip",
        ],
        &[
            "$1 = 0x1000\n",
            "$2 = [ PF ZF IF ]\n",
            "$3 = 59\n",
            "$4 = 0x0\n",
            // Offset 1664 + 64 + 40 of the extended state, whose bytes are their offsets.
            "$7 = 0xefeeedecebeae9e8\n",
            "$8 = 0x5f5e5d5c5b5a5958\n",
            "$9 = 0xa7a6a5a4a3a2a1a0\n",
            "$10 = 0x4f4e4d4c4b4a4948\n",
            "$11 = 0x83828180\n",
            "$12 = {0, 0, 77, 0}\n",
            "$13 = 99\n",
            "$14 = 1.5\n",
        ],
    );
}

#[test]
fn gdb_reads_and_writes_memory() {
    check(
        &[
            "x/s 0x1100",
            "x/4xb 0x1200",
            "set var *(char*)0x1100 = 35",
            "x/s 0x1100",
            "x/b 0x5000",
            "find 0x1000, 0x1fff, 'y', 't'",
            "monitor hello there",
            "info threads",
        ],
        &[
            "0x1100:\t\"bytes\"",
            "0x1200:\t0x23\t0x24\t0x7d\t0x2a",
            "0x1100:\t\"#ytes\"",
            "Cannot access memory at address 0x5000",
            "0x1101\n",
            "you said hello there\n",
            "Thread 1.1 \"the <thread>\" (note)",
        ],
    );
}

#[test]
fn gdb_conditions_and_commands_are_run_here() {
    check(
        &[
            "set breakpoint condition-evaluation target",
            "set dprintf-style agent",
            "dprintf *0x1004,\"rax %d, %s %c %#lx\\n\", $rax * 2, (char*)0x1100, 65, $rsp",
            "break *0x1005 if $rax == 6",
            "break *0x1006 if $rax > 4 && *(char*)($rip + 0xfa) == 'b' && $rax % 2 != 0",
            "break *0x1007",
            "continue",
            "p/x $rip",
            "reverse-stepi",
            "p/x $rip",
            "reverse-continue",
            "p/x $rip",
            "detach",
        ],
        &[
            "rax 10, bytes A 0x1800\n",
            "$1 = 0x1006\n",
            "$2 = 0x1005\n",
            "No more reverse-execution history",
            "$3 = 0x1000\n",
        ],
    );
}
