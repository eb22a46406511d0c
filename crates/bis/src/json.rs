//! Events as JSON, for `bis dump --json`: the whole model, one object for each event. Names are those of the
//! model (`bis-trace`); registers are an object of hexadecimal strings, bytes are hexadecimal, and names that
//! the program gave (paths, arguments) are text, with escapes for bytes that are none.

use bis_agent::hooks::entries;
use bis_syscalls::{Call, describe};
use bis_trace::{
    event::{
        Backing, Base, Cloned, Echo, Effect, Event, EventKind, Insn, LastWay, MemWrite, Outcome, PausePlace,
        RangeSum, SignalPoint, TaskEnd, Turn,
    },
    ours::{Area, AreaKind, DenseText, Diverted, Fault, Guard, Ours, Patch, PatchedText, Pool},
    types::{Addr, REGISTER_NAMES, Registers, Tid},
};
use serde_json::{Map, Value, json};

pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn address(value: u64) -> Value {
    format!("{value:#x}").into()
}

fn registers(registers: &Registers) -> Value {
    let words = registers.words();
    REGISTER_NAMES
        .iter()
        .zip(words)
        .map(|(name, word)| ((*name).to_owned(), address(word)))
        .collect::<Map<_, _>>()
        .into()
}

/// Bytes as a string. What JSON cannot have of them is escaped; the rest it escapes itself.
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

fn strings(list: &[Vec<u8>]) -> Value {
    list.iter().map(|item| Value::from(text(item))).collect()
}

fn echo(echo: &Echo) -> Value {
    let ranges: Value =
        echo.ranges.iter().map(|(addr, len)| json!({"addr": address(addr.0), "len": len})).collect();
    json!({"fd": echo.stream.number(), "ranges": ranges, "sum": (echo.sum != 0).then(|| address(echo.sum))})
}

fn outcome(outcome: &Outcome) -> Value {
    json!({
        "regs": registers(&outcome.regs),
        "xstate": outcome.xstate.as_deref().map(hex),
        "effects": outcome.effects.iter().map(effect).collect::<Value>(),
        "clones": outcome.clones.iter().map(cloned).collect::<Value>(),
        "writes": outcome.writes.iter().map(write).collect::<Value>(),
        "echo": outcome.echo.as_ref().map(echo),
        "ours": outcome.ours.as_deref().map(ours),
    })
}

fn ours(ours: &Ours) -> Value {
    let area = |area: &Area| {
        let kind = match area.kind {
            AreaKind::Agent => "agent",
            AreaKind::Hooks => "hooks",
            AreaKind::HookState => "hook_state",
            AreaKind::Arena => "arena",
        };
        json!({"kind": kind, "addr": address(area.addr.0), "len": area.len})
    };
    let own = |(addr, len): &(Addr, u64)| json!({"addr": address(addr.0), "len": len});
    let diverted = |part: &Diverted| {
        let original = hex(&part.original);
        json!({"addr": address(part.addr.0), "original": original, "is_function": part.is_function})
    };
    let pool = |pool: &Pool| {
        let Pool { addr, len, bias, map } = *pool;
        json!({"addr": address(addr.0), "len": len, "bias": address(bias), "map": map.0})
    };
    let dense = |text: &DenseText| {
        let DenseText { addr, len, pool, file, offset } = *text;
        json!({"addr": address(addr.0), "len": len, "pool": address(pool.0), "file": file.0, "offset": offset})
    };
    let patched = |text: &PatchedText| {
        let PatchedText { addr, len, file, offset, set, at } = *text;
        json!({"addr": address(addr.0), "len": len, "file": file.0, "offset": offset, "set": set.0, "at": at})
    };
    let fault = |fault: &Fault| {
        let original = hex(&fault.original);
        json!({"site": address(fault.site.0), "insn": instruction(fault.insn), "original": original})
    };
    let guard = |guard: &Guard| json!({"page": address(guard.page.0), "prot": guard.prot});
    json!({
        "own": ours.own.iter().map(own).collect::<Value>(),
        "areas": ours.areas.iter().map(area).collect::<Value>(),
        "diverted": ours.diverted.iter().map(diverted).collect::<Value>(),
        "pools": ours.pools.iter().map(pool).collect::<Value>(),
        "dense": ours.dense.iter().map(dense).collect::<Value>(),
        "patched": ours.patched.iter().map(patched).collect::<Value>(),
        "patches": ours.patches.iter().map(|one| patch(one)).collect::<Value>(),
        "faults": ours.faults.iter().map(fault).collect::<Value>(),
        "guards": ours.guards.iter().map(guard).collect::<Value>(),
    })
}

