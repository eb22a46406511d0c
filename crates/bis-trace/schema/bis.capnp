# What a trace's log holds: events of domains, and entries of the meta stream.
#
# This file is a contract with every trace that was ever written. Its meaning, field by field, is that of the
# Rust model (src/event.rs); here stand only the constraints that a reader checks.
#
# Rules of evolution:
# - Fields and union members are added at the end (the next number), never removed, renumbered or retyped. One
#   that is no longer written keeps its place and gets the word "obsolete" and the version in its comment.
# - The default of an added field (zero, empty, null) means what traces meant before it was added.
# - A reader that meets a union member that it does not know refuses the event. So a member that old readers
#   must not meet raises the least reader version in the log's header (src/chunk.rs); a field that old readers
#   may ignore without being wrong does not.
# - A constraint may be loosened together with the least reader version; it is never tightened.
# - Paths, arguments and environment are Data: they are bytes, not text. Text is for what bis itself says.
# - Event numbers, addresses and lengths are 64 bits wide. Task ids are signed, as the kernel's are.
# - Registers are Data of 27 little-endian 64-bit words in the order of the kernel's user_regs_struct: one copy,
#   no field-by-field work.

@0xd1c2a7f03b9e5c41;

struct Event {
  seq @0 :UInt64;               # from 1; no two events of a trace share one
  tid @1 :Int32;                # > 0
  sums @2 :List(RangeSum);      # null: none were recorded
  kind :union {
    start @3 :Start;            # first in its stream, and only there
    syscall @4 :Syscall;
    syscallEnter @5 :Syscall;   # its outcome is null
    syscallExit @6 :Syscall;    # its entry is null; its outcome's registers are `all`
    signal @7 :SignalEvent;
    instruction @8 :Instruction;
    taskExit @9 :TaskExit;
    token @10 :Token;
    end @11 :Void;              # last in its stream
    hooked @12 :Hooked;
    pause @13 :Pause;
  }
  ticks @14 :UInt64;            # counts since the task's previous event, and one; 0: not recorded
  lapse @15 :UInt16;            # since the stream's previous event, or the recording's begin: below 0x8000 ms, else s; before format 4: 0
}

struct Hooked {
  alone @0 :Bool;
  log @1 :Data;                 # not empty
}

struct Pause {
  place :union {
    state @0 :Void;
    count @1 :UInt64;           # since the task's previous event
  }
  regs @2 :Data;                # registers
  extended @3 :Data;            # without zeros at its end
  seen @4 :List(RangeSum);
  span @5 :Data;
  held @6 :List(MemWrite);
  trap @7 :UInt64;              # right behind the trap of a count of the text; 0: none was
}

struct Syscall {
  nr @0 :UInt64;                # of the 32-bit table: 1 << 32 is added
  entry @1 :Data;               # registers
  outcome @2 :Outcome;
}

struct Outcome {
  regs :union {
    zero @0 :Void;              # all registers are zero: the event does not speak of them
    rax @1 :UInt64;             # those of the event's entry, but for rax; only in a `syscall` event
    all @2 :Data;               # registers
  }
  xstate @3 :Data;              # null: unchanged
  effects @4 :List(Effect);
  writes @5 :List(MemWrite);
  echo @6 :Echo;                # null: none
  clones @7 :List(Cloned);
  ours @8 :Ours;                # null: nothing; before format 3: not recorded
}

# What of the memory that was changed is bis's own (src/ours.rs).
struct Ours {
  own @0 :List(Range);
  areas @1 :List(Area);
  diverted @2 :List(Diverted);
  pools @3 :List(Pool);
  dense @4 :List(DenseText);
  patches @5 :List(Patch);
  faults @6 :List(Fault);
  guards @7 :List(Guard);
  patched @8 :List(PatchedText);  # from format 7 on

  struct Area {
    addr @0 :UInt64;
    len @1 :UInt64;
    kind @2 :Kind;

    enum Kind {
      agent @0;
      hooks @1;
      hookState @2;
      arena @3;
    }
  }

  struct Diverted {
    addr @0 :UInt64;
    original @1 :Data;          # not empty
    isFunction @2 :Bool;
  }

  struct Pool {
    addr @0 :UInt64;
    len @1 :UInt64;
    bias @2 :UInt64;
    map @3 :UInt32;             # a file
  }

  struct DenseText {
    addr @0 :UInt64;
    len @1 :UInt64;
    pool @2 :UInt64;
    offset @3 :UInt64;
    file @4 :UInt32;
  }

  struct Patch {                # a process has hundreds of them
    start @0 :UInt64;
    trampoline @1 :UInt64;
    abort @2 :Int32;            # from the run's end; 0 if site is not xbegin
    site @3 :Site;
    trampolineLen @4 :UInt8;    # bytes
    siteAt @5 :UInt8;           # less than the length of `original`
    original @6 :Data;          # 1..=32 bytes
    moved @7 :Data;             # pairs: offset in the run, 0..=its length; offset in the trampoline, less than its length
  }

