//! The base of a stream that begins with an exec: everything that makes up the fresh address space.

use std::{
    ffi::{CString, OsStr},
    fs::{self, File},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::FileExt,
    },
    path::Path,
    sync::Arc,
};

use bis_agent::{AGENT_BASE, AGENT_LEN};
use bis_trace::{
    Identity,
    event::{Backing, Base, Effect, MemWrite, Outcome},
    ours::{Area, AreaKind, Diverted},
    types::{Addr, DomainId, FileId, PAGE, PAGE_LEN, Registers, Tid, prot},
};
use bis_tracee::{
    Memory, Stopped,
    features::Level,
    filter::{Mode, Refused},
    image,
    maps::Mapping,
    proc,
    spawn::{Program, Spawn, spawn_in},
    vdso::Vdso,
};

use crate::{
    crew::with_slot,
    domain::Domain,
    error::{RecordError, Result},
    session::Session,
    space::content,
    space::{AddressSpace, open_mapped, stack_floor, stack_limit_or_most},
    task::{Task, parent_of},
};

impl Session {
    /// Keeps the present content of a file that is mapped shared and will change: never as a link to it.
    pub fn keep_shared(&self, file: &File, path: &[u8]) -> Result<FileId> {
        Ok(self.writer.files().keep_changing(file, path)?.file)
    }

