//! The codec: exact both ways, hard to hurt, and in step with the schema.

use std::{fs, path::Path, process::Command, sync::Arc};

use bytes::Bytes;
use proptest::prelude::*;

use super::{
    arbitrary::{event, meta, patch_set, plain},
    *,
};
use crate::{
    event::{Cloned, Insn, SignalEvent, SignalPoint},
    ours::Patch,
    types::{Addr, Signal, Tid},
};

proptest! {
    #[test]
    fn events_come_back(events in proptest::collection::vec(event(), 1..5)) {
        let mut buffer = Vec::new();
        for event in &events {
            write_event(event, &mut buffer).unwrap();
        }
        let mut rest = buffer.as_slice();
        for event in &events {
            prop_assert_eq!(&read_event(&mut rest).unwrap(), event);
        }
        prop_assert!(rest.is_empty());
        let (all, mut at) = (Bytes::from(buffer), 0);
        for event in &events {
            let read;
            (read, at) = read_event_at(&all, at, false).unwrap();
            let ours = |event: &Event| event.outcome().and_then(|outcome| outcome.ours.clone());
            prop_assert_eq!(ours(&read), None);
            prop_assert!(ours(event).is_some() || read == *event);
        }
    }

    #[test]
    fn sets_of_patches_come_back(set in patch_set(), flips in proptest::collection::vec(any::<(usize, u8)>(), 1..20)) {
        let mut bytes = write_set(&set).unwrap();
        prop_assert_eq!(&read_set(&bytes).unwrap(), &set);
        for (place, value) in flips {
            let place = place % bytes.len();
            bytes[place] = value;
        }
        let _ = read_set(&bytes);
    }

    #[test]
    fn metas_come_back(meta in meta()) {
        let mut buffer = Vec::new();
        write_meta(&meta, &mut buffer).unwrap();
        let mut rest = buffer.as_slice();
        prop_assert_eq!(read_meta(&mut rest).unwrap(), meta);
        prop_assert!(rest.is_empty());
    }

    /// No panic, and no more memory than the bytes warrant (it would be killed).
    #[test]
    fn nonsense_is_no_harm(event in event(), flips in proptest::collection::vec(any::<(usize, u8)>(), 1..20)) {
        let mut buffer = Vec::new();
        write_event(&event, &mut buffer).unwrap();
        for (place, value) in flips {
            let place = place % buffer.len();
            buffer[place] = value;
        }
        let _ = read_event(&mut buffer.as_slice());
        let _ = read_meta(&mut buffer.as_slice());
    }
}

#[test]
fn a_large_event_comes_back() {
    let event = plain(1, &vec![7; 200 << 20]);
    let mut buffer = Vec::new();
    write_event(&event, &mut buffer).unwrap();
    assert_eq!(content_bytes(&event), 200 << 20);
    assert_eq!(read_event(&mut buffer.as_slice()).unwrap(), event);
}

#[test]
fn a_message_cannot_be_read_many_times_over() {
    // 20,000 pointers to one megabyte: 20 GB, if it were believed.
    let argv = vec![vec![1u8; 16]; 20_000];
    // One segment: no far pointers.
    let mut message = Builder::new(capnp::message::HeapAllocator::new().first_segment_words(1 << 19));
    let mut exec = message.init_root::<schema::base::Builder<'_>>().init_exec();
    encode::data_list(&argv, exec.reborrow().init_argv(20_000));
    exec.set_path(&vec![2; 1 << 20]);
    let mut bytes = serialize::write_message_to_words(&message);
    // All elements of argv become the pointer of `path`, shifted to where they are. Found by its length
    // field.
    let words = bytes.len() / 8;
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap());
    let is_path = |word: u64| word & 3 == 1 && word >> 35 == 1 << 20 && word >> 32 & 7 == 2;
    let path = (0..words).find(|at| is_path(word(&bytes, *at))).unwrap();
    let target = path as u64 + 1 + (word(&bytes, path) >> 2 & 0x3fff_ffff);
    let is_item = |word: u64| word & 3 == 1 && word >> 35 == 16 && word >> 32 & 7 == 2;
    let items: Vec<usize> = (0..words).filter(|at| is_item(word(&bytes, *at))).collect();
    assert_eq!(items.len(), 20_000);
    for at in items {
        let pointer = (target - at as u64 - 1) << 2 | 1 | 2 << 32 | (1 << 20) << 35;
        bytes[at * 8..at * 8 + 8].copy_from_slice(&pointer.to_le_bytes());
    }
    let mut rest = bytes.as_slice();
    let message = read(&mut rest).unwrap();
    let error = decode::base(message.get_root().unwrap()).unwrap_err();
    assert!(error.0.contains("limit"), "{error}");
}