fn patch(patch: &Patch) -> Value {
    let place = |(from, to): (Addr, Addr)| json!([address(from.0), address(to.0)]);
    json!({
        "start": address(patch.start.0),
        "original": hex(&patch.original),
        "trampoline": address(patch.trampoline.0),
        "trampoline_len": patch.trampoline_len,
        "site": address(patch.site().0),
        "insn": patch.insn.map_or("syscall", instruction),
        "places": patch.places().map(place).collect::<Value>(),
    })
}

fn cloned(cloned: &Cloned) -> Value {
    let Cloned { addr, offset, len, sum } = *cloned;
    json!({"addr": address(addr.0), "offset": offset, "len": len, "sum": format!("{sum:016x}")})
}

fn write(write: &MemWrite) -> Value {
    json!({"addr": address(write.addr.0), "data": hex(&write.data)})
}

fn backing(backing: &Backing) -> Value {
    match *backing {
        Backing::Anonymous => json!({"kind": "anonymous"}),
        Backing::Stack => json!({"kind": "stack"}),
        Backing::File { file, offset } => json!({"kind": "file", "file": file.0, "offset": offset}),
        Backing::Shared { object, offset } => json!({"kind": "shared", "object": object.0, "offset": offset}),
    }
}

fn effect(effect: &Effect) -> Value {
    match effect {
        Effect::Map { addr, len, prot, backing: on } => json!({
            "kind": "map", "addr": address(addr.0), "len": len, "prot": prot, "backing": backing(on),
        }),
        Effect::Unmap { addr, len } => json!({"kind": "unmap", "addr": address(addr.0), "len": len}),
        Effect::Protect { addr, len, prot } => {
            json!({"kind": "protect", "addr": address(addr.0), "len": len, "prot": prot})
        }
        Effect::Remap { addr, old_len, new_addr, new_len, keep } => json!({
            "kind": "remap", "addr": address(addr.0), "old_len": old_len, "new_addr": address(new_addr.0),
            "new_len": new_len, "keep": keep,
        }),
        Effect::Advise { addr, len, advice } => {
            json!({"kind": "advise", "addr": address(addr.0), "len": len, "advice": advice})
        }
        Effect::NewObject { object, len, content } => {
            json!({"kind": "new_object", "object": object.0, "len": len, "content": content.map(|file| file.0)})
        }
        Effect::WriteObject { object, offset, data } => {
            json!({"kind": "write_object", "object": object.0, "offset": offset, "data": hex(data)})
        }
        Effect::ResizeObject { object, len } => {
            json!({"kind": "resize_object", "object": object.0, "len": len})
        }
        Effect::ClearObject { object, offset, len } => {
            json!({"kind": "clear_object", "object": object.0, "offset": offset, "len": len})
        }
        Effect::NewTask { tid, regs, .. } => {
            json!({"kind": "new_task", "tid": tid.0, "regs": registers(regs)})
        }
        Effect::SetTask { tid, regs, .. } => {
            json!({"kind": "set_task", "tid": tid.0, "regs": registers(regs)})
        }
        Effect::Segment { tid, descriptor } => {
            json!({"kind": "segment", "tid": tid.0, "descriptor": hex(descriptor)})
        }
        Effect::Fork { domain, tid } => json!({"kind": "fork", "domain": domain.0, "tid": tid.0}),
    }
}

fn base(base: &Base) -> Value {
    match base {
        Base::Exec { path, argv, envp, cwd } => json!({
            "kind": "exec", "path": text(path), "argv": strings(argv), "envp": strings(envp),
            "cwd": text(cwd),
        }),
        Base::Image { path, argv, envp, cwd, .. } => json!({
            "kind": "image", "path": text(path), "argv": strings(argv), "envp": strings(envp),
            "cwd": text(cwd),
        }),
        Base::Fork { parent, at } => json!({"kind": "fork", "parent": parent.0, "at": at.0}),
    }
}

fn call(nr: u64) -> Value {
    bis_syscalls::name(nr).map_or(Value::Null, Value::from)
}

fn turns(turns: &[Turn]) -> Value {
    turns.iter().map(|turn| json!({"object": turn.object.0, "turn": turn.turn})).collect()
}

fn sum(sum: &RangeSum) -> Value {
    let RangeSum { addr, len, sum, is_stack } = *sum;
    json!({"addr": address(addr.0), "len": len, "sum": format!("{sum:016x}"), "stack": is_stack})
}

fn last_way(way: LastWay) -> &'static str {
    match way {
        LastWay::None => "none",
        LastWay::Log => "log",
        LastWay::Call => "call",
    }
}