    /// As [`Session::keep_shared`], for a file of so many bytes, but what little a small file in memory holds
    /// comes as bytes, up to where it is nothing but zeros: browsers make such files by the hundred, most of
    /// them empty.
    pub fn hold_shared(&self, file: &File, path: &[u8], len: u64) -> Result<(Option<FileId>, Vec<u8>)> {
        const FILE_BYTES: usize = 256 << 10;
        const HELD_BYTES: usize = 64 << 10;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if path.starts_with(b"/memfd:") && len <= FILE_BYTES {
            let mut content = vec![0; len];
            let is_read = file.read_exact_at(&mut content, 0).is_ok();
            content.truncate(content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
            if is_read && content.len() <= HELD_BYTES {
                return Ok((None, content));
            }
        }
        Ok((Some(self.keep_shared(file, path)?), Vec::new()))
    }

    /// Keeps a file of our own that nobody edits.
    pub fn keep_linked(&self, file: &File, path: &[u8]) -> Result<FileId> {
        Ok(self.writer.files().keep_linked(file, path)?.file)
    }

    /// How the program is started.
    pub fn spawn_spec(&self, mode: Mode) -> Result<Spawn> {
        let options = &self.options;
        let c_string = |bytes: &[u8]| {
            CString::new(bytes).map_err(|source| RecordError::Os {
                what: "pass an argument that contains a NUL byte",
                source: source.into(),
            })
        };
        let join = |(name, value): &(std::ffi::OsString, std::ffi::OsString)| {
            c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        Ok(Spawn {
            program: Program::Path(c_string(options.program.as_os_str().as_bytes())?),
            argv: options.argv.iter().map(|arg| c_string(arg.as_bytes())).collect::<Result<_>>()?,
            envp: options.env.iter().map(join).collect::<Result<_>>()?,
            cwd: options.cwd.as_ref().map(|cwd| c_string(cwd.as_os_str().as_bytes())).transpose()?,
            file_limit: self.file_limit,
            mode,
            refused: Refused::default(),
            files: vec![],
            rdtsc_faults: false,
        })
    }

    /// Keeps a file's content in the trace.
    pub fn keep(&self, file: &File, path: &[u8]) -> Result<FileId> {
        Ok(self.writer.files().keep(file, path)?.file)
    }

    /// A file that was kept already, and has not changed, with what it is known by: without opening it.
    pub fn find_kept(&self, meta: &fs::Metadata, path: &[u8]) -> Option<(FileId, Identity)> {
        self.writer.files().find(meta, path)
    }
}

/// The program that a process runs, and how it was started, as /proc tells.
pub struct Started {
    pub path: Vec<u8>,
    pub argv: Vec<Vec<u8>>,
    pub envp: Vec<Vec<u8>>,
    pub cwd: Vec<u8>,
}

impl Started {
    pub fn of(tid: Tid) -> Started {
        let read = |name: &str| proc::read(proc::path(tid, name)).unwrap_or_default();
        let link = |name: &str| proc::link(tid, name).unwrap_or_default().into_os_string().into_vec();
        let (argv, envp) = (split_nul(&read("cmdline")), split_nul(&read("environ")));
        Started { path: link("exe"), argv, envp, cwd: link("cwd") }
    }

    /// How a fresh image was started, whose stack is among `writes`: the kernel has just put the words there.
    fn of_fresh(tid: Tid, regs: &Registers, writes: &[MemWrite]) -> Started {
        let Some([argv, envp]) = words_on_stack(regs, writes) else { return Started::of(tid) };
        let link = |name: &str| proc::link(tid, name).unwrap_or_default().into_os_string().into_vec();
        Started { path: link("exe"), argv, envp, cwd: link("cwd") }
    }

    /// The program, and its current folder.
    fn places(&self) -> (&Path, &Path) {
        (Path::new(OsStr::from_bytes(&self.path)), Path::new(OsStr::from_bytes(&self.cwd)))
    }
}

/// The arguments and the variables with which a fresh image begins. None where they cannot be told: a page of
/// zeros lies among them.
fn words_on_stack(regs: &Registers, writes: &[MemWrite]) -> Option<[Vec<Vec<u8>>; 2]> {
    let len = if regs.is_narrow() { 4 } else { 8 };
    let end = |write: &MemWrite| write.addr + write.data.len() as u64;
    let stack = writes.iter().find(|write| (write.addr..end(write)).contains(&regs.sp()))?;
    let at = |addr: Addr| stack.data.get(usize::try_from(addr.checked_since(stack.addr)?).ok()?..);
    let word = |index: usize| {
        let bytes = at(regs.sp() + (index * len) as u64)?.get(..len)?;
        Some(bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    };
    // argc, the arguments and a null, the variables and a null.
    let words = |from: usize| {
        let mut words = Vec::new();
        loop {
            let bytes = match word(from + words.len())? {
                0 => return Some(words),
                pointer => at(Addr(pointer))?,
            };
            words.push(bytes[..bytes.iter().position(|byte| *byte == 0)?].to_vec());
        }
    };
    let argv = words(1)?;
    let envp = words(1 + argv.len() + 1)?;
    // A single empty word is none in /proc.
    let is_plain = |words: &[Vec<u8>]| !matches!(words, [only] if only.is_empty());
    (word(0)? == argv.len() as u64 && is_plain(&argv) && is_plain(&envp)).then_some([argv, envp])
}

/// Takes out of a fresh image's auxiliary values what tells of an instruction beyond the level: AT_HWCAP2 has
/// a bit for `rdfsbase` and its relatives (arch/x86/include/uapi/asm/hwcap2.h). (AT_HWCAP has only what every
/// 64-bit processor has.)
fn hide_instructions(level: Level, memory: &Memory, regs: &Registers) -> Result<()> {
    const FSGSBASE: u64 = 1 << 1;
    if level == Level::Native {
        return Ok(());
    }
    let len = if regs.is_narrow() { 4 } else { 8 };
    let word = |addr: Addr| -> Result<u64> {
        Ok(if len == 8 { memory.read_u64(addr)? } else { memory.read_u32(addr)?.into() })
    };
    // argc, the arguments and a null, the variables and a null, pairs that end with AT_NULL.
    let mut at = regs.sp() + len * (word(regs.sp())? + 2);
    while word(at)? != 0 {
        at += len;
    }
    at += len;
    loop {
        let (key, value) = (word(at)?, word(at + len)?);
        if key == libc::AT_NULL {
            return Ok(());
        }
        if key == libc::AT_HWCAP2 {
            // The bit is in the first byte, however long the word is.
            let byte = (value & !FSGSBASE).to_le_bytes()[0];
            memory.write(at + len, &[byte])?;
        }
        at += 2 * len;
    }
}

/// What a fresh image consists of.
#[derive(Default)]
struct Parts<'a> {
    effects: Vec<Effect>,
    writes: Vec<MemWrite>,
    /// The files that are mapped, each with its first mapping.
    files: Vec<(&'a Mapping, File)>,
}

/// Everything that a task's address space is made of.
fn image_of<'a>(session: &Session, tid: Tid, memory: &Memory, mappings: &'a [Mapping]) -> Result<Parts<'a>> {
    let Parts { mut effects, mut writes, mut files } = Parts::default();
    // A file is mapped in several parts, and is opened for the first.
    let mut known: Vec<(&Mapping, FileId)> = Vec::new();
    for mapping in mappings {
        if mapping.is_vvar() || mapping.start == Addr(AGENT_BASE) {
            continue;
        }
        let (addr, len, prot) = (mapping.start, mapping.len(), mapping.prot);
        let file = match known.iter().find(|(other, _)| other.is_of_same_file(mapping)) {
            Some((_, kept)) => Some(*kept),
            None if mapping.inode == 0 => None,
            None => match open_mapped(tid, mapping) {
                Some(file) => {
                    let kept = session.keep(&file, &mapping.name)?;
                    files.push((mapping, file));
                    Some(kept)
                }
                None => None,
            },
        };
        if let Some(file) = file {
            known.push((mapping, file));
            effects.push(Effect::Map {
                addr,
                len,
                prot,
                backing: Backing::File { file, offset: mapping.offset },
            });
            if prot & prot::WRITE != 0 {
                // The kernel has cleared the rest of the last page of the file's part.
                writes.extend(
                    memory
                        .read_vec(mapping.end - PAGE, PAGE_LEN)
                        .ok()
                        .map(|data| MemWrite { addr: mapping.end - PAGE, data }),
                );
            }
        } else if mapping.name == b"[stack]" {
            let floor = stack_floor(mappings, mapping, stack_limit_or_most(tid));
            effects.push(Effect::Map {
                addr: floor,
                len: mapping.end - floor,
                prot,
                backing: Backing::Stack,
            });
            writes.extend(content(tid, memory, mapping)?);
        } else {
            effects.push(Effect::Map { addr, len, prot, backing: Backing::Anonymous });
            writes.extend(content(tid, memory, mapping)?);
        }
    }
    Ok(Parts { effects, writes, files })
}

/// What is ours in every fresh image: the agent, and what the vdso's functions have become.
pub fn say_ours(vdso: Option<&Vdso>, outcome: &mut Outcome) {
    let ours = outcome.ours();
    ours.areas.push(Area { addr: Addr(AGENT_BASE), len: AGENT_LEN, kind: AreaKind::Agent });
    let changed = vdso.into_iter().flat_map(Vdso::changed);
    ours.diverted.extend(changed.map(|(addr, original, is_function)| Diverted {
        addr,
        original: original.to_vec(),
        is_function,
    }));
}

fn split_nul(bytes: &[u8]) -> Vec<Vec<u8>> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() { Vec::new() } else { bytes.split(|b| *b == 0).map(<[u8]>::to_vec).collect() }
}

