//! The hooks as the supervisor sees them: where their parts lie, the state that both share, the table of the calls
//! that they may make, and the entries of their log. `hooks/hooks.h` says the same in C; a test compares the two.

mod table;

pub use table::table;

mod symbols {
    #![allow(dead_code, reason = "the build lists every symbol of the hooks")]
    include!(concat!(env!("OUT_DIR"), "/hooks_symbols.rs"));
}

/// Where the hooks' text is mapped, right behind the stub.
pub const TEXT_BASE: u64 = symbols::TEXT_BASE;

/// The answers of the cpuid instruction: their count in eight bytes, then [`Cpuid`] each.
pub const CPUID_BASE: u64 = 0x7000_6000;

/// The most answers that there is room for.
pub const CPUID_MAX: usize = ((TABLE_BASE - CPUID_BASE - 8) / 24) as usize;

/// A question to the cpuid instruction and its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpuid {
    pub leaf: u32,
    /// In ecx; none: it does not matter.
    pub subleaf: Option<u32>,
    /// eax, ebx, ecx, edx.
    pub answer: [u32; 4],
}

/// The table of calls, [`TABLE_LEN`] bytes, behind the text; both are mapped as one range.
pub const TABLE_BASE: u64 = 0x7000_8000;

/// Bytes of the table: [`CALLS`] rows.
pub const TABLE_LEN: usize = CALLS * Row::LEN;

/// The area: the state, the classes of descriptors, the hooks' stack and scratch memory, and the log. While
/// recording it is shared with the supervisor.
pub const AREA_BASE: u64 = 0x7000_b000;

/// Bytes of the area.
pub const AREA_LEN: u64 = LOG_BASE + LOG_LEN - AREA_BASE;

/// The classes of descriptors, one byte for each of the first [`FDS`].
pub const FD_CLASS_BASE: u64 = 0x7000_c000;

/// The word that the dense text counts down (`bis_rewrite::count_word`), behind the state.
pub const COUNTDOWN: u64 = AREA_BASE + 0xf00;

/// Where a count of the dense text keeps rcx.
pub const COUNT_RCX: u64 = COUNTDOWN + 8;

const _: () = assert!(AREA_BASE + state::LEN <= COUNTDOWN && COUNT_RCX + 8 <= FD_CLASS_BASE);

/// Descriptors that have a class.
pub const FDS: usize = 4096;

/// A bit for each file that is mapped where it may change, found by [`file_bit`]; [`FILES_BITS`] of them, in the state's page.
pub const FILES_BASE: u64 = AREA_BASE + 0x200;

/// How many bits there are.
pub const FILES_BITS: u64 = 8192;

/// The bit of a file: others may have the same.
pub fn file_bit(dev: u64, ino: u64) -> u64 {
    (ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ dev.wrapping_mul(0xc4ce_b9fe_1a85_ec53)) >> 51
}

const _: () = assert!(FILES_BASE >= AREA_BASE + state::LEN && FILES_BASE + FILES_BITS / 8 <= COPIED_BASE);

/// Descriptors whose large reads are copied, not cloned: a bit for each that has a class, in the state's page.
pub const COPIED_BASE: u64 = AREA_BASE + 0x800;

const _: () = assert!(COPIED_BASE >= AREA_BASE + state::LEN && COPIED_BASE + FDS as u64 / 8 <= FD_CLASS_BASE);

/// The log.
pub const LOG_BASE: u64 = 0x7001_3000;

/// Bytes of the log.
pub const LOG_LEN: u64 = 0xe_d000;

/// The numbers of system calls that the table knows are below this.
pub const CALLS: usize = 512;

