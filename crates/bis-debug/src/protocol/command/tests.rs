//! Tests of [`super`]: every packet that clients send, and that no bytes make the parser panic.

use bis_trace::types::{Addr, Signal, Tid};
use proptest::prelude::*;

use super::{
    super::{
        features::Features,
        thread_id::{ThreadId, Which},
    },
    *,
};

fn parse(payload: &[u8]) -> Result<Command, Malformed> {
    super::parse(payload, Numbers::Gdb)
}

fn check(payload: &str, expected: Command) {
    assert_eq!(parse(payload.as_bytes()), Ok(expected), "{payload}");
}

fn check_bad(payload: &str, problem: &str) {
    let error = parse(payload.as_bytes()).expect_err(payload).to_string();
    assert!(error.ends_with(problem), "{payload}: {error}");
}

fn one(tid: i32) -> ThreadId {
    ThreadId::plain(Tid(tid))
}

fn full(pid: i32, tid: i32) -> ThreadId {
    ThreadId::full(Tid(pid), Tid(tid))
}

#[test]
fn the_session() {
    check("!", Command::ExtendedMode);
    check("?", Command::StopReason);
    check("D", Command::Detach { process: None, stay_stopped: false });
    check("D;1f", Command::Detach { process: Some(Tid(0x1f)), stay_stopped: false });
    check("D1", Command::Detach { process: None, stay_stopped: true });
    check("k", Command::Kill(None));
    check("vKill;a", Command::Kill(Some(Tid(10))));
    check("R00", Command::Restart);
    check("vRun;;6331", Command::Run { program: vec![], arguments: vec![b"c1".to_vec()] });
    check("vRun;", Command::Run { program: vec![], arguments: vec![] });
    check("vRun;2f61", Command::Run { program: b"/a".to_vec(), arguments: vec![] });
    check("vAttach;1f", Command::Attach(Tid(0x1f)));
    check("qAttached", Command::Attached(None));
    check("qAttached:1f", Command::Attached(Some(Tid(0x1f))));
    check("QStartNoAckMode", Command::StartNoAck);
    check("QNonStop:1", Command::NonStop(true));
    check("vStopped", Command::NextStop);
    check("vCtrlC", Command::Interrupt);
    check("vMustReplyEmpty", Command::MustReplyEmpty);
    check("qSupported", Command::Supported(Features::default()));
    check("qSupported:multiprocess+", Command::Supported(Features::parse(b"multiprocess+")));
    for unknown in [
        "", "b9600", "qTStatus", "qTfV", "QTinit", "qL1", "qP0", "vNope;1", "QNope:1", "jNope", "A1,2,3",
        "_x",
    ] {
        check(unknown, Command::Unknown);
    }
    check_bad("vKill;", "the process id is not a positive hexadecimal number");
    check_bad("vKill;0", "the process id is not a positive hexadecimal number");
    check_bad("vRun;6", "its bytes have an odd number of hexadecimal digits");
    check_bad("Dx", "there is something behind its end");
    check_bad("QNonStop:2", "it is neither 0 nor 1");
}

#[test]
fn threads() {
    check("Hg0", Command::SelectThread(ThreadId { process: None, thread: Which::Any }));
    check("Hc-1", Command::SelectResumed(ThreadId { process: None, thread: Which::All }));
    check("Hgp1.2", Command::SelectThread(full(1, 2)));
    check("T1f", Command::IsAlive(one(0x1f)));
    check("qC", Command::CurrentThread);
    check("qfThreadInfo", Command::FirstThreads);
    check("qsThreadInfo", Command::MoreThreads);
    check("qThreadExtraInfo,p1.2", Command::ThreadExtraInfo(full(1, 2)));
    check("qGetTLSAddr:p1.2,10,7fff", Command::TlsAddress { thread: full(1, 2), offset: 16, map: 0x7fff });
    check("QThreadEvents:1", Command::ThreadEvents(true));
    check("QThreadOptions;3:p1.2;0", Command::ThreadOptions(vec![(3, Some(full(1, 2))), (0, None)]));
    check("Hm0", Command::Unknown);
    check_bad("Hg", "the thread id is not a hexadecimal number");
    check_bad("Hg1;", "there is something behind its end");
    check_bad("qGetTLSAddr:1,2", "a comma is missing");
}