fn point(point: SignalPoint) -> &'static str {
    match point {
        SignalPoint::Fault => "fault",
        SignalPoint::AfterEvent => "after_event",
        SignalPoint::BeforeSyscall => "before_syscall",
        SignalPoint::Anywhere => "anywhere",
        SignalPoint::AfterHook => "after_hook",
    }
}

pub fn instruction(insn: Insn) -> &'static str {
    insn.name()
}

pub fn task_end(end: TaskEnd) -> Value {
    match end {
        TaskEnd::Exited(code) => json!({"kind": "exited", "code": code}),
        TaskEnd::Killed(signal) => json!({"kind": "killed", "signal": signal.to_string()}),
        TaskEnd::Exec(domain) => json!({"kind": "exec", "domain": domain.0}),
        TaskEnd::Dethreaded => json!({"kind": "dethreaded"}),
    }
}

/// The kind's name, the same as that of `dump --kind`, and what belongs to the kind.
fn kind(event: &EventKind) -> (&'static str, Value) {
    match event {
        EventKind::Start(start) => {
            let outcome = outcome(&start.outcome);
            ("start", json!({"base": base(&start.base), "core": start.core, "outcome": outcome}))
        }
        EventKind::Syscall { nr, entry, outcome: after } => {
            let made = Call { nr: *nr, args: entry.args_of(*nr) };
            let text = describe(&made, Some(after.regs.result_of(*nr)));
            let value = json!({
                "nr": nr, "call": call(*nr), "args": entry.args_of(*nr).map(address), "result": after.regs.result_of(*nr),
                "text": text, "entry": registers(entry), "outcome": outcome(after),
            });
            ("syscall", value)
        }
        EventKind::SyscallEnter { nr, entry } => {
            let text = describe(&Call { nr: *nr, args: entry.args_of(*nr) }, None);
            let args = entry.args_of(*nr).map(address);
            (
                "enter",
                json!({"nr": nr, "call": call(*nr), "args": args, "text": text, "entry": registers(entry)}),
            )
        }
        EventKind::SyscallExit { nr, outcome: after } => {
            let result = after.regs.result_of(*nr);
            ("exit", json!({"nr": nr, "call": call(*nr), "result": result, "outcome": outcome(after)}))
        }
        EventKind::Signal(signal) => {
            let value = json!({
                "signal": signal.signal.to_string(), "siginfo": hex(&signal.siginfo), "point": point(signal.point),
                "before": registers(&signal.before), "handler": signal.handler.as_ref().map(outcome),
            });
            ("signal", value)
        }
        EventKind::Instruction { insn, before, after } => {
            let insn = instruction(*insn);
            ("instruction", json!({"insn": insn, "before": registers(before), "after": registers(after)}))
        }
        EventKind::TaskExit { status, outcome: after, last_way: way } => {
            let value =
                json!({"status": task_end(*status), "outcome": outcome(after), "last_way": last_way(*way)});
            ("task-exit", value)
        }
        EventKind::Token { acquired, released } => {
            ("token", json!({"acquired": turns(acquired), "released": turns(released)}))
        }
        EventKind::End => ("end", json!({})),
        EventKind::Pause(pause) => {
            let count = match pause.place {
                PausePlace::State => Value::Null,
                PausePlace::Count(count) => json!(count),
            };
            let trap = (pause.trap != 0).then_some(pause.trap);
            let regs = registers(&pause.regs);
            ("pause", json!({"count": count, "trap": trap, "span": hex(&pause.span), "regs": regs}))
        }
        EventKind::Hooked { alone, log } => {
            let calls: Vec<Value> = entries(log)
                .map(|entry| {
                    let result = if entry.left { Value::Null } else { json!(entry.result) };
                    let name = call(entry.nr.into());
                    let data = hex(entry.data);
                    json!({"nr": entry.nr, "call": name, "left": entry.left, "result": result, "data": data})
                })
                .collect();
            ("hooked", json!({"alone": alone, "calls": calls}))
        }
    }
}

/// One event as one object.
pub fn event(event: &Event, domain: u32, pid: Tid) -> Value {
    let (name, detail) = kind(&event.kind);
    let mut value = Map::new();
    value.insert("seq".into(), event.seq.0.into());
    value.insert("domain".into(), domain.into());
    value.insert("pid".into(), pid.0.into());
    value.insert("tid".into(), event.tid.0.into());
    value.insert("kind".into(), name.into());
    if let Value::Object(detail) = detail {
        value.extend(detail);
    }
    if let Some(ticks) = event.ticks {
        value.insert("ticks".into(), ticks.into());
    }
    if !event.sums.is_empty() {
        value.insert("sums".into(), event.sums.iter().map(sum).collect());
    }
    Value::Object(value)
}
