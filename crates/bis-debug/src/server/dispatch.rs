//! One client and its session: every command is answered here, or sent to the module that knows the answer.

use std::{collections::BTreeSet, io, net::TcpStream};

use bis_trace::types::{Addr, Signal, Tid};

use super::{connection::Connection, files::Files, served::Served};
use crate::{
    options::Options,
    protocol::{
        Crc, Features, ThreadId, Which,
        command::{self, Access, Action, Command, Object, Point, SyscallCatch, ThreadAction, Transfer},
        reply::{self, Errors},
    },
    session::{Catch, Session, Why},
};

/// The largest packet that a client may send.
const PACKET_SIZE: usize = 1 << 19;

/// The most that is read of memory by one packet.
const READ_MAX: u64 = 1 << 18;

const FEATURES: [&str; 25] = [
    "QStartNoAckMode+",
    "multiprocess+",
    "swbreak+",
    "hwbreak+",
    "vContSupported+",
    "ReverseContinue+",
    "ReverseStep+",
    "ConditionalBreakpoints+",
    "BreakpointCommands+",
    "QPassSignals+",
    "QCatchSyscalls+",
    "QThreadEvents+",
    "fork-events+",
    "vfork-events+",
    "exec-events+",
    "no-resumed+",
    "qXfer:features:read+",
    "qXfer:auxv:read+",
    "qXfer:threads:read+",
    "qXfer:exec-file:read+",
    "qXfer:siginfo:read+",
    "qXfer:siginfo:write+",
    "qXfer:osdata:read+",
    "qXfer:libraries-svr4:read+",
    "augmented-libraries-svr4-read+",
];

/// The most that is watched by one watchpoint: what is there is kept, to be compared.
const WATCH_MAX: u64 = 1 << 30;

/// A symbol of glibc's, made for libthread_db: where in the description of a loaded library the number of its
/// thread-local variables is.
const MODULE_DESCRIPTOR: &str = "_thread_db_link_map_l_tls_modid";

/// The register that says in which system call a thread is.
const ORIG_RAX: u64 = 57;
/// What makes the C library write what its streams hold, which is shown of functions that are called.
const FFLUSH: &str = "fflush";

const NO_THREAD: &str = "there is no such thread here";
const NOT_MAPPED: &str = "nothing is mapped there";

/// What is answered.
pub(super) enum Answer {
    Reply(Vec<u8>),
    /// Text for the user's console, which the client shows as it comes, and then that all is well.
    Shown(String),
    /// The client leaves, or wants the session to end.
    Leave(Option<Vec<u8>>),
}

/// Answers a client until it leaves.
pub(super) fn serve(session: Session<'_>, stream: TcpStream, options: &Options) -> io::Result<()> {
    let mut connection = Connection::new(stream, session.stopper(), session.free_threads())?;
    let mut client = Served::new(session, Files::new(options.serve_files));
    while let Some(payload) = connection.next()? {
        tracing::trace!(packet = %String::from_utf8_lossy(&payload), "got");
        let answer = match command::parse(&payload, client.numbers()) {
            Ok(Command::StartNoAck) => {
                connection.send(&reply::ok())?;
                connection.set_no_ack();
                continue;
            }
            // In front of the end of a vfork, which gdb waits for without its breakpoints, it is kept on.
            Ok(command) if command.is_resume() && !client.waits_for_vfork && connection.take_held() => {
                let reply = client.stay_interrupted(&command);
                connection.end_move(true);
                Answer::Reply(reply)
            }
            Ok(command) if command.is_resume() || command.is_run() => {
                if command.is_run() {
                    connection.forget_held();
                }
                connection.begin_move();
                let answer = client.answer(command);
                // LLDB waits for a second stop by itself where the first one was not by its interrupt, and
                // would take a later one for the user's.
                connection.end_move(client.is_lldb() || client.last.why == Why::Interrupted);
                answer
            }
            Ok(command) => client.answer(command),
            Err(malformed) => Answer::Reply(client.errors.sentence(&malformed.to_string())),
        };
        if std::mem::take(&mut client.has_prompt) {
            connection.forget_held();
        }
        // Only there does a client expect news: in the place of any other answer it would take them for that.
        if std::mem::take(&mut client.has_resumed) {
            while let Some(news) = client.session.take_news() {
                connection.send(&reply::console(&news))?;
            }
        }
        match answer {
            Answer::Reply(reply) => connection.send(&reply)?,
            Answer::Shown(text) => {
                connection.send(&reply::console(text.as_bytes()))?;
                connection.send(&reply::ok())?;
            }
            Answer::Leave(reply) => {
                if let Some(reply) = reply {
                    connection.send(&reply)?;
                }
                return Ok(());
            }
        }
    }
    Ok(())
}