#[test]
fn registers_and_memory() {
    check("g", Command::ReadRegisters { thread: None });
    check("g;thread:1f;", Command::ReadRegisters { thread: Some(one(0x1f)) });
    check("G00ff", Command::WriteRegisters { data: vec![0, 255], thread: None });
    check("p10", Command::ReadRegister { number: 16, thread: None });
    check("p10;thread:p1.2;", Command::ReadRegister { number: 16, thread: Some(full(1, 2)) });
    check("P10=0102", Command::WriteRegister { number: 16, data: vec![1, 2], thread: None });
    check("P1=01;thread:3;", Command::WriteRegister { number: 1, data: vec![1], thread: Some(one(3)) });
    check("m7fff,10", Command::ReadMemory { addr: Addr(0x7fff), len: 16 });
    check("x7fff,10", Command::ReadMemoryBinary { addr: Addr(0x7fff), len: 16 });
    check("M10,2:0aff", Command::WriteMemory { addr: Addr(16), data: vec![10, 255] });
    check("X10,0:", Command::WriteMemory { addr: Addr(16), data: vec![] });
    check("X10,3:#:*", Command::WriteMemory { addr: Addr(16), data: b"#:*".to_vec() });
    check("qSearch:memory:10;20;a;b", Command::Search { addr: Addr(16), len: 32, pattern: b"a;b".to_vec() });
    check("qSearch:disk:10;20;a", Command::Unknown);
    check("qCRC:10,20", Command::Checksum { addr: Addr(16), len: 32 });
    check_bad("m,1", "the address is not a hexadecimal number");
    check_bad("m1", "a comma is missing");
    check_bad("m1,2x", "there is something behind its end");
    check_bad("X10,4:abc", "the data does not have the length that it says");
    check_bad("P1", "an equals sign is missing");
    check_bad("P1=xx", "its bytes are not hexadecimal digits");
    check_bad("g1", "what follows is not a thread");
}

#[test]
fn points() {
    let point = |kind, conditions: &[&[u8]], commands: &[&[u8]], persist| {
        let owned = |list: &[&[u8]]| list.iter().map(|code| code.to_vec()).collect();
        let (conditions, commands) = (owned(conditions), owned(commands));
        Command::InsertPoint(Point { kind, addr: Addr(0x4000), size: 1, conditions, commands, persist })
    };
    check("Z0,4000,1", point(PointKind::Software, &[], &[], false));
    check("Z1,4000,1;", point(PointKind::Hardware, &[], &[], false));
    check("Z2,4000,1", point(PointKind::Write, &[], &[], false));
    check("Z0,4000,1;X2,2227X1,27", point(PointKind::Software, &[&[0x22, 0x27], &[0x27]], &[], false));
    check("Z0,4000,1;X1,22;X1,27", point(PointKind::Software, &[&[0x22], &[0x27]], &[], false));
    check("Z0,4000,1;cmds:1,X1,27", point(PointKind::Software, &[], &[&[0x27]], true));
    check(
        "Z0,4000,1;X1,22;cmds:0,X1,27X1,28",
        point(PointKind::Software, &[&[0x22]], &[&[0x27], &[0x28]], false),
    );
    check("z4,4000,8", Command::RemovePoint { kind: PointKind::Access, addr: Addr(0x4000), size: 8 });
    check("Z5,4000,1", Command::Unknown);
    check_bad("Z0,4000", "a comma is missing");
    check_bad("Z0,4000,1;X3,2227", "the length of an expression is wrong");
    check_bad("Z0,4000,1;Xffffffffffffffff,22", "the length of an expression is wrong");
    check_bad("Z0,4000,1;what", "what follows is neither a condition nor commands");
    check_bad(&format!("Z0,1,1;{}", "X0,".repeat(300)), "there are too many expressions");
}

