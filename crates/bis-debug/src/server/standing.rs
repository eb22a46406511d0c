//! A process that stands and goes no further, shown to a debugger: one with which a recording has failed. It
//! can be looked at, and that is all.

use std::{io, net::TcpStream, path::PathBuf};

use bis_trace::types::{Addr, Registers, Signal, Tid};
use bis_tracee::cpu;

use super::connection::Connection;
use crate::{
    protocol::{
        Numbers, ThreadId, Which,
        command::{self, Access, Command, Object, Transfer},
        reply::{self, Errors, Stop, ThreadEntry, threads_xml},
        target::{Target, Targets},
    },
    session::{Stopper, offsets},
};

/// The largest packet that a client may send.
const PACKET_SIZE: usize = 1 << 16;

/// The most that is read of memory by one packet.
const READ_MAX: u64 = 1 << 18;

const FEATURES: [&str; 7] = [
    "QStartNoAckMode+",
    "swbreak+",
    "vContSupported+",
    "qXfer:features:read+",
    "qXfer:auxv:read+",
    "qXfer:threads:read+",
    "qXfer:exec-file:read+",
];

/// What it stands for.
const ABORT: Signal = Signal(6);

const NO_FURTHER: &str = "the process stands where the recording has failed, and goes no further";

/// What is shown.
pub trait Standing {
    /// Its tasks, of which the first is the one that it is about.
    fn tasks(&self) -> Vec<Tid>;

    /// A task's general registers and its extended state, in the kernel's layout.
    fn registers(&self, tid: Tid) -> Option<(Registers, Vec<u8>)>;

    /// As much of the memory from an address on as is mapped without a gap.
    fn read(&self, addr: Addr, len: usize) -> Vec<u8>;

    fn auxv(&self) -> Vec<u8>;

    fn executable(&self) -> Option<PathBuf>;
}

/// Answers a client until it leaves.
pub(super) fn serve(standing: &dyn Standing, stream: TcpStream) -> io::Result<()> {
    let mut connection = Connection::new(stream, Stopper::default(), || {})?;
    let tasks = standing.tasks();
    let mut client = Client {
        standing,
        first: tasks.first().copied().unwrap_or(Tid(1)),
        tasks,
        general: None,
        targets: Targets::new(cpu::xcr0(), &offsets()),
        errors: Errors::Numbers,
    };
    while let Some(payload) = connection.next()? {
        let reply = match command::parse(&payload, Numbers::Gdb) {
            Ok(Command::StartNoAck) => {
                connection.send(&reply::ok())?;
                connection.set_no_ack();
                continue;
            }
            Ok(Command::Kill(_)) => return Ok(()),
            Ok(Command::Detach { .. }) => return connection.send(&reply::ok()),
            Ok(
                Command::Resume(_)
                | Command::ResumeSelected { .. }
                | Command::ReverseContinue
                | Command::ReverseStep,
            ) => {
                connection.send(&reply::console(format!("{NO_FURTHER}\n").as_bytes()))?;
                client.stop()
            }
            Ok(command) => client.reply(command),
            Err(malformed) => client.errors.sentence(&malformed.to_string()),
        };
        connection.send(&reply)?;
    }
    Ok(())
}

struct Client<'a> {
    standing: &'a dyn Standing,
    tasks: Vec<Tid>,
    first: Tid,
    /// Whose registers are read.
    general: Option<Tid>,
    targets: Targets,
    errors: Errors,
}