impl Domain {
    /// A domain around a task that stands at the exit of a successful execve. Prepares the address space and
    /// writes the first event.
    pub fn from_exec(
        session: &Arc<Session>,
        id: DomainId,
        mut task: Task,
        ppid: Tid,
        core: usize,
    ) -> Result<Domain> {
        let tid = task.tid;
        let memory = Memory::open(tid)?;
        session.limits.begin(tid);
        let handle = std::mem::replace(&mut task.handle, crate::task::Handle::Taken);
        let crate::task::Handle::Stopped(stopped) = handle else {
            return Err(RecordError::Bug { tid, what: "an exec that is not stopped".into() });
        };
        let mut slot: Option<Stopped> = Some(stopped);
        let prepared = image::prepare_recorded(&mut slot, &memory)?;
        let Some(stopped) = slot else {
            return Err(RecordError::Bug { tid, what: "lost while its image was prepared".into() });
        };
        let mappings = prepared.mappings;
        hide_instructions(session.options.cpu, &memory, &stopped.regs()?)?;
        let Parts { effects, writes, files } = image_of(session, tid, &memory, &mappings)?;
        let regs = Registers { orig_rax: u64::MAX, ..stopped.regs()? };
        let xstate = Some(stopped.xstate()?);
        let started = Started::of_fresh(tid, &regs, &writes);
        task.handle = crate::task::Handle::Stopped(stopped);
        task.named.forget_alt_stack();
        session.mail.join(tid, id);
        let mut space = AddressSpace::fresh(prepared.brk, &effects).of_bits(regs.bits());
        space.set_stack_limit(stack_limit_or_most(tid));
        let mut domain = Domain::new(session, id, memory, space, task, core);
        let mut outcome = Outcome { regs, xstate, effects, writes, ..Outcome::default() };
        say_ours(prepared.vdso.as_ref(), &mut outcome);
        with_slot(&mut domain, tid, |domain, slot| domain.begin_hooks(slot, started.places(), &mut outcome))?;
        domain.patch_image(tid, (&mappings, &files), &mut outcome)?;
        domain.settle_on_core(tid);
        domain.patch_vdso(tid, prepared.vdso.as_ref(), &mut outcome)?;
        domain.begin_clock(tid)?;
        // Where it could not be taken back before the exec, it is too high by what the old image had of ours.
        domain.renew_limit(tid)?;
        let Started { path, argv, envp, cwd } = started;
        domain.recorder().start(ppid, Base::Exec { path, argv, envp, cwd }, outcome)?;
        Ok(domain)
    }