/// Where a trampoline enters, with rcx = the address behind the trampoline's own system call.
pub const ENTER: u64 = symbols::ENTER;
/// The same for a function of the vdso that reads the clock (clock_gettime, gettimeofday, time).
pub const CLOCK: u64 = symbols::CLOCK;
/// Where a trampoline of an rdtsc instruction enters, with rdx = the address behind the trampoline's own.
pub const RDTSC: u64 = symbols::RDTSC;
/// The same for rdtscp.
pub const RDTSCP: u64 = symbols::RDTSCP;
/// Where a trampoline of a cpuid instruction enters, with rdx = the address behind the trampoline's own.
pub const CPUID: u64 = symbols::CPUID;
/// Where a trampoline of an rdrand, rdseed or rdpid instruction enters, with rcx = the address behind the trampoline's own, and
/// the program's rcx at [`state::SAVED_RCX`].
pub const CHANCE: u64 = symbols::CHANCE;
/// Address just after that hook. All of the ways into hooks, and out of them but to a safepoint, lie between [`ENTER`] and here.
pub const CPUID_END: u64 = symbols::MAKE;
/// From here to [`SYSCALL`] inclusive, a call can still be called off: by going on at [`BAILED`].
pub const MAKE_CHECK: u64 = symbols::MAKE_CHECK;
/// The hooks' own system call instruction.
pub const SYSCALL: u64 = symbols::SYSCALL;
/// The address behind it: what a seccomp filter sees.
pub const SYSCALL_END: u64 = symbols::SYSCALL_END;
/// Goes on as if the call had been called off.
pub const BAILED: u64 = symbols::BAILED;
/// A fault from here to [`COPY_FAULT`] exclusive is one of the program's pointers.
pub const COPY: u64 = symbols::COPY;
/// Goes on after such a fault.
pub const COPY_FAULT: u64 = symbols::COPY_FAULT;
/// What a seccomp filter sees of the traced call at the end of a hook: all registers are the program's, but for rip
/// and rax, which are in the state.
pub const SAFEPOINT_END: u64 = symbols::SAFEPOINT_END;
/// The number of that call.
pub const SAFEPOINT: u64 = 0x62_6973;
/// An int3: the replayed program made another call than the log has.
pub const DIVERGED: u64 = symbols::DIVERGED;

/// The text as it runs while recording, to be placed at [`TEXT_BASE`].
pub const TEXT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hooks.bin"));

const _: () = assert!(TEXT_BASE == crate::AGENT_BASE + crate::AGENT_LEN);
const _: () = assert!(TEXT_BASE + TEXT.len() as u64 <= PLACES_BASE);
const _: () = assert!(TABLE_BASE + TABLE_LEN as u64 <= AREA_BASE);

/// Where in the hooks' text a replay must know its way. They lie elsewhere in the hooks of each version, and of each compiler: a trace
/// is replayed with its own hooks, and these say it themselves, in the last bytes before the answers of cpuid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    /// As [`ENTER`], and so on.
    pub enter: u64,
    pub rdtscp: u64,
    pub chance: u64,
    pub cpuid: u64,
    pub cpuid_end: u64,
    pub copy: u64,
    pub copy_fault: u64,
    pub safepoint_end: u64,
    pub diverged: u64,
}

/// What replay and hooks agree on beside [`Places`]: the addresses of text, table, area and log, [`state`]'s offsets, and the log's
/// entries. To be raised when one of these changes its meaning; then replay needs to know both, or refuses the older.
const AGREEMENT: u64 = 1;

const PLACES_MAGIC: [u8; 8] = *b"BISHOOKS";

/// Where the hooks say their [`Places`]: magic, agreement, the places in the order of their declaration.
const PLACES_BASE: u64 = CPUID_BASE - Places::LEN as u64;

impl Places {
    /// Bytes.
    pub const LEN: usize = 8 * 11;

    /// Those of this version's hooks.
    pub const OURS: Places = Places {
        enter: ENTER,
        rdtscp: RDTSCP,
        chance: CHANCE,
        cpuid: CPUID,
        cpuid_end: CPUID_END,
        copy: COPY,
        copy_fault: COPY_FAULT,
        safepoint_end: SAFEPOINT_END,
        diverged: DIVERGED,
    };

    /// Bytes of an image's begin that [`Places::of`] wants to see.
    pub const SEEN: usize = (CPUID_BASE - TEXT_BASE) as usize;