impl<'t> Served<'t> {
    fn answer(&mut self, command: Command) -> Answer {
        let reply = match command {
            Command::Kill(None) => return Answer::Leave(None),
            Command::Kill(Some(_)) => reply::ok(),
            Command::Detach { process, .. } => {
                let is_other = process.is_some_and(|process| process != self.pid());
                if is_other || process.is_some() && self.follow_child() {
                    reply::ok()
                } else {
                    self.session.let_program_go();
                    return Answer::Leave(Some(reply::ok()));
                }
            }
            // Of an answer with text in it, LLDB shows the digits.
            Command::Monitor(request) if self.is_lldb() => return Answer::Shown(self.monitor(&request)),
            command => self.reply(command),
        };
        Answer::Reply(reply)
    }

    fn reply(&mut self, command: Command) -> Vec<u8> {
        match command {
            Command::Supported(features) => self.supported(features),
            Command::ExtendedMode
            | Command::ProgramSignals(_)
            | Command::SetWorkingDir(_)
            | Command::DisableRandomization(_)
            | Command::StartupWithShell(_)
            | Command::Environment(_) => reply::ok(),
            Command::SymbolsReady => self.ask_for_symbols(),
            Command::Symbol { name, value } => self.hear_symbol(&name, value),
            Command::NonStop(true) => self.errors.sentence("non-stop mode is not supported"),
            Command::NonStop(false) => reply::ok(),
            Command::StopReason => self.stop_reply(),
            Command::Attached(_) => reply::attached(false),
            Command::SelectThread(thread) => self.select(thread, true),
            Command::SelectResumed(thread) => self.select(thread, false),
            Command::IsAlive(thread) => match self.known(thread) {
                Some(tid) => {
                    self.asks_for(tid);
                    reply::ok()
                }
                None => self.errors.sentence(NO_THREAD),
            },
            Command::CurrentThread => reply::current_thread(self.thread(self.session.tid())),
            Command::FirstThreads => self.threads(),
            Command::MoreThreads => reply::threads(&[]),
            Command::ThreadExtraInfo(thread) => {
                let note = self.known(thread).map(|tid| self.session.note(tid)).unwrap_or_default();
                reply::hex(note.as_bytes())
            }
            Command::TlsAddress { thread, offset, map } => self.tls_address(thread, offset, map),
            Command::Offsets | Command::NextStop => reply::empty(),
            Command::ThreadEvents(on) => {
                self.session.tells_threads = on;
                reply::ok()
            }
            Command::ReadRegisters { thread } => self.read_registers(thread),
            Command::ReadRegister { number, thread } => self.read_register(number, thread),
            // Behind `run`, gdb says where the program is to go on, as if it were in no call: nobody asks for
            // that, and it is read anew.
            Command::WriteRegister { number: ORIG_RAX, data, .. }
                if self.memory.has_just_run && data.iter().all(|byte| *byte == 0xff) =>
            {
                reply::ok()
            }
            Command::WriteRegisters { data, thread } => self.write_registers(thread, &data),
            Command::WriteRegister { number, data, thread } => self.write_register(number, thread, &data),
            Command::ReadMemory { addr, len } => self.read_memory(addr, len, reply::hex),
            // LLDB's question whether this packet is known.
            Command::ReadMemoryBinary { len: 0, .. } if self.is_lldb() => reply::ok(),
            Command::ReadMemoryBinary { addr, len } => {
                let is_gdb = !self.is_lldb();
                self.read_memory(addr, len, |bytes| reply::memory_binary(bytes, is_gdb))
            }
            Command::WriteMemory { addr, data } => self.write_memory(addr, &data),
            Command::Search { addr, len, pattern } => reply::found(self.session.find(addr, len, &pattern)),
            Command::Checksum { addr, len } => self.checksum(addr, len),
            Command::InsertPoint(point) => self.insert_point(point),
            Command::RemovePoint { kind, addr, size } => {
                if !self.is_elsewhere() {
                    self.session.points.remove(kind, addr, size);
                }
                reply::ok()
            }
            Command::ResumeActions => reply::resume_actions(),
            Command::Resume(actions) => self.resume(&actions),
            Command::ResumeSelected { action, .. } => {
                let threads = self.resumed.map(|tid| self.thread(tid));
                self.resume(&[ThreadAction { action, threads }])
            }
            Command::ReverseContinue => {
                let search = self.memory.search.clone();
                self.stay_behind_exec().unwrap_or_else(|| {
                    self.backwards(|session| match search {
                        Some((was_at, tid)) => session.reverse_to_change(&was_at, tid),
                        None => session.reverse(),
                    })
                })
            }
            Command::ReverseStep => {
                if let Some(reply) = self.pretend_step_back() {
                    return reply;
                }
                let tid = self.steps_back();
                self.stay_behind_exec().unwrap_or_else(|| self.step_back(tid))
            }
            Command::Run { arguments, .. } => self.run(&arguments),
            Command::Restart => self.run(&[]),
            Command::File(request) => self.files.answer(request, &self.session),
            Command::Transfer(transfer) => self.transfer(&transfer),
            Command::Monitor(request) => reply::hex(self.monitor(&request).as_bytes()),
            Command::RrCommand { name, thread, arguments } => {
                reply::hex(self.rr_command(&name, thread, &arguments).as_bytes())
            }
            Command::PassSignals(signals) => {
                self.session.passed_signals = signals.into_iter().collect::<BTreeSet<Signal>>();
                // While gdb steps over a breakpoint, it wants to hear of all signals of that thread alone.
                if !self.session.passed_signals.is_empty() {
                    self.passed_mostly.clone_from(&self.session.passed_signals);
                }
                reply::ok()
            }
            Command::CatchSyscalls(catch) => self.catch_calls(catch),
            Command::Lldb(command) => self.lldb(command),
            Command::Unknown
            | Command::MustReplyEmpty
            | Command::StartNoAck
            | Command::Kill(_)
            | Command::Detach { .. }
            | Command::Attach(_)
            | Command::Interrupt
            | Command::ThreadOptions(_)
            | Command::Agent(_) => reply::empty(),
        }
    }

