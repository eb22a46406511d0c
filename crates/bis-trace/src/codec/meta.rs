//! Meta entries, from and to Cap'n Proto.

use super::{
    Malformed, Result, check_domain, check_name, check_tid,
    decode::{base, data_list, domain, stream, task_end, tid},
    encode, require,
};
use crate::{
    bis_capnp as schema,
    event::{DomainEntry, FileEntry, Kept, Machine, Meta, Refusal, When},
    types::{EventSeq, FileId, ObjectId, Tid},
};

pub(super) fn encode(entry: &Meta, mut to: schema::meta::Builder<'_>) -> Result<()> {
    match entry {
        Meta::Machine(entry) => machine_to(entry, to.init_machine())?,
        Meta::File(entry) => file_to(entry, to.init_file())?,
        Meta::Domain(entry) => domain_to(entry, to.init_domain())?,
        Meta::Task { domain, tid, pid, seq } => {
            check_domain(domain.0)?;
            check_tid(tid.0)?;
            check_tid(pid.0)?;
            let mut to = to.init_task();
            to.set_domain(domain.0);
            to.set_tid(tid.0);
            to.set_pid(pid.0);
            to.set_seq(seq.0);
        }
        Meta::TaskEnd { domain, tid, status, seq } => {
            check_domain(domain.0)?;
            check_tid(tid.0)?;
            let mut to = to.init_task_end();
            to.set_domain(domain.0);
            to.set_tid(tid.0);
            to.set_seq(seq.0);
            encode::task_end(*status, to.init_status())?;
        }
        Meta::DomainEnd { domain, seq, event_count } => {
            check_domain(domain.0)?;
            let mut to = to.init_domain_end();
            to.set_domain(domain.0);
            to.set_seq(seq.0);
            to.set_event_count(*event_count);
        }
        Meta::Echo { seq, domain, stream, len } => {
            check_domain(domain.0)?;
            let mut to = to.init_echo();
            to.set_seq(seq.0);
            to.set_domain(domain.0);
            to.set_fd(stream.number());
            to.set_len(*len);
        }
        Meta::Share { object, domain } => {
            check_domain(domain.0)?;
            let mut to = to.init_share();
            to.set_object(object.0);
            to.set_domain(domain.0);
        }
        Meta::Note { seq, text } => {
            let mut to = to.init_note();
            to.set_seq(seq.0);
            to.set_text(text.as_str());
        }
        Meta::End { exit_code, seq } => {
            let mut to = to.init_end();
            to.set_exit_code(*exit_code);
            to.set_seq(seq.0);
        }
        Meta::Cut { why } => to.set_cut(why.as_str()),
    }
    Ok(())
}

fn machine_to(machine: &Machine, mut to: schema::machine::Builder<'_>) -> Result<()> {
    to.set_bis_version(machine.bis_version.as_str());
    to.set_kernel(machine.kernel.as_str());
    to.set_cpu(machine.cpu.as_str());
    to.set_cpuid_faulting(machine.cpuid_faulting);
    to.set_core_count(machine.core_count);
    to.set_tick_source(machine.tick_source.as_str());
    to.set_hooks(machine.hooks);
    to.set_checksums(machine.checksums);
    to.set_started_s(machine.started_s);
    encode::data_list(&machine.argv, to.reborrow().init_argv(encode::count(machine.argv.len())?));
    to.set_cwd(&machine.cwd);
    to.set_xcr0(machine.xcr0);
    to.set_features(&machine.features[..])?;
    let mut refused = to.init_refused(encode::count(machine.refused.len())?);
    for (index, refusal) in (0..).zip(&machine.refused) {
        refusal_to(*refusal, refused.reborrow().get(index));
    }
    Ok(())
}

fn refusal_to(refusal: Refusal, mut to: schema::refusal::Builder<'_>) {
    let (when, arg, word) = match refusal.when {
        When::Always => (schema::refusal::When::Always, 0, 0),
        When::Equal { arg, word } => (schema::refusal::When::Equal, arg, word),
        When::HasBits { arg, bits } => (schema::refusal::When::HasBits, arg, bits),
    };
    to.set_nr(refusal.nr);
    to.set_errno(refusal.errno);
    to.set_when(when);
    to.set_arg(arg);
    to.set_word(word);
}

fn file_to(entry: &FileEntry, mut to: schema::file_entry::Builder<'_>) -> Result<()> {
    check_name(&entry.name)?;
    to.set_file(entry.file.0);
    to.set_name(entry.name.as_str());
    to.set_kept(match entry.kept {
        Kept::Reflink => schema::file_entry::Kept::Reflink,
        Kept::HardLink => schema::file_entry::Kept::HardLink,
        Kept::Copy => schema::file_entry::Kept::Copy,
    });
    to.set_path(&entry.path);
    to.set_len(entry.len);
    to.set_mtime_ns(entry.mtime_ns);
    to.set_digest(&entry.digest);
    Ok(())
}

fn domain_to(entry: &DomainEntry, mut to: schema::domain_entry::Builder<'_>) -> Result<()> {
    check_domain(entry.domain.0)?;
    check_tid(entry.pid.0)?;
    check_parent(entry.ppid)?;
    check_tid(entry.tid.0)?;
    to.set_domain(entry.domain.0);
    to.set_pid(entry.pid.0);
    to.set_ppid(entry.ppid.0);
    to.set_tid(entry.tid.0);
    to.set_seq(entry.seq.0);
    encode::base(&entry.base, to.init_base())
}