    /// The places of these hooks, of which `image` is the begin; none if this version cannot replay them.
    pub fn of(image: &[u8]) -> Option<Places> {
        let (text, said) = image.get(..Self::SEEN)?.split_at(Self::SEEN - Self::LEN);
        if said.iter().all(|byte| *byte == 0) {
            // Hooks from before they said it.
            return is_replayed_text(text.get(..TEXT.len())?).then_some(Places::OURS);
        }
        let (magic, words) = said.split_at(8);
        let word = |at: usize| Some(u64::from_le_bytes(words.get(8 * at..8 * at + 8)?.try_into().ok()?));
        if magic != PLACES_MAGIC || word(0)? != AGREEMENT {
            return None;
        }
        let place = |at: usize| word(at).filter(|place| (TEXT_BASE..PLACES_BASE).contains(place));
        Some(Places {
            enter: place(1)?,
            rdtscp: place(2)?,
            chance: place(3)?,
            cpuid: place(4)?,
            cpuid_end: place(5)?,
            copy: place(6)?,
            copy_fault: place(7)?,
            safepoint_end: place(8)?,
            diverged: place(9)?,
        })
    }

    fn bytes(&self) -> [u8; Self::LEN] {
        let Places { enter, rdtscp, chance, cpuid, cpuid_end, copy, copy_fault, safepoint_end, diverged } =
            *self;
        let places = [enter, rdtscp, chance, cpuid, cpuid_end, copy, copy_fault, safepoint_end, diverged];
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&PLACES_MAGIC);
        for (word, place) in [AGREEMENT].iter().chain(&places).zip(bytes[8..].chunks_exact_mut(8)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Until hooks are mapped, nobody asks for them.
impl Default for Places {
    fn default() -> Places {
        Places::OURS
    }
}

/// The instruction in place of the system call in replay.
const NOTHING: [u8; 2] = [0x66, 0x90];

/// Is this the text of [`image`] for replay, as this version makes it?
fn is_replayed_text(text: &[u8]) -> bool {
    let at = usize::try_from(SYSCALL - TEXT_BASE).unwrap_or(0);
    text.len() == TEXT.len()
        && text[..at] == TEXT[..at]
        && text[at..at + 2] == NOTHING
        && text[at + 2..] == TEXT[at + 2..]
}

/// Text and table as one piece for [`TEXT_BASE`]; for replay with an instruction that does nothing in place of
/// the system call.
pub fn image(replay: bool, cpuid: &[Cpuid], table: &[Row; CALLS]) -> Vec<u8> {
    let table_at = usize::try_from(TABLE_BASE - TEXT_BASE).unwrap_or(0);
    let mut image = vec![0; table_at + TABLE_LEN];
    image[..TEXT.len()].copy_from_slice(TEXT);
    if replay {
        let at = usize::try_from(SYSCALL - TEXT_BASE).unwrap_or(0);
        image[at..at + 2].copy_from_slice(&NOTHING);
    }
    let cpuid = &cpuid[..cpuid.len().min(CPUID_MAX)];
    let cpuid_at = usize::try_from(CPUID_BASE - TEXT_BASE).unwrap_or(0);
    image[cpuid_at - Places::LEN..cpuid_at].copy_from_slice(&Places::OURS.bytes());
    image[cpuid_at..cpuid_at + 8].copy_from_slice(&(cpuid.len() as u64).to_le_bytes());
    for (known, place) in cpuid.iter().zip(image[cpuid_at + 8..].chunks_exact_mut(24)) {
        let [eax, ebx, ecx, edx] = known.answer;
        let words = [known.leaf, known.subleaf.unwrap_or(u32::MAX), eax, ebx, ecx, edx];
        for (word, place) in words.iter().zip(place.chunks_exact_mut(4)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
    for (row, place) in table.iter().zip(image[table_at..].chunks_exact_mut(Row::LEN)) {
        place.copy_from_slice(&row.bytes());
    }
    image
}

/// Is this address one of the hooks' text?
pub fn is_inside(rip: u64) -> bool {
    (TEXT_BASE..TABLE_BASE).contains(&rip)
}

/// Offsets in the state at [`AREA_BASE`], each of a 64-bit word.
pub mod state {
    /// Bytes of the log that are used.
    pub const POS: u64 = 0x00;
    /// Recording: the log's capacity. Replay: the bytes to be consumed.
    pub const END: u64 = 0x08;
    /// All ones in replay.
    pub const REPLAY: u64 = 0x10;
    /// Recording: the next hook lets its call be traced.
    pub const STOP: u64 = 0x18;
    /// Recording: the hook under way ends at a safepoint.
    pub const EXIT_STOP: u64 = 0x20;
    /// A call may wait in its hook.
    pub const ALONE: u64 = 0x28;
    /// Where the program goes on after the hook.
    pub const DONE: u64 = 0x38;
    /// 1 from a hook's entry to its exit.
    pub const IN_HOOK: u64 = 0x40;
    /// Where a hook of another instruction than a system call will jump to; for cpuid, from its begin.
    pub const EXIT: u64 = 0x48;
    /// Recording: the hook's call is not to be made.
    pub const BAIL: u64 = 0x50;
    /// 1: the hook under way has not made its call; 2: it has.
    pub const PHASE: u64 = 0x58;
    /// Replay: the hook that consumes the log's last byte ends at a safepoint.
    pub const END_STOP: u64 = 0x60;
    /// The classes of descriptors mean nothing now.
    pub const NO_FDS: u64 = 0x68;
    /// Files that may be written are mapped somewhere: the bits at [`super::FILES_BASE`] count.
    pub const WATCHED: u64 = 0x70;
    /// The program's rax at a safepoint.
    pub const SAVED_RAX: u64 = 0x78;
    /// Hooked calls so far.
    pub const COUNT: u64 = 0x80;
    /// The call under way may change a regular file.
    pub const WRITING: u64 = 0x88;
    /// Device and inode of what is standard output, and of what is standard error: four words.
    pub const OUTPUTS: u64 = 0x90;
    /// The devices of /proc and /sys: two words.
    pub const DEVICES: u64 = 0xb0;
    /// Recording: the time stamp counter can be read (else `rdtsc` faults).
    pub const TICKS: u64 = 0xc0;
    /// Recording: the addresses of the kernel's clock_gettime, gettimeofday and time, for the hooks to call; 0: not to be
    /// called.
    pub const CLOCKS: u64 = 0xc8;
    /// The same for getcpu.
    pub const GETCPU: u64 = 0xe0;
    /// Recording: reads of this many bytes and more are traced, unless their descriptor is one of those that are copied; 0:
    /// none are.
    pub const CLONE_MIN: u64 = 0xe8;
    /// Recording: one bit for each call that the program's own filters have a say in; eight words.
    pub const JUDGED: u64 = 0xf0;
    /// The program's rcx, on the way to [`super::CHANCE`], and at a safepoint that is whole.
    pub const SAVED_RCX: u64 = 0x130;
    /// The program's r11 at a safepoint that is whole.
    pub const SAVED_R11: u64 = 0x138;
    /// Recording: at the safepoint where the task stands, rcx and r11 are the program's.
    pub const WHOLE: u64 = 0x140;
    /// Recording: the current folder lies in /proc.
    pub const IN_PROC: u64 = 0x148;
    /// Conditional branches are counted, so recording and replay must make the same: the functions of [`CLOCKS`] are not
    /// called. The same in all of a domain's life.
    pub const COUNTED: u64 = 0x150;
    /// Recording: 1 + the descriptor of a file that is mapped somewhere, and that a hooked open has cut; the hook ends at its
    /// safepoint then.
    pub const CUT: u64 = 0x158;
    /// Recording: the call that a hook has left last was tried there with no time to wait, or its descriptor was asked, and it
    /// would have waited. Set by the hook, taken back by the supervisor.
    pub const WAITS: u64 = 0x160;
    /// Bytes of the state.
    pub const LEN: u64 = 0x168;
}

/// What is known of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FdClass {
    Unknown = 0,
    /// What is written there concerns nobody but the kernel: a pipe, a socket.
    Plain = 1,
    /// A regular file that nobody has mapped.
    File = 2,
    /// Standard output of the recording, something below /proc or /dev: its calls are traced.
    Special = 3,
    /// What is read there is not what the kernel says: reads are traced, too.
    Shown = 4,
}

/// What a hook does about a call beside its memory: bits of [`Row::flags`].
pub mod flag {
    pub const HOOKED: u16 = 1;
    pub const WRITES_FD: u16 = 2;
    pub const TAKES_PATH0: u16 = 4;
    pub const TAKES_PATH1: u16 = 8;
    pub const CLEARS_FD0: u16 = 16;
    pub const CLEARS_FD1: u16 = 32;
    pub const WAITS_IN: u16 = 64;
    pub const WAITS_OUT: u16 = 128;
    pub const ALONE_ONLY: u16 = 256;
    pub const ALWAYS: u16 = 512;
    pub const ASKS: u16 = 1024;
    pub const ALIGNED: u16 = 2048;
    pub const MAKES_FD: u16 = 4096;
    pub const MAKES_TWO: u16 = 8192;
    pub const COPIES_FD: u16 = 16384;
    pub const QUICK: u16 = 32768;
}

/// How the memory behind an argument is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum PieceKind {
    #[default]
    None = 0,
    OutFixed,
    OutArg,
    OutArg32,
    OutRet,
    OutRet32,
    OutDeref,
    InOutFixed,
    InOutArg32,
    RemFixed,
}

/// One piece of memory that a call writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    /// The argument that points to it.
    pub arg: u8,
    pub kind: PieceKind,
    /// The argument that holds the count, or the address of the length.
    pub of: u8,
    /// Bytes, or bytes for each counted thing.
    pub size: u16,
}

/// Calls whose memory depends on what is asked, or that can be tried without waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Shape {
    #[default]
    Plain = 0,
    Fcntl,
    Ioctl,
    Futex,
    Open,
    Poll,
    Epoll,
    Select,
    Vector,
    Wait,
    Message,
    Receive,
    Send,
    Ppoll,
    SockOpt,
    Prctl,
    Copy,
    Messages,
    Prlimit,
    Refused,
    /// Random bytes: many of them only where nobody waits.
    Random,
}