    /// The client can be asked where symbols are. LLDB finds the variables of threads by itself.
    fn ask_for_symbols(&self) -> Vec<u8> {
        match self.module_descriptor {
            _ if self.is_lldb() => reply::ok(),
            None => reply::symbol(MODULE_DESCRIPTOR),
            Some(_) => reply::symbol(FFLUSH),
        }
    }

    /// The client says what is at a symbol, or that there is none of that name; what to ask for next.
    fn hear_symbol(&mut self, name: &str, value: Option<u64>) -> Vec<u8> {
        if name == MODULE_DESCRIPTOR {
            self.module_descriptor = value.or(self.module_descriptor);
            return reply::symbol(FFLUSH);
        }
        if name == FFLUSH {
            self.session.set_fflush(value.map(Addr));
        }
        reply::ok()
    }

    fn threads(&self) -> Vec<u8> {
        let threads: Vec<ThreadId> = self.session.threads().into_iter().map(|tid| self.thread(tid)).collect();
        reply::threads(&threads)
    }

    /// Where a thread has a thread-local variable.
    fn tls_address(&self, thread: ThreadId, offset: u64, map: u64) -> Vec<u8> {
        let module = match (map, self.module_descriptor) {
            (0, _) => Some(1),
            (_, Some(descriptor)) => self.session.tls_module(map, descriptor),
            (_, None) => None,
        };
        let tid = self.known(thread);
        let of_musl = tid.and_then(|tid| self.session.musl_tls(tid, map));
        let of_glibc = || module.zip(tid).and_then(|(module, tid)| self.session.tls(tid, module));
        match of_musl.or_else(of_glibc) {
            Some(addr) => reply::number(addr.wrapping_add(offset)),
            None => self.errors.sentence("the thread has no such variable yet"),
        }
    }