#[test]
fn running() {
    let selected = |action, addr| Command::ResumeSelected { action, addr };
    check("c", selected(Action::Continue(None), None));
    check("c400", selected(Action::Continue(None), Some(Addr(0x400))));
    check("C0b", selected(Action::Continue(Some(Signal::SEGV)), None));
    check("C00;400", selected(Action::Continue(None), Some(Addr(0x400))));
    check("s", selected(Action::Step(None), None));
    check("S14", selected(Action::Step(Some(Signal::CHLD)), None));
    check("bc", Command::ReverseContinue);
    check("bs", Command::ReverseStep);
    check("vCont?", Command::ResumeActions);
    let of = |action, threads| ThreadAction { action, threads };
    check("vCont;c", Command::Resume(vec![of(Action::Continue(None), None)]));
    check(
        "vCont;s:p1.2;C05:1f;t;c:p1.-1",
        Command::Resume(vec![
            of(Action::Step(None), Some(full(1, 2))),
            of(Action::Continue(Some(Signal::TRAP)), Some(one(0x1f))),
            of(Action::Stop, None),
            of(
                Action::Continue(None),
                Some(ThreadId { process: Some(Which::One(Tid(1))), thread: Which::All }),
            ),
        ]),
    );
    check(
        "vCont;r400,410:1f;",
        Command::Resume(vec![of(
            Action::StepRange { start: Addr(0x400), end: Addr(0x410) },
            Some(one(0x1f)),
        )]),
    );
    check_bad("vCont;", "it has no action");
    check_bad("vCont;z", "one of its actions is not known");
    check_bad("vCont;cc", "there is something behind its end");
    check_bad("Cff", "Linux does not have this signal");
    check_bad("C", "the signal is not a hexadecimal number");
}

#[test]
fn queries() {
    check("qOffsets", Command::Offsets);
    check("qSymbol::", Command::SymbolsReady);
    check("qSymbol::6d61", Command::Symbol { name: "ma".to_owned(), value: None });
    check("qSymbol:40:6d61", Command::Symbol { name: "ma".to_owned(), value: Some(0x40) });
    check("qRcmd,68656c70", Command::Monitor("help".to_owned()));
    let rr = |name: &str, thread, arguments: &[&str]| Command::RrCommand {
        name: name.to_owned(),
        thread,
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
    };
    check("qRRCmd:when:-1", rr("when", None, &[]));
    check("qRRCmd:info checkpoints:-1", rr("info checkpoints", None, &[]));
    check("qRRCmd:delete checkpoint:-1:31", rr("delete checkpoint", None, &["1"]));
    check("qRRCmd:when:1234", rr("when", Some(Tid(1234)), &[]));
    check("qRRCmd:7768656e", rr("when", None, &[]));
    check("qRRCmd:636865636b:31:32", rr("check", None, &["1", "2"]));
    check("qRRCmd:when", rr("when", None, &[]));
    check_bad("qRRCmd:", "the command's name is missing");
    check_bad("qRRCmd:when:x", "the thread is not a decimal number");
    check_bad("qRcmd,6", "its bytes have an odd number of hexadecimal digits");
}

#[test]
fn signals_of_lldb() {
    let resumed = |payload: &str| super::parse(payload.as_bytes(), Numbers::Linux);
    let with = |number| {
        let action = Action::Continue(Some(Signal(number)));
        Ok(Command::Resume(vec![ThreadAction { action, threads: None }]))
    };
    assert_eq!(resumed("vCont;C07"), with(7));
    assert_eq!(resumed("vCont;C1d"), with(29));
    check_bad("vCont;C1d", "Linux does not have this signal");
    assert_eq!(resumed("QPassSignals:11"), Ok(Command::PassSignals(vec![Signal::CHLD])));
}

#[test]
fn settings() {
    check("QPassSignals:e;14;94", Command::PassSignals(vec![Signal(14), Signal::CHLD]));
    check("QPassSignals:", Command::PassSignals(vec![]));
    check("QProgramSignals:0;1", Command::ProgramSignals(vec![Signal(1)]));
    check("QCatchSyscalls:0", Command::CatchSyscalls(SyscallCatch::None));
    check("QCatchSyscalls:1", Command::CatchSyscalls(SyscallCatch::All));
    check("QCatchSyscalls:1;0;3b", Command::CatchSyscalls(SyscallCatch::Only(vec![0, 59])));
    check("QSetWorkingDir:2f", Command::SetWorkingDir(Some(b"/".to_vec())));
    check("QSetWorkingDir:", Command::SetWorkingDir(None));
    check("QDisableRandomization:0", Command::DisableRandomization(false));
    check("QStartupWithShell:1", Command::StartupWithShell(true));
    check("QEnvironmentHexEncoded:413d", Command::Environment(Environment::Set(b"A=".to_vec())));
    check("QEnvironment:A=b:c", Command::Environment(Environment::Set(b"A=b:c".to_vec())));
    check("QEnvironmentUnset:41", Command::Environment(Environment::Unset(b"A".to_vec())));
    check("QEnvironmentReset", Command::Environment(Environment::Reset));
    check("QAgent:1", Command::Agent(true));
    check_bad("QPassSignals:x", "a signal is not a hexadecimal number");
    check_bad("QCatchSyscalls:2", "it is neither 0 nor 1");
    check_bad("QThreadOptions", "it has no options");
}