/// A system call in the hooks' table. The default is one that is always traced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// Bits of [`flag`].
    pub flags: u16,
    pub shape: Shape,
    /// How many of `piece` there are.
    pub pieces: u8,
    /// The argument that holds the flags of an open, a message, a wait.
    pub flags_arg: u8,
    pub piece: [Piece; 3],
}

impl Row {
    /// Bytes of a row in memory.
    pub const LEN: usize = 24;

    fn bytes(&self) -> [u8; Row::LEN] {
        let mut bytes = [0; Row::LEN];
        bytes[..2].copy_from_slice(&self.flags.to_le_bytes());
        bytes[2..5].copy_from_slice(&[self.shape as u8, self.pieces, self.flags_arg]);
        for (piece, place) in self.piece.iter().zip(bytes[6..].chunks_exact_mut(6)) {
            place[..3].copy_from_slice(&[piece.arg, piece.kind as u8, piece.of]);
            place[4..].copy_from_slice(&piece.size.to_le_bytes());
        }
        bytes
    }
}

/// What entries say in place of a call's number for `rdrand`; the result is the number, the data are the carry flag.
pub const NR_RDRAND: u16 = 0x1fa;
/// The same for `rdseed`.
pub const NR_RDSEED: u16 = 0x1fb;
/// The same for `rdpid`, without a flag.
pub const NR_RDPID: u16 = 0x1fc;
/// What entries say in place of a call's number for `rdtsc`; the result is the counter.
pub const NR_RDTSC: u16 = 0x1fd;
/// The same for `rdtscp`; the data are ecx.
pub const NR_RDTSCP: u16 = 0x1fe;