impl Client<'_> {
    fn stop(&self) -> Vec<u8> {
        let thread = Some(ThreadId::plain(self.first));
        Stop { signal: Some(ABORT), thread, ..Stop::default() }.payload()
    }

    fn known(&self, thread: ThreadId) -> Option<Tid> {
        match thread.thread {
            Which::One(tid) => self.tasks.contains(&tid).then_some(tid),
            Which::All | Which::Any => Some(self.first),
        }
    }

    fn registers(&self, thread: Option<ThreadId>) -> Option<(Registers, Vec<u8>)> {
        let tid = match thread {
            Some(thread) => self.known(thread)?,
            None => self.general.unwrap_or(self.first),
        };
        self.standing.registers(tid)
    }

    /// The registers that the threads have.
    fn target(&self) -> &Target {
        let registers = self.registers(None).map(|(registers, _)| registers);
        self.targets.of(&registers.unwrap_or_default())
    }

    fn read(&self, addr: Addr, len: u64) -> Vec<u8> {
        self.standing.read(addr, usize::try_from(len.min(READ_MAX)).unwrap_or(0))
    }

    fn reply(&mut self, command: Command) -> Vec<u8> {
        match command {
            Command::Supported(features) => {
                if features.error_message() {
                    self.errors = Errors::Sentences;
                }
                reply::supported(PACKET_SIZE, &FEATURES)
            }
            Command::StopReason => self.stop(),
            Command::Attached(_) => reply::attached(true),
            Command::SelectThread(thread) => match self.known(thread) {
                Some(tid) => {
                    self.general = Some(tid);
                    reply::ok()
                }
                None => self.errors.sentence("there is no such thread here"),
            },
            Command::SelectResumed(_) | Command::SymbolsReady | Command::ExtendedMode => reply::ok(),
            Command::IsAlive(thread) => match self.known(thread) {
                Some(_) => reply::ok(),
                None => self.errors.sentence("there is no such thread here"),
            },
            Command::CurrentThread => reply::current_thread(ThreadId::plain(self.first)),
            Command::FirstThreads => {
                reply::threads(&self.tasks.iter().copied().map(ThreadId::plain).collect::<Vec<_>>())
            }
            Command::MoreThreads => reply::threads(&[]),
            Command::ReadRegisters { thread } => match self.registers(thread) {
                Some((registers, extended)) => reply::hex(&self.target().read_all(&registers, &extended)),
                None => reply::unavailable(self.target().block_len()),
            },
            Command::ReadRegister { number, thread } => {
                let Some(len) = self.target().register(number).map(|register| register.len) else {
                    return self.errors.sentence("there is no such register");
                };
                let found = self.registers(thread);
                let value =
                    found.and_then(|(registers, extended)| self.target().read(number, &registers, &extended));
                value.map_or_else(|| reply::unavailable(len), |value| reply::hex(&value))
            }
            Command::ReadMemory { addr, len } => match self.read(addr, len) {
                bytes if bytes.is_empty() && len > 0 => self.errors.error(14, "nothing is mapped there"),
                bytes => reply::hex(&bytes),
            },
            Command::ReadMemoryBinary { addr, len } => match self.read(addr, len) {
                bytes if bytes.is_empty() && len > 0 => self.errors.error(14, "nothing is mapped there"),
                bytes => reply::memory_binary(&bytes, true),
            },
            Command::WriteMemory { .. } | Command::WriteRegister { .. } | Command::WriteRegisters { .. } => {
                self.errors.sentence(NO_FURTHER)
            }
            Command::InsertPoint(_) | Command::RemovePoint { .. } => reply::ok(),
            Command::ResumeActions => reply::resume_actions(),
            Command::Transfer(transfer) => self.transfer(&transfer),
            _ => reply::empty(),
        }
    }

    fn transfer(&self, transfer: &Transfer) -> Vec<u8> {
        let Access::Read { offset, len } = transfer.access else {
            return self.errors.sentence("this cannot be written");
        };
        let entry = |tid: &Tid| ThreadEntry {
            id: ThreadId::plain(*tid),
            core: None,
            name: None,
            note: String::new(),
        };
        let object = match &transfer.object {
            Object::Features => self.target().xml(&transfer.annex).map(|text| text.as_bytes().to_vec()),
            Object::Auxv => Some(self.standing.auxv()),
            Object::Threads => {
                Some(threads_xml(&self.tasks.iter().map(entry).collect::<Vec<_>>()).into_bytes())
            }
            Object::ExecFile => {
                self.standing.executable().map(|path| path.into_os_string().into_encoded_bytes())
            }
            _ => return reply::empty(),
        };
        match object {
            Some(object) => reply::chunk(&object, offset, len),
            None => self.errors.sentence("there is nothing of that kind here"),
        }
    }
}