#[test]
fn files_and_objects() {
    let file = |request| Command::File(request);
    let path = b"/a".to_vec();
    check(
        "vFile:open:2f61,200,1a4",
        file(FileRequest::Open { path: path.clone(), flags: OpenFlags(0x200), mode: 0o644 }),
    );
    check("vFile:close:3", file(FileRequest::Close { fd: 3 }));
    check("vFile:pread:3,1000,20", file(FileRequest::Read { fd: 3, len: 0x1000, offset: 32 }));
    check("vFile:pwrite:3,20,a,b", file(FileRequest::Write { fd: 3, offset: 32, data: b"a,b".to_vec() }));
    check("vFile:fstat:3", file(FileRequest::StatFd { fd: 3 }));
    check("vFile:stat:2f61", file(FileRequest::Stat { path: path.clone() }));
    check("vFile:unlink:2f61", file(FileRequest::Unlink { path: path.clone() }));
    check("vFile:readlink:2f61", file(FileRequest::ReadLink { path: path.clone() }));
    check("vFile:setfs:0", file(FileRequest::SetFilesystem { process: None }));
    check("vFile:setfs:1f", file(FileRequest::SetFilesystem { process: Some(Tid(0x1f)) }));
    check("vFile:exists:2f61", file(FileRequest::Exists { path }));
    check("vFile:nope:1", Command::Unknown);
    check_bad("vFile:open:2f61", "the flags are missing");
    check_bad("vFile:close:x", "the descriptor is not a hexadecimal number");
    check_bad("vFile:close:-1", "the descriptor is not a hexadecimal number");
    assert!(!OpenFlags(0).writes() && OpenFlags(1).writes() && OpenFlags(0x400).writes());

    let read = |object, annex: &str, offset, len| {
        Command::Transfer(Transfer { object, annex: annex.to_owned(), access: Access::Read { offset, len } })
    };
    check("qXfer:features:read:target.xml:0,ffb", read(Object::Features, "target.xml", 0, 0xffb));
    check("qXfer:auxv:read::0,1000", read(Object::Auxv, "", 0, 0x1000));
    check("qXfer:exec-file:read:1f:0,1000", read(Object::ExecFile, "1f", 0, 0x1000));
    check(
        "qXfer:libraries-svr4:read:start=7f;prev=0:0,10",
        read(Object::LibrariesSvr4, "start=7f;prev=0", 0, 16),
    );
    check("qXfer:traceframe:read::0,1", read(Object::Other("traceframe".to_owned()), "", 0, 1));
    let access = Access::Write { offset: 16, data: b"a:b".to_vec() };
    check(
        "qXfer:siginfo:write::10:a:b",
        Command::Transfer(Transfer { object: Object::Siginfo, annex: String::new(), access }),
    );
    check("qXfer:auxv:eat::0,1", Command::Unknown);
    check_bad("qXfer:auxv", "the object is missing");
    check_bad("qXfer:auxv:read", "the operation is missing");
    check_bad("qXfer:auxv:read::0", "a comma is missing");
}