#[test]
fn rules_hold_when_writing() {
    let signal = |signal, siginfo_len| {
        let before = Registers::default();
        let siginfo = vec![0; siginfo_len];
        let event = SignalEvent { signal, siginfo, point: SignalPoint::Fault, before, handler: None };
        Event { kind: EventKind::Signal(Box::new(event)), ..plain(1, b"") }
    };
    let clone = |len| {
        let outcome =
            Outcome { clones: vec![Cloned { addr: Addr(1), offset: 0, len, sum: 5 }], ..Outcome::default() };
        Event { kind: EventKind::SyscallExit { nr: 0, outcome: Box::new(outcome) }, ..plain(1, b"") }
    };
    let patched = |change: fn(&mut Patch)| {
        let mut patch = Patch {
            start: Addr(0x1000),
            original: vec![0xc7, 0xf8, 0, 0, 0, 0],
            trampoline: Addr(0x9000),
            trampoline_len: 10,
            site: 0,
            insn: Some(Insn::Xbegin),
            moved: vec![[0, 0], [6, 5]],
            abort: Some(Addr(0x1006)),
        };
        change(&mut patch);
        let mut outcome = Outcome::default();
        outcome.ours().patches.push(Arc::new(patch));
        Event { kind: EventKind::SyscallExit { nr: 0, outcome: Box::new(outcome) }, ..plain(1, b"") }
    };
    let mut buffer = Vec::new();
    assert!(write_event(&patched(|_| ()), &mut buffer).is_ok());
    assert!(write_event(&clone(CLONED_BYTES_MAX), &mut buffer).is_ok());
    assert!(write_event(&signal(Signal(64), 128), &mut buffer).is_ok());
    let len = buffer.len();
    for bad in [
        signal(Signal(0), 128),
        signal(Signal(65), 128),
        signal(Signal(1), 127),
        Event { tid: Tid(0), ..plain(1, b"") },
        plain(0, b""),
        clone(0),
        clone(CLONED_BYTES_MAX + 1),
        patched(|patch| patch.original.clear()),
        patched(|patch| patch.original.resize(33, 0)),
        patched(|patch| patch.site = 6),
        patched(|patch| patch.moved[1] = [7, 5]),
        patched(|patch| patch.moved[1] = [6, 10]),
        patched(|patch| patch.abort = None),
        patched(|patch| patch.insn = None),
        patched(|patch| patch.abort = Some(Addr(1 << 40))),
    ] {
        assert!(write_event(&bad, &mut buffer).is_err(), "{bad:?}");
    }
    assert_eq!(buffer.len(), len);
}

#[test]
fn names_cannot_lead_out_of_the_folder() {
    for bad in ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\0", "A", &"a".repeat(256)] {
        assert!(check_name(bad).is_err(), "{bad:?}");
    }
    assert!(check_name("0a-").is_ok());
}

/// The usual event's cost in the log before compression; a change here should be meant.
#[test]
fn a_plain_call_is_small() {
    let mut buffer = Vec::new();
    write_event(&plain(1, b""), &mut buffer).unwrap();
    assert!(buffer.len() <= 400, "{} bytes", buffer.len());
}

#[test]
fn the_generated_code_is_of_this_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    if !has("capnp") || !has("capnpc-rust") {
        eprintln!("skipped: the capnp and capnpc-rust (cargo install capnpc) tools are not both here");
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let status = Command::new("capnp")
        .current_dir(root)
        .args(["compile", "--src-prefix=schema", "schema/bis.capnp"])
        .arg(format!("-orust:{}", out.path().display()))
        .status()
        .unwrap();
    assert!(status.success());
    let made = fs::read_to_string(out.path().join("bis_capnp.rs")).unwrap();
    let kept = fs::read_to_string(root.join("src/generated/bis_capnp.rs")).unwrap();
    // The tools' own versions stand in the first lines.
    let code = |text: &str| {
        text.lines().skip_while(|line| line.starts_with("//")).map(String::from).collect::<Vec<_>>()
    };
    assert!(
        code(&made) == code(&kept),
        "src/generated is not up to date: run `capnp compile -orust:src/generated --src-prefix=schema schema/bis.capnp` in {}",
        root.display()
    );
}
