//! Clients that send anything: packets that are damaged, half, huge, out of order or made up, with interrupts
//! between, and that leave at any time. The server is the real one, on a real recording. After each of them a
//! decent client must be answered, and the server must not grow.
//!
//! `BIS_HOSTILE_SECONDS=N` takes N seconds in place of a few, with other clients each time.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    process::{Child, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::{
    common::{self, Folder},
    trial,
};
use libtest_mimic::{Failed, Trial};

/// How long a decent client waits for an answer.
const LIMIT: Duration = Duration::from_secs(60);
const USUAL: Duration = Duration::from_secs(15);
/// More than any client can make the server hold.
const RESIDENT_MAX_KB: u64 = 1 << 20;

/// How packets begin.
const HEADS: &str = "! ? D D1 R Hg Hc T g G p P m M x X z0, Z0, Z1, Z2, Z3, Z4, z2, c C s S bc bs vCont; vCont? vRun; vFile:open: \
    vFile:pread: vFile:fstat: vFile:close: vFile:readlink: vFile:setfs: vFile:size: vFile:mode: vFile:exists: vFile:MD5: vKill; \
    vAttach; vMustReplyEmpty vStopped vCtrlC qSupported: qXfer:features:read: qXfer:auxv:read:: qXfer:threads:read:: \
    qXfer:exec-file:read: qXfer:siginfo:read:: qXfer:siginfo:write:: qXfer:osdata:read: qXfer:libraries-svr4:read:start= \
    qXfer:libraries-svr4:read: qXfer:memory-map:read:: qSearch:memory: qCRC: qRcmd, qRRCmd: qC qfThreadInfo qsThreadInfo \
    qThreadExtraInfo, qGetTLSAddr: qSymbol:: qSymbol: qOffsets qAttached: QPassSignals: QProgramSignals: QCatchSyscalls: \
    QThreadEvents: QThreadOptions QNonStop: QAgent: QEnvironmentHexEncoded: QSetWorkingDir: QDisableRandomization: \
    QStartupWithShell: QThreadSuffixSupported QListThreadsInStopReply qHostInfo qProcessInfo qRegisterInfo qMemoryRegionInfo: \
    jThreadsInfo jThreadExtendedInfo: _M _m QSaveRegisterState QRestoreRegisterState: qfProcessInfo qShlibInfoAddr \
    qWatchpointSupportInfo: qEcho: qModuleInfo: jModulesInfo: qUserName: qStepPacketSupported qGetWorkingDir";

const REQUESTS: [&str; 32] = [
    "when",
    "seek 3",
    "seek start",
    "seek end",
    "seek 99999999999999999999",
    "seek 3+zz",
    "back",
    "back 9",
    "forward",
    "checkpoint x",
    "restart 1",
    "restart 99",
    "delete checkpoint 1",
    "info checkpoints",
    "info recording",
    "process",
    "process 1",
    "process 99999999999",
    "stopped",
    "prompt",
    "divert",
    "divert end",
    "say 41",
    "watch-if 0 0 0",
    "watch-if 7fffffffe000 8 220127",
    "watch-unless 0 0",
    "catch-forks on",
    "catch-forks off",
    "when-end",
    "elapsed-time",
    "bis",
    "",
];

const WORDS: [&str; 28] = [
    "0",
    "1",
    "-1",
    "4",
    "8",
    "10",
    "1000",
    "7fffffffe000",
    "555555555000",
    "555555555139",
    "7ffff7dd0000",
    "ffffffffffffffff",
    "fffffffffffffffff",
    "7fffffffffffffff",
    "70000000",
    "10000000",
    "p1.1",
    "p-1.-1",
    "pffffffff.0",
    "",
    "zz",
    "cont",
    "r555555555000,555555555fff",
    "target.xml",
    "2f70726f632f73656c662f6d656d",
    "cmds:0,X3,220127",
    "X10,26262626262626262626262626262626",
    "processes",
];

const RESUMES: [&str; 7] = ["vCont;c", "vCont;s", "vCont;r555555555000,555555556000;c", "bs", "bc", "s", "c"];