#[test]
fn what_lldb_sends() {
    let check = |payload: &str, expected| check(payload, Command::Lldb(expected));
    check("qHostInfo", LldbCommand::HostInfo);
    check("qProcessInfo", LldbCommand::ProcessInfo);
    check("qProcessInfoPID:12", LldbCommand::ProcessInfoOf(Tid(12)));
    check("qRegisterInfo1f", LldbCommand::RegisterInfo(31));
    check("qMemoryRegionInfo", LldbCommand::MemoryRegion(None));
    check("qMemoryRegionInfo:7fff", LldbCommand::MemoryRegion(Some(0x7fff)));
    check("jThreadsInfo", LldbCommand::ThreadsInfo);
    check("jThreadExtendedInfo:{\"thread\":1}", LldbCommand::ThreadExtendedInfo("{\"thread\":1}".to_owned()));
    check("qThreadStopInfo1f", LldbCommand::ThreadStopInfo(one(31)));
    check("QThreadSuffixSupported", LldbCommand::ThreadSuffix);
    check("QListThreadsInStopReply", LldbCommand::ListThreadsInStops);
    check("QSaveRegisterState", LldbCommand::SaveRegisters { thread: None });
    check("QSaveRegisterState;thread:1f;", LldbCommand::SaveRegisters { thread: Some(one(31)) });
    check(
        "QRestoreRegisterState:12;thread:1f;",
        LldbCommand::RestoreRegisters { number: 12, thread: Some(one(31)) },
    );
    check("qShlibInfoAddr", LldbCommand::SharedLibraryInfo);
    check("qGetWorkingDir", LldbCommand::WorkingDirectory);
    check("qVAttachOrWaitSupported", LldbCommand::AttachOrWait);
    check("qSupportsDetachAndStayStopped:", LldbCommand::DetachAndStayStopped);
    check("qWatchpointSupportInfo:", LldbCommand::WatchpointSupport);
    check("qStructuredDataPlugins", LldbCommand::StructuredDataPlugins);
    check("qEcho:17", LldbCommand::Echo(b"17".to_vec()));
    check("QEnableErrorStrings", LldbCommand::ErrorStrings);
    check("qLaunchSuccess", LldbCommand::LaunchSuccess);
    check("jGetLoadedDynamicLibrariesInfos:{}", LldbCommand::LoadedLibraries("{}".to_owned()));
    check("_M1000,rx", LldbCommand::Allocate { size: 4096, permissions: "rx".to_owned() });
    check("_m1000", LldbCommand::Free { addr: Addr(4096) });
}

/// Valid packets, to be mutated.
const VALID: &[&str] = &[
    "Hgp1.2",
    "vCont;s:p1.2;C05:1f;r400,410:-1",
    "Z0,4000,1;X2,2227X1,27;cmds:1,X1,27",
    "X10,3:abc",
    "P10=0102;thread:1;",
    "qXfer:features:read:target.xml:0,ffb",
    "qXfer:siginfo:write::10:ab",
    "vFile:open:2f61,200,1a4",
    "vFile:pread:3,1000,20",
    "qSearch:memory:10;20;ab",
    "qRRCmd:when:-1:31",
    "qGetTLSAddr:p1.2,10,7f",
    "qSymbol:40:6d61",
    "QPassSignals:e;14",
    "QCatchSyscalls:1;3b",
    "QThreadOptions;3:p1.2;0",
    "qSupported:multiprocess+;xmlRegisters=i386",
    "vRun;2f61;6331",
    "QSaveRegisterState;thread:1f;",
    "QRestoreRegisterState:12;thread:1f;",
    "qProcessInfoPID:12",
    "D;1",
    "C0b;400",
    "_M10,rx",
];

proptest! {
    #[test]
    fn any_bytes_are_a_command_or_an_error(
        first in prop::sample::select(b"?!DkHTgGpPmMxXzZcCsSbvqQR_jA".to_vec()),
        rest in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let _ = parse(&rest);
        let _ = parse(&[&[first], rest.as_slice()].concat());
    }

    #[test]
    fn a_changed_packet_is_a_command_or_an_error(
        packet in prop::sample::select(VALID),
        at in any::<prop::sample::Index>(),
        what in prop::collection::vec(prop::sample::select(b"0f,;:=-.pX\xff".to_vec()), 0..3),
        removed in 0usize..4,
    ) {
        let mut bytes = packet.as_bytes().to_vec();
        let start = at.index(bytes.len());
        let end = (start + removed).min(bytes.len());
        bytes.splice(start..end, what);
        if let Err(error) = parse(&bytes) {
            prop_assert!(error.to_string().starts_with("malformed packet `"));
        }
    }

    #[test]
    fn a_cut_packet_is_a_command_or_an_error(packet in prop::sample::select(VALID), at in any::<prop::sample::Index>()) {
        let _ = parse(&packet.as_bytes()[..at.index(packet.len())]);
    }
}
