//! What the hooks and the supervisor share, written once: addresses, the state, the table of calls, the log's
//! entries. The build makes `shared.h` of it ([`header`]), which the hooks' C and assembly include; there
//! each name is as it is here, in upper case.

use std::{
    fmt::Write,
    mem::{offset_of, size_of},
};

use bis_syscalls::{HookShape, own};

/// A number that both sides know by the same name.
struct Constant {
    name: &'static str,
    value: u64,
    text: &'static [&'static str],
}

/// A field of something that both sides read in memory.
struct Field {
    name: &'static str,
    /// Its type, as Rust writes it.
    of: &'static str,
    /// In bytes.
    offset: usize,
    text: &'static [&'static str],
}

macro_rules! constants {
    ($list:ident: $type:ty; $($(#[doc = $text:literal])* $name:ident = $value:expr;)*) => {
        $($(#[doc = $text])* pub const $name: $type = $value;)*

        const $list: &[Constant] = &[$(
            Constant { name: stringify!($name), value: $name as u64, text: &[$($text),*] },
        )*];
    };
}

macro_rules! numbered {
    ($list:ident; $(#[$meta:meta])* pub enum $enum:ident { $($(#[$of:meta])* $name:ident,)* }) => {
        $(#[$meta])*
        #[repr(u8)]
        pub enum $enum { $($(#[$of])* $name,)* }

        const $list: &[Constant] =
            &[$(Constant { name: stringify!($name), value: $enum::$name as u64, text: &[] },)*];
    };
}

macro_rules! layout {
    ($list:ident; $(#[$meta:meta])* pub struct $struct:ident { $($(#[doc = $text:literal])* pub $name:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[repr(C)]
        pub struct $struct { $($(#[doc = $text])* pub $name: $type,)* }

        const $list: &[Field] = &[$(
            Field { name: stringify!($name), of: stringify!($type), offset: offset_of!($struct, $name), text: &[$($text),*] },
        )*];
    };
}

constants! { ADDRESSES: u64;
    /// The answers of the cpuid instruction: their count in eight bytes, then a question and its answer each.
    CPUID_BASE = 0x7000_7000;
    /// The table of calls, behind the text; both are mapped as one range.
    TABLE_BASE = 0x7000_8000;
    /// The area: the state, the classes of descriptors, the hooks' stack and scratch memory, the log, the
    /// kept files, and the plain ranges.
    /// While recording it is shared with the supervisor.
    AREA_BASE = 0x7000_b000;
    /// A bit for each file that is mapped where it may change, in the state's page: others may have the same.
    FILES_BASE = AREA_BASE + 0x200;
    /// How many bits there are.
    FILES_BITS = 8192;
    /// A file's bit: the number of its inode times the first of these, xor the number of its device times the
    /// second one, shifted to the right by the third.
    FILE_OF_INODE = 0x9e37_79b9_7f4a_7c15;
    FILE_OF_DEVICE = 0xc4ce_b9fe_1a85_ec53;
    FILE_SHIFT = 51;
    /// A bit for each descriptor that has a class, in the state's page: its large reads are copied, not
    /// cloned.
    COPIED_BASE = AREA_BASE + 0x800;
    /// The word that the dense text counts down, behind the state; and where a count of the dense text keeps
    /// rcx.
    COUNTDOWN = AREA_BASE + 0xf00;
    COUNT_RCX = COUNTDOWN + 8;
    /// The classes of descriptors, a byte each.
    FD_CLASS_BASE = 0x7000_c000;
    /// The hooks' scratch memory, below which lies their stack.
    SCRATCH_BASE = 0x7000_f000;
    SCRATCH_LEN = 0x4000;
    /// The log, and its bytes.
    LOG_BASE = 0x7001_3000;
    LOG_LEN = 0x1e_9000;
    /// Files that the trace has kept and that nobody changes: a hook may map them. (Recording.)
    KEPT_BASE = 0x701f_c000;
    /// The plain ranges of memory: where each begins and where it ends. (Recording.)
    PLAIN_BASE = 0x701f_e000;
    /// The number of a system call that does not exist: the end of a hook tells the supervisor.
    SAFEPOINT = 0x62_6973;
}

constants! { COUNTS: usize;
    /// The numbers of system calls that the table knows are below this.
    CALLS = 512;
    /// Descriptors that have a class.
    FDS = 4096;
    /// Plain ranges that there is room for. Each library has two, and Chromium a hundred libraries.
    PLAIN_MAX = 512;
    /// Kept files that there is room for. Chromium has a hundred libraries.
    KEPT_MAX = 170;
}

const fn bits(flags: i32) -> u64 {
    flags.cast_unsigned() as u64
}

constants! { MEMORY: u64;
    /// What a plain mapping may be asked to be.
    MAP_PLAIN = bits(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE)
        | bits(libc::MAP_STACK | libc::MAP_POPULATE | libc::MAP_DENYWRITE | libc::MAP_EXECUTABLE);
    /// What the mapping of a kept file may be asked to be.
    MAP_KEPT = bits(libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE)
        | bits(libc::MAP_POPULATE | libc::MAP_DENYWRITE | libc::MAP_EXECUTABLE);
    /// What the program may have of it.
    PROT_PLAIN = bits(libc::PROT_READ | libc::PROT_WRITE);
    /// What replay maps is the same, wherever the kernel has put it, and takes nothing of the machine before
    /// it is used.
    MAP_AGAIN = bits(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE);
    /// The same of a kept file.
    MAP_KEPT_AGAIN = bits(libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE);
}

const _: () = assert!(FILES_BASE >= AREA_BASE + state::LEN && FILES_BASE + FILES_BITS / 8 <= COPIED_BASE);
const _: () = assert!(FILES_BITS == 1 << (64 - FILE_SHIFT));
const _: () = assert!(COPIED_BASE + FDS as u64 / 8 <= COUNTDOWN && COUNT_RCX + 8 <= FD_CLASS_BASE);
const _: () = assert!(LOG_BASE + LOG_LEN == KEPT_BASE);
const _: () = assert!(KEPT_BASE + (KEPT_MAX * size_of::<KeptFile>()) as u64 <= PLAIN_BASE);
const _: () = assert!(FD_CLASS_BASE + FDS as u64 <= SCRATCH_BASE && SCRATCH_BASE + SCRATCH_LEN == LOG_BASE);

/// The bit of a file among those at [`FILES_BASE`].
pub fn file_bit(dev: u64, ino: u64) -> u64 {
    (ino.wrapping_mul(FILE_OF_INODE) ^ dev.wrapping_mul(FILE_OF_DEVICE)) >> FILE_SHIFT
}

macro_rules! state {
    ($($(#[doc = $text:literal])* $name:ident: $words:literal;)*) => {
        const WORDS: &[(&str, u64, &[&str])] = &[$((stringify!($name), $words, &[$($text),*]),)*];

        /// Offsets in the state at [`AREA_BASE`], each of one or more 64-bit words.
        pub mod state {
            const fn offset(name: &str) -> u64 {
                let (mut at, mut offset) = (0, 0);
                while at < super::WORDS.len() && !super::is_same(super::WORDS[at].0, name) {
                    offset += 8 * super::WORDS[at].1;
                    at += 1;
                }
                offset
            }

            $($(#[doc = $text])* pub const $name: u64 = offset(stringify!($name));)*
            /// Bytes of the state.
            pub const LEN: u64 = offset("");
        }
    };
}

/// Two texts are compared where the compiler can do no more than that.
const fn is_same(one: &str, two: &str) -> bool {
    let (one, two) = (one.as_bytes(), two.as_bytes());
    let mut at = 0;
    while at < one.len() && at < two.len() && one[at] == two[at] {
        at += 1;
    }
    at == one.len() && at == two.len()
}

state! {
    /// Bytes of the log that are used.
    POS: 1;
    /// Recording: the log's capacity. Replay: the bytes to be consumed.
    END: 1;
    /// All ones in replay, else 0.
    REPLAY: 1;
    /// Recording: the next hook lets its call be traced.
    STOP: 1;
    /// Recording: the hook under way ends at a safepoint.
    EXIT_STOP: 1;
    /// Nobody waits while this task does: a call may wait in its hook.
    ALONE: 1;
    /// The program's rsp.
    RSP: 1;
    /// Where the program goes on after the hook: behind its instruction, in the trampoline.
    DONE: 1;
    /// 1 from a hook's entry to its exit, or [`IN_XSAVEC`], or [`IN_FNSTENV`].
    IN_HOOK: 1;
    /// Where a hook of another instruction than a system call will jump to; for cpuid, from its begin.
    EXIT: 1;
    /// Recording: the hook's call is not to be made.
    BAIL: 1;
    /// 1: the hook under way has not made its call; 2: it has.
    PHASE: 1;
    /// Replay: the hook that consumes the log's last byte ends at a safepoint.
    END_STOP: 1;
    /// The classes of descriptors mean nothing now.
    NO_FDS: 1;
    /// Files that may be written are mapped somewhere: the bits at FILES_BASE count.
    WATCHED: 1;
    /// Recording: a `write` is made in a hook only where it is one to a regular file.
    FILES_ALONE: 1;
    /// The program's rax at a safepoint.
    SAVED_RAX: 1;
    /// Hooked calls so far.
    COUNT: 1;
    /// The call under way may change a regular file.
    WRITING: 1;
    /// Device and inode of what is standard output, and of what is standard error.
    OUTPUTS: 4;
    /// The devices of /proc and /sys.
    DEVICES: 2;
    /// Recording: the time stamp counter can be read (else `rdtsc` faults).
    TICKS: 1;
    /// Recording, where the counter cannot be read: how it is told by CLOCK_MONOTONIC_RAW. What the counter
    /// was at a time of that clock, and that time, in nanoseconds.
    COUNTER_AT: 2;
    /// How far the counter goes in a nanosecond, in 2^-32; 0: it is not told by a clock.
    COUNTER_RATE: 1;
    /// For how long behind that time this is so, in nanoseconds.
    COUNTER_FOR: 1;
    /// Recording: the addresses of the kernel's clock_gettime, gettimeofday and time, for the hooks to call;
    /// 0: not to be called.
    CLOCKS: 3;
    /// Recording: the address of the kernel's getcpu; 0: not to be called.
    GETCPU: 1;
    /// Recording: reads of this many bytes and more are traced, unless their descriptor is one of those that
    /// are copied; 0: none are.
    CLONE_MIN: 1;
    /// Recording: one bit for each call that the program's own filters have a say in; it is traced.
    JUDGED: 8;
    /// The program's rcx, on the way to a hook that needs one register, and at a safepoint that is whole.
    SAVED_RCX: 1;
    /// The program's r11 at a safepoint that is whole; the address of the area that an `xsavec` or
    /// `fnstenv` has written, on the way to its hook; the selector of an `lsl`.
    SAVED_R11: 1;
    /// Recording: at the safepoint where the task stands, rcx and r11 are the program's.
    WHOLE: 1;
    /// Recording: the current folder lies in /proc, and so may relative paths.
    IN_PROC: 1;
    /// Conditional branches are counted, so recording and replay must make the same: the functions of CLOCKS
    /// are not called. The same in all of a domain's life.
    COUNTED: 1;
    /// Recording: 1 + the descriptor of a file that is mapped somewhere, and that a hooked open has cut; the
    /// hook ends at its safepoint then.
    CUT: 1;
    /// Recording: the call that a hook has left last was tried there with little time to wait or none, or its
    /// descriptor was asked, and it would have waited. Set by the hook, taken back by the supervisor.
    WAITS: 1;
    /// Recording: for so long, a call that waits for descriptors waits in its hook although others could run
    /// meanwhile, or may be able to before it is over; nanoseconds.
    LINGER: 1;
    /// Recording: the hook under way waits for that long.
    LINGERS: 1;
    /// How many such calls had something to say.
    ANSWERED: 1;
    /// Recording: hooks may change the address space, in its plain ranges, of which none reaches this
    /// address; 0: they may not.
    CHANGES: 1;
    /// Recording: the end of the heap, as the kernel knows it; 0: not known.
    BRK: 1;
    /// Recording: how many plain ranges there are. What lies in one is mapped, is the program's, and the
    /// recorder knows nothing of it: private, not executable, not growing, no file that may change.
    PLAINS: 1;
    /// Recording: a log that reaches this place is taken at the end of the hook.
    SOON: 1;
    /// How often tasks have wanted to give their turn away while others could run.
    GIVEN_WAY: 1;
    /// Recording: 1 + the number of the core that the program is told in place of one that it has not asked
    /// for; 0: it has not asked for any.
    CORE: 1;
    /// Recording: of the first 64 cores, those that it has asked for, a bit each.
    CORES: 1;
    /// How much of the log was used when the hook under way, or the last one, was entered: one that logs.
    /// Said before `IN_HOOK`; a task that is killed in a hook has finished its entry if there is more now.
    BEGAN: 1;
}

numbered! { CLASSES;
    /// What is known of a descriptor.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum FdClass {
        Unknown,
        /// What is written there concerns nobody but the kernel: a pipe, a socket.
        Plain,
        /// A regular file that nobody has mapped: what is written there concerns nobody but the kernel.
        File,
        /// Standard output of the recording, something below /proc or /dev: its calls are traced.
        Special,
        /// What is read there is not what the kernel says: reads are traced, too.
        Shown,
    }
}

/// What a hook does about a call beside its memory: bits of [`Row::flags`].
pub mod flag {
    use super::Constant;

    constants! { FLAGS: u16;
        /// It may be made in a hook.
        HOOKED = 1;
        /// Only if its descriptor (argument 0; of a copy, 2) is plain.
        WRITES_FD = 1 << 1;
        /// Only if argument 0 is no path of /proc or /dev.
        TAKES_PATH0 = 1 << 2;
        /// Only if argument 1 is no path of /proc or /dev, relative to a descriptor in argument 0.
        TAKES_PATH1 = 1 << 3;
        /// The class of descriptor 0 is gone.
        CLEARS_FD0 = 1 << 4;
        /// Of descriptor 1.
        CLEARS_FD1 = 1 << 5;
        /// It waits until descriptor 0 can be read.
        WAITS_IN = 1 << 6;
        /// Until it can be written.
        WAITS_OUT = 1 << 7;
        /// It gives its task's turn to others who want one.
        GIVES_WAY = 1 << 8;
        /// Its memory is written whatever the result is.
        ALWAYS = 1 << 9;
        /// It waits unless descriptor 0 has O_NONBLOCK.
        ASKS = 1 << 10;
        /// It reads descriptor 0; the kernel may want memory that is aligned, and says EINVAL for what is
        /// not.
        ALIGNED = 1 << 11;
        /// The result is a new descriptor that concerns nobody: of a socket, an eventfd.
        MAKES_FD = 1 << 12;
        /// The call's memory names two new descriptors that concern nobody.
        MAKES_TWO = 1 << 13;
        /// The result is one like descriptor 0.
        COPIES_FD = 1 << 14;
        /// No shape, at most one piece, nothing to know of descriptors or paths.
        QUICK = 1 << 15;
    }

    pub(super) const ALL: &[Constant] = FLAGS;
}

numbered! { KINDS;
    /// How the memory behind an argument is found.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum PieceKind {
        #[default]
        None,
        OutFixed,
        OutArg,
        OutArg32,
        OutRet,
        OutRet32,
        OutDeref,
        InoutFixed,
        InoutArg32,
        RemFixed,
    }
}

layout! { PIECE;
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
}

layout! { ROW;
    /// A system call in the hooks' table. The default is one that is always traced.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Row {
        /// Bits of [`flag`].
        pub flags: u16,
        pub shape: HookShape,
        /// How many of `piece` there are.
        pub pieces: u8,
        /// The argument that holds the flags of an open, a message, a wait; or says which limit is meant.
        pub flags_arg: u8,
        pub piece: [Piece; 3],
    }
}

impl Row {
    /// Bytes of a row in memory.
    pub const LEN: usize = size_of::<Row>();

    pub(super) fn bytes(&self) -> [u8; Row::LEN] {
        let mut bytes = [0; Row::LEN];
        let flags = offset_of!(Row, flags);
        bytes[flags..flags + 2].copy_from_slice(&self.flags.to_le_bytes());
        bytes[offset_of!(Row, shape)] = self.shape as u8;
        bytes[offset_of!(Row, pieces)] = self.pieces;
        bytes[offset_of!(Row, flags_arg)] = self.flags_arg;
        let places = bytes[offset_of!(Row, piece)..].chunks_exact_mut(size_of::<Piece>());
        for (piece, place) in self.piece.iter().zip(places) {
            place[offset_of!(Piece, arg)] = piece.arg;
            place[offset_of!(Piece, kind)] = piece.kind as u8;
            place[offset_of!(Piece, of)] = piece.of;
            let size = offset_of!(Piece, size);
            place[size..size + 2].copy_from_slice(&piece.size.to_le_bytes());
        }
        bytes
    }
}

layout! { ENTRY;
    /// What an entry of the log begins with; its data follow, each piece on 8 bytes.
    pub struct Head {
        /// Up to [`CALL`] the call's number, then [`LEFT`], [`ASKED`] and [`LATE`], from [`EIGHTS`] on the
        /// eights of all of the entry.
        pub head: u32,
        /// A hash of the arguments.
        pub check: u32,
        pub result: i64,
    }
}

layout! { RANGE;
    /// One of the ranges at [`PLAIN_BASE`]: its first address, and the one behind it.
    pub struct PlainRange {
        pub start: u64,
        pub end: u64,
    }
}

layout! { KEPT;
    /// One of the files at [`KEPT_BASE`], by what fstat says of it.
    #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
    pub struct KeptFile {
        /// Its number in the trace, plus 1; 0: there are no more.
        pub file: u64,
        pub dev: u64,
        pub ino: u64,
        /// Bytes.
        pub len: u64,
        /// When it was last written to, nanoseconds since 1970.
        pub mtime_ns: u64,
        /// When its inode was last changed; 0: any time.
        pub ctime_ns: u64,
    }
}

layout! { CHANGE;
    /// The data of a call that has changed the address space: what replay does so that the same is so.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Change {
        /// mmap (of private memory, at this place), munmap, mprotect or madvise; arch_prctl (where
        /// thread-local storage is); set_tid_address, which replay leaves out.
        pub nr: u64,
        pub addr: u64,
        /// Bytes, whole pages; 0 of what is no memory.
        pub len: u64,
        /// The protection, the advice, or ARCH_SET_FS.
        pub how: u64,
        /// mmap: the file's number in the trace, plus 1; 0, and no word of the entry: of no file.
        pub file: u64,
        /// Where in the file it begins, bytes; no word of the entry either.
        pub offset: u64,
    }
}

constants! { BITS: u32;
    /// The bits of an entry's head that are the call's number.
    CALL = 0x1ff;
    /// The call would have waited, and is a traced one.
    LEFT = 1 << 9;
    /// Its descriptor was asked whether it is nonblocking; of an open: it led into /proc.
    ASKED = 1 << 10;
    /// It was found only when nothing was left to ask that the call would be a traced one.
    LATE = 1 << 11;
    /// Where the entry's length begins, in eights.
    EIGHTS = 12;
}

constants! { LIMITS: u64;
    /// Reads of less than this are copied to the trace: no supervisor wants them for the sake of a clone.
    CLONE_BYTES_MIN = 64 << 10;
    /// Bytes of a page, as `bis_trace` has them.
    PAGE = 4096;
    /// The last byte of what the kernel's clock functions return where they would make a system call, as
    /// `bis_rewrite` has it.
    FALLBACK = 0x7f;
}

constants! { IN_HOOKS: u32;
    /// In the hook behind an `xsavec`: what `IN_HOOK` says there.
    IN_XSAVEC = 2;
    /// In the hook behind an `fnstenv` or `fnsave`.
    IN_FNSTENV = 3;
}

constants! { NUMBERS: u16;
    /// What entries say in place of a call's number for `lsl`; the result is the limit, the data are the zero
    /// flag.
    NR_LSL = 0x1f9;
    /// What entries say in place of a call's number for `rdrand`; the result is the number, the data are the
    /// carry flag.
    NR_RDRAND = 0x1fa;
    /// What entries say in place of a call's number for `rdseed`; result and data are as for `rdrand`.
    NR_RDSEED = 0x1fb;
    /// What entries say in place of a call's number for `rdpid`; the result is the number, without a flag.
    NR_RDPID = 0x1fc;
    /// What entries say in place of a call's number for `rdtsc`; the result is the counter.
    NR_RDTSC = 0x1fd;
    /// What entries say in place of a call's number for `rdtscp`; the result is the counter, the data are
    /// ecx.
    NR_RDTSCP = 0x1fe;
}

const _: () = assert!(NR_RDTSCP as u32 <= CALL && CALLS <= CALL as usize + 1 && LEFT == CALL + 1);

constants! { STAND_IN: u32;
    /// What the keeper of a program that is left out tells its stand-in, in the first of two words: the
    /// program has exited, with the status that is the second.
    EXITED = 1;
    /// It was killed by that signal.
    KILLED = 2;
    /// It was stopped by that signal.
    STOPPED = 3;
}

/// `InoutArg32` as `INOUT_ARG32`.
fn upper(name: &str) -> String {
    let mut upper = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !upper.is_empty() && !upper.ends_with('_') {
            upper.push('_');
        }
        upper.extend(letter.to_uppercase());
    }
    upper
}

fn comment(header: &mut String, indent: &str, text: &[&str]) {
    for line in text {
        let _ = writeln!(header, "{indent}//{line}");
    }
}

fn define(header: &mut String, constants: &[Constant], name: impl Fn(&str) -> String) {
    for Constant { name: own, value, text } in constants {
        comment(header, "", text);
        let _ = writeln!(header, "#define {} {value:#x}", name(own));
    }
}

/// A structure in C, and what the compiler has to find of it.
fn structure(header: &mut String, name: &str, fields: &[Field], len: usize) {
    let _ = writeln!(header, "struct {name} {{");
    for Field { name, of, text, .. } in fields {
        comment(header, "  ", text);
        let (of, many) = match of.strip_prefix('[').and_then(|of| of.strip_suffix(']')?.split_once(';')) {
            Some((of, many)) => (of.trim(), format!("[{}]", many.trim())),
            None => (*of, String::new()),
        };
        let of = match of {
            "Piece" => "struct piece",
            "PieceKind" | "HookShape" => "u8",
            plain => plain,
        };
        let _ = writeln!(header, "  {of} {name}{many};");
    }
    let _ = writeln!(header, "}};\n_Static_assert(sizeof(struct {name}) == {len}, \"{name}\");");
    for Field { name: field, offset, .. } in fields {
        let place = format!("__builtin_offsetof(struct {name}, {field})");
        let _ = writeln!(header, "_Static_assert({place} == {offset}, \"{name}.{field}\");");
    }
}

/// The numbers of the shapes, and a list of those for which there is a function, with its name.
fn shapes(header: &mut String) {
    let all = HookShape::ALL.iter().map(|(name, shape)| (upper(name), *shape));
    let mut list = String::from("#define SHAPES(X)");
    for (name, shape) in all {
        let _ = writeln!(header, "#define {name} {:#x}", shape as u8);
        if shape != HookShape::Plain {
            let _ = write!(list, " X({name}, shape_{})", name.to_lowercase());
        }
    }
    let _ = writeln!(header, "{list}");
}

/// `shared.h`.
#[allow(dead_code, reason = "it is for the build, which includes this file")]
pub(crate) fn header() -> String {
    let mut header = String::from(
        "// Made by build.rs of shared.rs, where these names are said to be what they are.\n#pragma once\n\n",
    );
    let same = |name: &str| name.to_owned();
    let own = [("OWN_NUMBER", own::NUMBER), ("OWN_CHANNEL", own::CHANNEL)];
    let own = own.map(|(name, value)| Constant { name, value, text: &[" As in bis_syscalls::own."] });
    define(&mut header, &own, same);
    for constants in [ADDRESSES, COUNTS, MEMORY, flag::ALL, BITS, LIMITS, IN_HOOKS, NUMBERS, STAND_IN] {
        define(&mut header, constants, same);
    }
    define(&mut header, CLASSES, |name| format!("FD_{}", upper(name)));
    define(&mut header, KINDS, upper);
    shapes(&mut header);
    header.push_str("\n// For assembly.\n");
    let mut offset = 0;
    for (name, words, _) in WORDS {
        let _ = writeln!(header, "#define STATE_{name} {:#x}", AREA_BASE + offset);
        offset += 8 * words;
    }
    header.push_str("\n#ifndef __ASSEMBLER__\n\n");
    for (name, of) in [("u8", "char"), ("u16", "short"), ("u32", "int"), ("u64", "long")]
        .map(|(name, of)| (name, format!("unsigned {of}")))
    {
        let _ = writeln!(header, "typedef {of} {name};");
    }
    header.push_str("typedef long i64;\n\nstruct state {\n");
    for (name, words, text) in WORDS {
        comment(&mut header, "  ", text);
        let many = if *words == 1 { String::new() } else { format!("[{words}]") };
        let _ = writeln!(header, "  u64 {}{many};", name.to_lowercase());
    }
    let _ = writeln!(header, "}};\n_Static_assert(sizeof(struct state) == {}, \"state\");\n", state::LEN);
    structure(&mut header, "piece", PIECE, size_of::<Piece>());
    structure(&mut header, "row", ROW, size_of::<Row>());
    structure(&mut header, "entry", ENTRY, size_of::<Head>());
    structure(&mut header, "range", RANGE, size_of::<PlainRange>());
    structure(&mut header, "kept_file", KEPT, size_of::<KeptFile>());
    structure(&mut header, "change", CHANGE, size_of::<Change>());
    header.push_str("\n#endif\n");
    header
}