    fn read_memory(&self, addr: Addr, len: u64, reply: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
        match self.session.read_memory(addr, len.min(READ_MAX)) {
            bytes if bytes.is_empty() && len > 0 => self.errors.error(14, NOT_MAPPED),
            bytes => reply(&bytes),
        }
    }

    fn checksum(&self, addr: Addr, len: u64) -> Vec<u8> {
        let bytes = self.session.read_memory(addr, len);
        if bytes.len() as u64 != len {
            return self.errors.error(14, NOT_MAPPED);
        }
        let mut crc = Crc::default();
        crc.add(&bytes);
        reply::checksum(crc)
    }

    fn insert_point(&mut self, point: Point) -> Vec<u8> {
        if !point.kind.is_breakpoint() && point.size > WATCH_MAX {
            return self.errors.sentence("a watchpoint cannot be larger than 1 GiB");
        }
        if !self.is_elsewhere() {
            self.session.insert_point(point);
        }
        reply::ok()
    }

    fn catch_calls(&mut self, catch: SyscallCatch) -> Vec<u8> {
        self.session.caught_calls = match catch {
            SyscallCatch::None => Catch::None,
            SyscallCatch::All => Catch::All,
            SyscallCatch::Only(calls) => Catch::These(calls.into_iter().collect()),
        };
        reply::ok()
    }

    fn supported(&mut self, features: Features) -> Vec<u8> {
        if features.error_message() {
            self.errors = Errors::Sentences;
        }
        self.features = features;
        if self.is_lldb() {
            reply::supported(PACKET_SIZE, &super::lldb::FEATURES)
        } else {
            reply::supported(PACKET_SIZE, &FEATURES)
        }
    }

    /// Is the client busy with a process that is not the session's (one that was forked, which it lets go)?
    fn is_elsewhere(&self) -> bool {
        self.memory.is_elsewhere
    }

    fn select(&mut self, thread: ThreadId, is_general: bool) -> Vec<u8> {
        let elsewhere = matches!(thread.process, Some(Which::One(pid)) if pid != self.pid());
        if is_general {
            self.memory.is_elsewhere = elsewhere;
        }
        if elsewhere {
            return reply::ok();
        }
        let selected = match thread.thread {
            Which::One(_) => match self.known(thread) {
                Some(tid) => Some(tid),
                None => return self.errors.sentence(NO_THREAD),
            },
            Which::All | Which::Any => None,
        };
        *(if is_general { &mut self.general } else { &mut self.resumed }) = selected;
        reply::ok()
    }

    fn read_registers(&mut self, thread: Option<ThreadId>) -> Vec<u8> {
        let found = self.whose(thread).and_then(|tid| self.session.registers(tid));
        match found {
            Some((registers, extended)) => reply::hex(&self.session.target().read_all(&registers, &extended)),
            None => reply::unavailable(self.session.target().block_len()),
        }
    }