/// An entry of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// The call's number.
    pub nr: u16,
    /// The call would have waited, and was left to be traced.
    pub left: bool,
    /// What the kernel gave; meaningless for a call that was left.
    pub result: i64,
    /// The memory that it wrote, in the log's own order and padding.
    pub data: &'a [u8],
}

/// Bytes of an entry before its data.
const HEAD: usize = 16;

/// The entries of a log, up to its end or its first damage.
pub fn entries(log: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let mut rest = log;
    std::iter::from_fn(move || {
        let head: &[u8; HEAD] = rest.first_chunk()?;
        let word = u32::from_le_bytes(head[..4].try_into().ok()?);
        let len = usize::try_from(word >> 12).ok()? * 8;
        let entry = rest.get(..len).filter(|entry| entry.len() >= HEAD)?;
        rest = &rest[len..];
        Some(Entry {
            nr: u16::try_from(word & 0x1ff).ok()?,
            left: word & 0x200 != 0,
            result: i64::from_le_bytes(head[8..].try_into().ok()?),
            data: &entry[HEAD..],
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C side's words, from its header.
    fn header() -> &'static str {
        include_str!("hooks/hooks.h")
    }

    fn defined(name: &str) -> u64 {
        let line = header().lines().find(|line| line.starts_with(&format!("#define {name} ")));
        let value =
            line.unwrap_or_else(|| panic!("{name} is not defined")).split_whitespace().nth(2).unwrap();
        let parsed =
            value.strip_prefix("0x").map_or_else(|| value.parse(), |hex| u64::from_str_radix(hex, 16));
        parsed.unwrap_or_else(|_| panic!("{name} is {value}"))
    }

    #[test]
    fn nothing_jumps_on_the_line_to_which_the_kernel_returns() {
        const LINE: u64 = 64;
        let rest = usize::try_from(LINE - SYSCALL_END % LINE).unwrap();
        let at = usize::try_from(SYSCALL_END - TEXT_BASE).unwrap();
        // movq $2, STATE_PHASE; ret
        let phase = u32::try_from(AREA_BASE + state::PHASE).unwrap().to_le_bytes();
        let expected = [&[0x48, 0xc7, 0x04, 0x25], &phase[..], &[2, 0, 0, 0, 0xc3]].concat();
        assert_eq!(TEXT[at..at + expected.len()], expected);
        assert!(rest < expected.len(), "the ret is foreseen only {rest} bytes further");
    }

    #[test]
    fn both_sides_have_the_same_addresses() {
        assert_eq!(defined("TABLE_BASE"), TABLE_BASE);
        assert_eq!(defined("CPUID_BASE"), CPUID_BASE);
        assert_eq!(defined("AREA_BASE"), AREA_BASE);
        assert_eq!(defined("FD_CLASS_BASE"), FD_CLASS_BASE);
        assert!(header().contains("#define FILES_BASE (AREA_BASE + 0x200)"));
        assert_eq!((FILES_BASE, defined("FILES_BITS")), (AREA_BASE + 0x200, FILES_BITS));
        assert_eq!(FILES_BITS, 1 << (64 - 51));
        assert!(header().contains("#define COPIED_BASE (AREA_BASE + 0x800)"));
        assert_eq!(defined("LOG_BASE"), LOG_BASE);
        assert_eq!(defined("LOG_LEN"), LOG_LEN);
        assert_eq!(defined("SAFEPOINT"), SAFEPOINT);
        assert_eq!(defined("CALLS"), CALLS as u64);
        assert_eq!(defined("FDS"), FDS as u64);
        assert_eq!(defined("RDRAND"), NR_RDRAND.into());
        assert_eq!(defined("RDSEED"), NR_RDSEED.into());
        assert_eq!(defined("RDPID"), NR_RDPID.into());
        assert_eq!(defined("RDTSC"), NR_RDTSC.into());
        assert_eq!(defined("RDTSCP"), NR_RDTSCP.into());
    }

    #[test]
    fn both_sides_have_the_same_state() {
        let text = header();
        let body = text.split("struct state {").nth(1).unwrap().split("};").next().unwrap();
        let fields: Vec<&str> =
            body.lines().filter_map(|line| line.trim().strip_prefix("u64 ")?.split(';').next()).collect();
        let offset = |name: &str| 8 * fields.iter().position(|field| *field == name).unwrap() as u64;
        assert_eq!(offset("pos"), state::POS);
        assert_eq!(offset("end"), state::END);
        assert_eq!(offset("replay"), state::REPLAY);
        assert_eq!(offset("stop"), state::STOP);
        assert_eq!(offset("exit_stop"), state::EXIT_STOP);
        assert_eq!(offset("exit"), state::EXIT);
        assert_eq!(offset("alone"), state::ALONE);
        assert_eq!(offset("done"), state::DONE);
        assert_eq!(offset("in_hook"), state::IN_HOOK);
        assert_eq!(offset("bail"), state::BAIL);
        assert_eq!(offset("phase"), state::PHASE);
        assert_eq!(offset("end_stop"), state::END_STOP);
        assert_eq!(offset("no_fds"), state::NO_FDS);
        assert_eq!(offset("watched"), state::WATCHED);
        assert_eq!(offset("count"), state::COUNT);
        assert_eq!(offset("writing"), state::WRITING);
        assert_eq!(offset("outputs[4]"), state::OUTPUTS);
        // These fields are arrays: of four words, two, three, and eight.
        assert_eq!(state::OUTPUTS + 32, state::DEVICES);
        assert_eq!(state::DEVICES + 16, state::TICKS);
        assert_eq!(state::TICKS + 8, state::CLOCKS);
        assert_eq!((state::CLOCKS + 24, state::GETCPU + 8), (state::GETCPU, state::CLONE_MIN));
        assert_eq!((state::CLONE_MIN + 8, state::JUDGED + 64), (state::JUDGED, state::SAVED_RCX));
        assert_eq!(fields[fields.len() - 5..], ["whole", "in_proc", "counted", "cut", "waits"]);
        assert_eq!((state::WHOLE + 8, state::IN_PROC + 8), (state::IN_PROC, state::COUNTED));
        assert_eq!((state::COUNTED + 8, state::CUT + 8), (state::CUT, state::WAITS));
        assert_eq!(state::WAITS + 8, state::LEN);
        assert_eq!(8 * (fields.len() as u64 + 3 + 1 + 2 + 7), state::LEN);
        for (name, value) in [
            ("STATE_SAVED_RCX", state::SAVED_RCX),
            ("STATE_SAVED_R11", state::SAVED_R11),
            ("STATE_WHOLE", state::WHOLE),
        ] {
            assert!(text.contains(&format!("#define {name} (AREA_BASE + {value:#04x})")), "{name}");
        }
        for (name, field) in [("STATE_RSP", "rsp"), ("STATE_DONE", "done"), ("STATE_IN_HOOK", "in_hook")] {
            assert!(text.contains(&format!("#define {name} (AREA_BASE + {:#04x})", offset(field))), "{name}");
        }
        for (name, field) in
            [("STATE_EXIT", "exit"), ("STATE_BAIL", "bail"), ("STATE_SAVED_RAX", "saved_rax")]
        {
            assert!(text.contains(&format!("#define {name} (AREA_BASE + {:#04x})", offset(field))), "{name}");
        }
    }

    #[test]
    fn the_system_call_instructions_are_those_that_the_supervisor_knows() {
        let found: Vec<u64> = TEXT
            .windows(2)
            .enumerate()
            .filter(|(_, bytes)| *bytes == [0x0f, 0x05])
            .map(|(offset, _)| TEXT_BASE + offset as u64)
            .collect();
        assert_eq!(found, [SYSCALL, SAFEPOINT_END - 2]);
        let replayed = image(true, &[], &table());
        assert!(is_replayed_text(&replayed[..TEXT.len()]));
        assert!(!is_replayed_text(TEXT));
        assert!(!is_replayed_text(&replayed));
        assert_eq!(replayed.windows(2).filter(|bytes| *bytes == [0x0f, 0x05]).count(), 1);
    }

    #[test]
    fn a_log_ends_at_its_damage() {
        let mut log = Vec::new();
        for (nr, data) in [(0u32, &b"12345678"[..]), (39, b"")] {
            log.extend((nr | (16 + data.len() as u32) << 9).to_le_bytes());
            log.extend([0; 4]);
            log.extend((-5i64).to_le_bytes());
            log.extend(data);
        }
        let found: Vec<(u16, i64, usize)> = entries(&log).map(|e| (e.nr, e.result, e.data.len())).collect();
        assert_eq!(found, [(0, -5, 8), (39, -5, 0)]);
        assert_eq!(entries(&log[..20]).count(), 0);
        log[1] = 0;
        assert_eq!(entries(&log).count(), 0);
    }
}