/// A parent outside of the program's pid namespace is 0.
fn check_parent(ppid: Tid) -> Result<()> {
    require(ppid.0 >= 0, || format!("there is no process {ppid}"))
}

fn text(from: capnp::text::Reader<'_>) -> Result<String> {
    from.to_string().map_err(|_| Malformed("a text in it is not UTF-8".into()))
}

pub(super) fn decode(from: schema::meta::Reader<'_>) -> Result<Meta> {
    use schema::meta::Which;
    Ok(match from.which()? {
        Which::Machine(from) => Meta::Machine(Box::new(machine(from?)?)),
        Which::File(from) => Meta::File(file(from?)?),
        Which::Domain(from) => {
            let from = from?;
            let ppid = Tid(from.get_ppid());
            check_parent(ppid)?;
            Meta::Domain(DomainEntry {
                domain: domain(from.get_domain())?,
                pid: tid(from.get_pid())?,
                ppid,
                tid: tid(from.get_tid())?,
                base: base(from.get_base()?)?,
                seq: EventSeq(from.get_seq()),
            })
        }
        Which::Task(from) => {
            let from = from?;
            Meta::Task {
                domain: domain(from.get_domain())?,
                tid: tid(from.get_tid())?,
                pid: tid(from.get_pid())?,
                seq: EventSeq(from.get_seq()),
            }
        }
        Which::TaskEnd(from) => {
            let from = from?;
            Meta::TaskEnd {
                domain: domain(from.get_domain())?,
                tid: tid(from.get_tid())?,
                status: task_end(from.get_status()?)?,
                seq: EventSeq(from.get_seq()),
            }
        }
        Which::DomainEnd(from) => {
            let from = from?;
            Meta::DomainEnd {
                domain: domain(from.get_domain())?,
                seq: EventSeq(from.get_seq()),
                event_count: from.get_event_count(),
            }
        }
        Which::Echo(from) => {
            let from = from?;
            Meta::Echo {
                seq: EventSeq(from.get_seq()),
                domain: domain(from.get_domain())?,
                stream: stream(from.get_fd())?,
                len: from.get_len(),
            }
        }
        Which::Share(from) => {
            let from = from?;
            Meta::Share { object: ObjectId(from.get_object()), domain: domain(from.get_domain())? }
        }
        Which::Note(from) => {
            let from = from?;
            Meta::Note { seq: EventSeq(from.get_seq()), text: text(from.get_text()?)? }
        }
        Which::End(from) => {
            let from = from?;
            Meta::End { exit_code: from.get_exit_code(), seq: EventSeq(from.get_seq()) }
        }
        Which::Cut(why) => Meta::Cut { why: text(why?)? },
    })
}

/// More words than any processor has, against traces that were made to use up memory.
const FEATURES_MAX: u32 = 1024;

/// As many refused calls as a filter has room for (BPF_MAXINSNS), and more than bis ever asks for.
const REFUSED_MAX: usize = 700;

fn machine(from: schema::machine::Reader<'_>) -> Result<Machine> {
    Ok(Machine {
        bis_version: text(from.get_bis_version()?)?,
        kernel: text(from.get_kernel()?)?,
        cpu: text(from.get_cpu()?)?,
        cpuid_faulting: from.get_cpuid_faulting(),
        core_count: from.get_core_count(),
        tick_source: text(from.get_tick_source()?)?,
        hooks: from.get_hooks(),
        checksums: from.get_checksums(),
        started_s: from.get_started_s(),
        argv: data_list(from.get_argv()?)?,
        cwd: from.get_cwd()?.to_vec(),
        xcr0: from.get_xcr0(),
        features: {
            let words = from.get_features()?;
            (0..words.len().min(FEATURES_MAX)).map(|index| words.get(index)).collect()
        },
        refused: from.get_refused()?.iter().take(REFUSED_MAX).map(refusal).collect::<Result<_>>()?,
    })
}

fn refusal(from: schema::refusal::Reader<'_>) -> Result<Refusal> {
    let (arg, word, errno) = (from.get_arg(), from.get_word(), from.get_errno());
    require(arg <= 5, || format!("a call has no argument {arg}"))?;
    require((1..=4095).contains(&errno), || format!("there is no error {errno}"))?;
    let when = match from.get_when()? {
        schema::refusal::When::Always => When::Always,
        schema::refusal::When::Equal => When::Equal { arg, word },
        schema::refusal::When::HasBits => When::HasBits { arg, bits: word },
    };
    Ok(Refusal { nr: from.get_nr(), when, errno })
}

fn file(from: schema::file_entry::Reader<'_>) -> Result<FileEntry> {
    let name = text(from.get_name()?)?;
    check_name(&name)?;
    let digest = from.get_digest()?;
    Ok(FileEntry {
        file: FileId(from.get_file()),
        name,
        kept: match from.get_kept()? {
            schema::file_entry::Kept::Reflink => Kept::Reflink,
            schema::file_entry::Kept::HardLink => Kept::HardLink,
            schema::file_entry::Kept::Copy => Kept::Copy,
        },
        path: from.get_path()?.to_vec(),
        len: from.get_len(),
        mtime_ns: from.get_mtime_ns(),
        digest: digest
            .try_into()
            .map_err(|_| Malformed(format!("a digest takes 32 bytes, it has {}", digest.len())))?,
    })
}