    fn read_register(&mut self, number: u64, thread: Option<ThreadId>) -> Vec<u8> {
        let Some(register) = self.session.target().register(number) else {
            return self.errors.sentence("there is no such register");
        };
        let len = register.len;
        let found = self.whose(thread).and_then(|tid| self.session.registers(tid));
        let value =
            found.and_then(|(registers, extended)| self.session.target().read(number, &registers, &extended));
        value.map_or_else(|| reply::unavailable(len), |value| reply::hex(&value))
    }

    /// An interrupt came when the program had stopped for something else, which the client has passed over:
    /// it stays where it is.
    fn stay_interrupted(&mut self, command: &Command) -> Vec<u8> {
        self.has_resumed = true;
        self.memory.target = None;
        let stepped = match command {
            Command::Resume(actions) => self.stepped(actions).map(|(tid, _)| tid),
            _ => self.resumed,
        };
        let tid = stepped.unwrap_or(self.session.tid());
        let report = self.session.stay(tid);
        self.tell(report)
    }

    /// The task that is to make a step, and the range that it is to leave.
    fn stepped(&self, actions: &[ThreadAction]) -> Option<(Tid, Option<(Addr, Addr)>)> {
        let pid = self.pid();
        let current = self.session.tid();
        actions.iter().find_map(|action| {
            let range = match action.action {
                Action::Step(_) => None,
                Action::StepRange { start, end } => Some((start, end)),
                _ => return None,
            };
            let tid = match action.threads {
                None => current,
                Some(thread) => match thread.thread {
                    Which::One(tid) => tid,
                    _ => current,
                },
            };
            let is_here = action.threads.is_none_or(|thread| thread.includes(pid, tid, pid));
            is_here.then_some((tid, range))
        })
    }

    /// The actions of a `vCont`.
    fn resume(&mut self, actions: &[ThreadAction]) -> Vec<u8> {
        self.has_resumed = true;
        if let Some(reply) = self.vfork_done().or_else(|| self.go_to_target()) {
            return reply;
        }
        let stepped = self.stepped(actions);
        let is_one = |action: &ThreadAction| {
            action.threads.is_some_and(|threads| matches!(threads.thread, Which::One(_)))
        };
        let is_alone = matches!(actions, [only] if is_one(only));
        self.lets_one_go = is_alone;
        let signal = actions.iter().find_map(|action| match action.action {
            Action::Continue(signal) | Action::Step(signal) => signal,
            _ => None,
        });
        if let Some(reply) = self.resume_copy(stepped, signal) {
            return reply;
        }
        match stepped {
            Some((tid, range)) if is_alone => {
                let passed = self.passed_mostly.clone();
                self.moved(|session| session.step_alone(tid, range, passed))
            }
            Some((tid, range)) => self.moved(|session| session.step(tid, range)),
            None => self.moved(Session::go),
        }
    }

    fn transfer(&mut self, transfer: &Transfer) -> Vec<u8> {
        let Access::Read { offset, len } = transfer.access else {
            if transfer.object != Object::Siginfo {
                return self.errors.sentence("this cannot be written");
            }
            self.session.end_call();
            return reply::ok();
        };
        let object = match &transfer.object {
            Object::Features => {
                self.session.target().xml(&transfer.annex).map(|text| text.as_bytes().to_vec())
            }
            Object::Auxv => self.session.auxv(),
            Object::Threads => Some(self.threads_xml()),
            Object::ExecFile => self.session.executable(),
            Object::Siginfo => {
                self.session.expect_call();
                self.whose(None).map(|tid| self.session.siginfo(tid))
            }
            Object::OsData => self.os_data(&transfer.annex),
            Object::LibrariesSvr4 => self.list_libraries(&transfer.annex),
            _ => return reply::empty(),
        };
        match object {
            Some(object) => reply::chunk(&object, offset, len),
            None => self.errors.sentence("there is nothing of that kind here"),
        }
    }
}