const SAY_WHO: [&str; 3] = [
    "qSupported:multiprocess+;swbreak+;hwbreak+;qRelocInsn+;fork-events+;vfork-events+;exec-events+;vContSupported+;QThreadEvents+;\
     no-resumed+;xmlRegisters=i386",
    "qSupported:xmlRegisters=i386,arm,mips,arc;multiprocess+;fork-events+;vfork-events+",
    "qSupported:multiprocess+;swbreak+;hwbreak+;no-resumed+;xmlRegisters=i386",
];

pub fn trials() -> Vec<Trial> {
    let missing = !common::installed("gcc");
    let trial = trial(module_path!(), "whatever_clients_send", || common::repeated(whatever_clients_send));
    vec![trial.with_ignored_flag(missing)]
}

/// Numbers that look random (splitmix64).
struct Chance(u64);

impl Chance {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % u64::try_from(end).unwrap_or(u64::MAX)).unwrap_or(0)
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.number().to_le_bytes()[0]).collect()
    }

    fn argument(&mut self) -> Vec<u8> {
        match self.below(10) {
            0..=4 => self.of(&WORDS).into(),
            5..=6 => {
                let bits = [4, 8, 16, 32, 48, 63][self.below(6)];
                format!("{:x}", self.number() >> (64 - bits)).into()
            }
            7 => {
                let count = self.below(20);
                self.bytes(count)
            }
            _ => {
                let count = [2, 8, 16, 64, 400, 2000][self.below(6)];
                (0..count).map(|_| b"0123456789abcdef"[self.below(16)]).collect()
            }
        }
    }

    fn payload(&mut self, heads: &[&str]) -> Vec<u8> {
        match self.below(100) {
            0..=14 => format!("qRcmd,{}", hex(self.of(&REQUESTS))).into(),
            15..=18 => {
                let name = self.of(&REQUESTS).split(' ').next().unwrap_or_default();
                let mut payload: Vec<u8> = format!("qRRCmd:{}:", hex(name)).into();
                payload.extend(self.argument());
                payload
            }
            19..=28 => self.of(&RESUMES).into(),
            29..=88 => {
                let mut payload: Vec<u8> = self.of(heads).into();
                for _ in 0..self.below(5) {
                    payload.extend(self.argument());
                    payload.extend(self.of(&[",", ":", ";", "=", ""]).bytes());
                }
                payload
            }
            89..=95 => {
                let count = self.below(300);
                self.bytes(count)
            }
            _ => {
                let mut payload: Vec<u8> = self.of(heads).into();
                payload.resize([1000, 100_000, 600_000, 1_100_000][self.below(4)], b'f');
                payload
            }
        }
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn packet(payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![b'$'];
    for byte in payload {
        match byte {
            b'#' | b'$' | b'}' | b'*' => packet.extend([b'}', byte ^ 0x20]),
            byte => packet.push(*byte),
        }
    }
    let sum = packet[1..].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    packet.extend(format!("#{sum:02x}").bytes());
    packet
}

/// The server. It is killed when it is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(folder: &Folder, trace: &std::path::Path) -> Result<Server, Failed> {
        let mut command = common::command(common::bis(), folder.path());
        command.args(["replay", "-q", "-k", "-s", "0"]).arg(trace).stdout(Stdio::null());
        let said = folder.path().join("server.err");
        command.stdin(Stdio::null()).stderr(fs::File::create(&said)?);
        let mut server = Server { child: command.spawn()?, address: String::new() };
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            let text = fs::read_to_string(&said)?;
            let address =
                text.split("target extended-remote ").nth(1).and_then(|rest| rest.split('\'').next());
            if let Some(address) = address {
                server.address = address.to_owned();
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("the server does not say where it is".into())
    }

    fn connect(&self) -> Result<TcpStream, Failed> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(LIMIT))?;
        Ok(stream)
    }

    /// Checks that a client which asks sensible questions is answered.
    fn check_well(&mut self) -> Result<(), Failed> {
        if let Some(status) = self.child.try_wait()? {
            return Err(format!("the server has ended: {status}").into());
        }
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut input = BufReader::new(stream.try_clone()?);
        for (question, begin, len) in
            [(SAY_WHO[0], "PacketSize", 100), ("?", "T", 10), ("g", "", 400), ("m0,1", "E", 3)]
        {
            stream.write_all(&packet(question.as_bytes()))?;
            let mut text = Vec::new();
            input.read_until(b'$', &mut text)?;
            text.clear();
            input.read_until(b'#', &mut text)?;
            input.read_exact(&mut [0; 2])?;
            stream.write_all(b"+")?;
            if !text.starts_with(begin.as_bytes()) || text.len() < len {
                return Err(format!("`{question}` is answered {}", String::from_utf8_lossy(&text)).into());
            }
        }
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
        match resident {
            Some(kilobytes) if kilobytes < RESIDENT_MAX_KB => Ok(()),
            other => Err(format!("the server has {other:?} KiB of memory").into()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One client, until it leaves or is left.
fn misbehave(
    stream: &mut TcpStream,
    chance: &mut Chance,
    heads: &[&str],
    sent: &mut String,
) -> std::io::Result<()> {
    let manner = chance.below(10);
    if chance.below(4) > 0 {
        stream.write_all(&packet(chance.of(&SAY_WHO).as_bytes()))?;
    }
    let mut answer = vec![0; 1 << 16];
    for _ in 0..=chance.below(60) {
        let payload = chance.payload(heads);
        let shown = String::from_utf8_lossy(&payload[..payload.len().min(200)]).into_owned();
        sent.push_str(&format!("{manner} {shown:?}\n"));
        let whole = packet(&payload);
        match manner {
            // One after the other; what takes long is interrupted.
            0..=4 => {
                stream.write_all(&whole)?;
                stream.set_read_timeout(Some(Duration::from_millis(300)))?;
                match stream.read(&mut answer) {
                    Ok(0) => return Ok(()),
                    Ok(_) => {}
                    Err(_) => stream.write_all(b"\x03")?,
                }
            }
            // Without a look at the answers.
            5..=6 => {
                stream.write_all(&whole)?;
                stream.write_all(chance.of(&["", "+", "-", "\x03", "$", "#", "+++++"]).as_bytes())?;
            }
            7 => stream.write_all(&whole[..chance.below(whole.len())])?,
            8 => {
                let mut whole = whole;
                let at = chance.below(whole.len());
                whole[at] ^= 1 << chance.below(8);
                stream.write_all(&whole)?;
            }
            _ => {
                let count = chance.below(5000);
                stream.write_all(&chance.bytes(count))?;
            }
        }
    }
    if chance.below(2) == 0 {
        stream.shutdown(Shutdown::Both)?;
    }
    Ok(())
}

fn whatever_clients_send() -> Result<(), Failed> {
    let folder = Folder::new("hostile")?;
    let program = folder.path().join("program");
    let source = common::tree().join("tests/debug/programs/threads.c");
    let compiled = std::process::Command::new("gcc")
        .args(["-g", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .output()?;
    if !compiled.status.success() {
        return Err(String::from_utf8_lossy(&compiled.stderr).into_owned().into());
    }
    let trace = folder.path().join("trace");
    let record = common::record_command(&trace, &[], &[program.as_os_str()], folder.path());
    common::run(record, "record", folder.path(), None, LIMIT)?;
    let asked = std::env::var("BIS_HOSTILE_SECONDS").ok().and_then(|text| text.parse().ok());
    let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let (length, seed) = match asked {
        Some(seconds) => (Duration::from_secs(seconds), began),
        None => (USUAL, 1),
    };
    let heads: Vec<&str> = HEADS.split_whitespace().collect();
    let mut chance = Chance(seed);
    let mut server = Server::start(&folder, &trace)?;
    let end = Instant::now() + length;
    let mut rounds = 0;
    while Instant::now() < end {
        rounds += 1;
        let mut sent = String::new();
        let mut stream = server.connect()?;
        // That it is left by the server is its own fault.
        let left = misbehave(&mut stream, &mut chance, &heads, &mut sent);
        drop(stream);
        server.check_well().map_err(|failure| {
            let why = failure.message().unwrap_or_default();
            let said = fs::read_to_string(folder.path().join("server.err")).unwrap_or_default();
            format!("client {rounds} of seed {seed} ({left:?}): {why}\n--- it sent\n{sent}--- the server said\n{said}")
        })?;
    }
    if rounds < 3 {
        return Err(format!("only {rounds} clients in {length:?}").into());
    }
    folder.done();
    Ok(())
}