  enum Site {
    syscall @0;
    rdtsc @1;
    rdtscp @2;
    cpuid @3;
    rdrand @4;
    rdseed @5;
    rdpid @6;
    xbegin @7;
    xsavec @8;
    lsl @9;
    fnstenv @10;
  }

  struct Fault {
    site @0 :UInt64;
    insn @1 :Instruction.Insn;
    original @2 :Data;          # 1..=15 bytes
  }

  struct Guard {
    page @0 :UInt64;
    prot @1 :UInt32;
  }

  struct PatchedText {
    addr @0 :UInt64;
    len @1 :UInt64;
    offset @2 :UInt64;          # in `file`
    at @3 :UInt64;              # in `set`
    file @4 :UInt32;            # the program's own
    set @5 :UInt32;             # a file; from `at` to its end, a PatchSet
  }
}

# What is patched in a text: a message at the end of a kept file, not in the log.
struct PatchSet {
  patches @0 :List(Ours.Patch);
  faults @1 :List(Ours.Fault);
}

struct MemWrite {
  addr @0 :UInt64;
  data @1 :Data;
}

struct Cloned {
  addr @0 :UInt64;
  offset @1 :UInt64;            # bytes
  len @2 :UInt64;               # bytes, 1..=2^20
  sum @3 :UInt64;
}

struct Echo {
  fd @0 :UInt8;                 # 1 or 2
  ranges @1 :List(Range);
  sum @2 :UInt64;               # xxh3-64 of what went out; 0: not known
}

struct Range {
  addr @0 :UInt64;
  len @1 :UInt64;
}

struct RangeSum {
  addr @0 :UInt64;
  len @1 :UInt64;
  sum @2 :UInt64;
  isStack @3 :Bool;             # words at multiples of 64 that are less than 256 count as zero
}

struct Effect {
  union {
    map @0 :Map;
    unmap @1 :Range;
    protect @2 :Protect;
    remap @3 :Remap;
    advise @4 :Advise;
    newObject @5 :NewObject;
    writeObject @6 :WriteObject;
    resizeObject @7 :ResizeObject;
    newTask @8 :NewTask;
    fork @9 :Fork;
    clearObject @10 :ClearObject;
    setTask @11 :NewTask;       # only where a domain goes back to a checkpoint
    segment @12 :Segment;       # only of 32-bit programs
  }

  struct Map {
    addr @0 :UInt64;
    len @1 :UInt64;
    prot @2 :UInt32;
    backing :union {
      anonymous @3 :Void;
      stack @4 :Void;
      file @5 :UInt32;
      shared @6 :UInt32;
    }
    offset @7 :UInt64;          # bytes; 0 for anonymous and stack
  }

  struct Protect {
    addr @0 :UInt64;
    len @1 :UInt64;
    prot @2 :UInt32;
  }

  struct Remap {
    addr @0 :UInt64;
    oldLen @1 :UInt64;
    newAddr @2 :UInt64;
    newLen @3 :UInt64;
    keep @4 :Bool;
  }

  struct Advise {
    addr @0 :UInt64;
    len @1 :UInt64;
    advice @2 :UInt32;
  }

  struct NewObject {
    object @0 :UInt32;
    len @1 :UInt64;
    content :union {
      zeros @2 :Void;
      file @3 :UInt32;
    }
  }

  struct WriteObject {
    object @0 :UInt32;
    offset @1 :UInt64;
    data @2 :Data;
  }

  struct ResizeObject {
    object @0 :UInt32;
    len @1 :UInt64;
  }

  struct NewTask {
    tid @0 :Int32;              # > 0
    regs @1 :Data;              # registers
    xstate @2 :Data;            # null: its maker's; not null in an image, and in setTask
  }

  struct Segment {
    tid @0 :Int32;              # > 0
    descriptor @1 :Data;        # struct user_desc, 16 bytes
  }

  struct Fork {
    domain @0 :UInt32;          # > 0
    tid @1 :Int32;              # > 0
  }

  struct ClearObject {
    object @0 :UInt32;
    offset @1 :UInt64;
    len @2 :UInt64;
  }
}

struct Turn {
  object @0 :UInt32;
  turn @1 :UInt64;
}

struct Token {
  acquired @0 :List(Turn);
  released @1 :List(Turn);
}

struct Start {
  base @0 :Base;
  outcome @1 :Outcome;          # its registers are not `rax`
  ownCpuid @2 :Bool;            # its text may ask `cpuid` unseen, which tells it the core
  core @3 :UInt16;              # the number of the core on which it was recorded, and one, if it is told that; 0: it is not, or it was the first
}

struct Base {
  union {
    exec @0 :Exec;
    fork @1 :Fork;
    image @2 :Image;            # from format 5 on, and only where the log's header asks for a reader of that
  }

  struct Exec {
    path @0 :Data;
    argv @1 :List(Data);
    envp @2 :List(Data);
    cwd @3 :Data;
  }

  struct Fork {
    parent @0 :UInt32;          # > 0
    at @1 :UInt64;
  }