    /// Starts the program itself, in the calling thread.
    pub fn first(session: &Arc<Session>) -> Result<Domain> {
        let spec = session.spawn_spec(Mode::Record)?;
        let id = session.new_domain_id();
        let (core, watched) = session.settle(id);
        let stopped = spawn_in(spec, &watched.seat)?;
        let tid = stopped.tid();
        session.set_root(tid);
        let domain = Domain::from_exec(session, id, Task::new(stopped, tid), parent_of(tid), core)?;
        session.cores.stay(domain.core);
        if domain.is_told_its_core() {
            domain.pin();
        }
        Ok(domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SP: u64 = 0x7fff_ffff_e010;

    /// A stack from a page's begin on, as the kernel makes one, with words of so many bytes.
    fn stack(argc: u64, lists: [&[&[u8]]; 2], len: usize) -> MemWrite {
        let count = 1 + lists.iter().map(|list| list.len() + 1).sum::<usize>();
        let strings_at = SP + (count * len) as u64;
        let (mut words, mut strings) = (vec![argc], Vec::new());
        for list in lists {
            for word in list {
                words.push(strings_at + strings.len() as u64);
                strings.extend([word, &b"\0"[..]].concat());
            }
            words.push(0);
        }
        let words = words.iter().flat_map(|word| word.to_le_bytes()[..len].to_vec());
        MemWrite { addr: Addr(SP - 0x10), data: [0; 0x10].into_iter().chain(words).chain(strings).collect() }
    }

    fn registers() -> Registers {
        Registers { rsp: SP, cs: 0x33, ..Registers::default() }
    }

    #[test]
    fn the_words_of_a_fresh_image_are_those_on_its_stack() {
        let (argv, envp): (&[&[u8]], &[&[u8]]) = (&[b"a", b"", b"-x y"], &[b"HOME=/", b"="]);
        let elsewhere = MemWrite { addr: Addr(0x1000), data: vec![1; 64] };
        let writes = [elsewhere, stack(3, [argv, envp], 8)];
        let owned = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        assert_eq!(words_on_stack(&registers(), &writes), Some([owned(argv), owned(envp)]));
        assert_eq!(
            words_on_stack(&registers(), &[stack(1, [&[b"a"], &[]], 8)]),
            Some([owned(&[b"a"]), vec![]])
        );
    }

    #[test]
    fn words_that_are_not_all_there_are_not_told() {
        let whole = stack(2, [&[b"a", b"b"], &[b"c=d"]], 8);
        for len in 0..whole.data.len() {
            let part = MemWrite { addr: whole.addr, data: whole.data[..len].to_vec() };
            assert_eq!(words_on_stack(&registers(), &[part]), None, "{len}");
        }
        assert_eq!(words_on_stack(&registers(), &[]), None);
        assert_eq!(words_on_stack(&registers(), &[stack(3, [&[b"a", b"b"], &[]], 8)]), None);
        assert_eq!(words_on_stack(&registers(), &[stack(1, [&[b""], &[]], 8)]), None);
    }
}