  struct Image {
    program @0 :Exec;
    auxv @1 :Data;
  }
}

struct SignalEvent {
  signal @0 :UInt8;             # 1..=64
  siginfo @1 :Data;             # 128 bytes
  point @2 :Point;
  before @3 :Data;              # registers
  handler @4 :Outcome;          # null: none ran; its registers are not `rax`

  enum Point {
    fault @0;
    afterEvent @1;
    beforeSyscall @2;
    anywhere @3;
    afterHook @4;
  }
}

struct Instruction {
  insn @0 :Insn;
  before @1 :Data;              # registers
  after @2 :Data;               # registers

  enum Insn {
    rdtsc @0;
    rdtscp @1;
    cpuid @2;
    rdrand @3;
    rdseed @4;
    rdpid @5;
    xbegin @6;                  # after: where the program deals with a transaction that failed
    xsavec @7;                  # never an event: its hook logs nothing
    lsl @8;
    fnstenv @9;                 # never an event: its hook logs nothing
  }
}

struct TaskEnd {
  union {
    exited @0 :UInt8;
    killed @1 :UInt8;           # a signal, 1..=64
    exec @2 :UInt32;            # a domain, > 0
    dethreaded @3 :Void;
  }
}

struct TaskExit {
  status @0 :TaskEnd;
  outcome @1 :Outcome;          # its registers are not `rax`
  lastWay @2 :LastWay;
}

enum LastWay {                  # where the task came to in its program before it ended
  none @0;                      # where its last event has left it
  log @1;                       # to the end of the last hooked call in the log before this event
  call @2;                      # into the next call of a hook, which it did not log
}

struct Meta {
  union {
    machine @0 :Machine;        # first in the stream
    file @1 :FileEntry;
    domain @2 :DomainEntry;
    task @3 :Task;
    taskEnd @4 :TaskEnding;
    domainEnd @5 :DomainEnd;
    echo @6 :EchoEntry;
    share @7 :Share;
    note @8 :Note;
    end @9 :End;                # last in the stream of a complete trace
    cut @10 :Text;
  }

  struct Task {
    domain @0 :UInt32;          # > 0
    tid @1 :Int32;              # > 0
    pid @2 :Int32;              # > 0
    seq @3 :UInt64;
  }

  struct TaskEnding {
    domain @0 :UInt32;          # > 0
    tid @1 :Int32;              # > 0
    status @2 :TaskEnd;
    seq @3 :UInt64;
  }

  struct DomainEnd {
    domain @0 :UInt32;          # > 0
    seq @1 :UInt64;
    eventCount @2 :UInt64;
  }

  struct EchoEntry {
    seq @0 :UInt64;
    domain @1 :UInt32;          # > 0
    fd @2 :UInt8;               # 1 or 2
    len @3 :UInt64;
  }

  struct Share {
    object @0 :UInt32;
    domain @1 :UInt32;          # > 0
  }

  struct Note {
    seq @0 :UInt64;
    text @1 :Text;
  }

  struct End {
    exitCode @0 :UInt8;
    seq @1 :UInt64;
  }
}

struct Machine {
  bisVersion @0 :Text;
  kernel @1 :Text;
  cpu @2 :Text;
  cpuidFaulting @3 :Bool;
  coreCount @4 :UInt32;
  tickSource @5 :Text;          # state, software, hardware or stepping
  hooks @6 :Bool;
  checksums @7 :Bool;
  startedS @8 :Int64;           # Unix time, seconds
  argv @9 :List(Data);
  cwd @10 :Data;
  xcr0 @11 :UInt64;
  features @12 :List(UInt32);   # what cpuid told the programs (docs/trace-format.md); none: not said
  refused @13 :List(Refusal);   # calls that have no events, because the recorder never saw them
}

# A call that a seccomp filter from outside of the recording (a container's) has answered with an error.
struct Refusal {
  nr @0 :UInt32;
  errno @1 :UInt16;             # 1..=4095
  when @2 :When;
  arg @3 :UInt8;                # 0..=5: the argument that is looked at; 0 where none is
  word @4 :UInt32;              # of its lower 32 bits

  enum When {
    always @0;
    equal @1;                   # the argument is this word
    hasBits @2;                 # it has any of these bits
  }
}

struct FileEntry {
  file @0 :UInt32;
  name @1 :Text;                # 1..=255 of [0-9a-z-]: never a path out of files/
  kept @2 :Kept;
  path @3 :Data;
  len @4 :UInt64;
  mtimeNs @5 :Int64;
  digest @6 :Data;              # 32 bytes: names the content, and nobody computes it again

  enum Kept {
    reflink @0;
    hardLink @1;
    copy @2;
  }
}

struct DomainEntry {
  domain @0 :UInt32;            # > 0
  pid @1 :Int32;                # > 0
  ppid @2 :Int32;               # >= 0
  tid @3 :Int32;                # > 0
  base @4 :Base;
  seq @5 :UInt64;
}
