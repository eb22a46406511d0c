//! The commands of `monitor`, which gdb's own commands for recordings are made of, and those of rr that Delve
//! and Midas send. The contract is at the head of `gdb_script.gdb`. They look, and they say where the next
//! resume goes; they move nothing.

use std::{fmt::Write as _, fs, os::unix::ffi::OsStrExt as _, str::FromStr, time::Duration};

use bis_trace::{
    shown,
    types::{Addr, EventSeq, Tid},
};

use super::{
    memory::{Listed, Memory, Spot, Target},
    processes::Entrance,
    served::Served,
};
use crate::session::{Report, Trouble, Why, intervals::Interval, place::Position};

/// A request that is refused.
struct Refused(String);

impl<T: std::fmt::Display> From<T> for Refused {
    fn from(error: T) -> Refused {
        Refused(error.to_string())
    }
}

type Answered = Result<String, Refused>;

/// A number that the user has written.
fn number<T: FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is not {what}"))
}

/// How many stops the user wants to go, one if nothing is said.
fn stops(text: Option<&str>) -> Result<usize, String> {
    text.map_or(Ok(1), |text| number(text, "how many stops"))
}

impl<'t> Served<'t> {
    /// The answer to `monitor`.
    pub(super) fn monitor(&mut self, request: &str) -> String {
        let mut words: Vec<&str> = request.split_whitespace().collect();
        let mut thread = None;
        if let [.., "thread", tid] = words.as_slice() {
            thread = tid.parse().ok().map(Tid);
            words.truncate(words.len() - 2);
        }
        self.asked(&words, thread).unwrap_or_else(|Refused(why)| format!("error: {why}\n"))
    }

    /// The answer to a command of rr.
    pub(super) fn rr_command(&mut self, name: &str, thread: Option<Tid>, arguments: &[String]) -> String {
        let words: Vec<&str> = name.split_whitespace().chain(arguments.iter().map(String::as_str)).collect();
        self.asked(&words, thread).unwrap_or_else(|Refused(why)| format!("{why}\n"))
    }

    fn asked(&mut self, words: &[&str], thread: Option<Tid>) -> Answered {
        let thread = thread.unwrap_or(self.session.tid());
        match words {
            ["bis"] => Ok(format!("bis {}\n", env!("CARGO_PKG_VERSION"))),
            ["when"] => Ok(format!("Completed event: {}\n", self.session.replica().done().0)),
            ["when-ticks"] => Ok(format!("Current tick: {}\n", self.session.replica().position())),
            ["when-tid"] => Ok(format!("Current tid: {thread}\n")),
            ["when-end"] => Ok(self.end()),
            ["elapsed-time"] => Ok(self.elapsed()),
            ["stopped"] => Ok(self.stopped()),
            ["means"] => {
                self.beside.meant = Some(thread);
                Ok("ok\n".into())
            }
            ["begins", "stopped"] => {
                self.memory.begins_stopped = true;
                Ok("ok\n".into())
            }
            ["where"] => Ok(self.where_it_is()),
            ["info", "recording"] => Ok(self.recording()),
            ["info", "checkpoints"] => Ok(self.kept()),
            ["written", rest @ ..] => self.written_like(rest.first().unwrap_or(&"")),
            ["say", text] => self.say(text, thread),
            ["prompt"] => Ok(self.at_prompt()),
            ["prompt", "shown"] => {
                self.has_prompt = true;
                // A `starti` that its user has thought better of.
                self.memory.begins_stopped = false;
                Ok(self.at_prompt())
            }
            ["libraries"] => Ok(match std::mem::take(&mut self.memory.listed) {
                Listed::Same => "same\n",
                Listed::Others => "others\n",
                Listed::Moved => {
                    self.memory.told_libraries.clear();
                    "moved\n"
                }
            }
            .into()),
            ["checkpoint", note @ ..] => Ok(self.keep(&note.join(" "))),
            ["delete", "checkpoint", number] | ["discard", number] => self.forget(number),
            ["checkpoint-interval", words @ ..] => self.set_interval(words),
            ["rollback"] => self.aim_at_latest_kept(),
            ["restart" | "rollback", number] => self.aim_at_kept(number),
            ["seek"] => Err(Refused("seek needs a place: an event's number, start or end".into())),
            ["restart"] => Err(Refused("restart needs the number of a checkpoint".into())),
            ["seek", place] => self.aim_at_place(place),
            ["back", rest @ ..] => self.aim_back(rest.first().copied()),
            ["forward", rest @ ..] => self.aim_forward(rest.first().copied()),
            ["process"] => Ok(self.processes()),
            ["process", name] => self.aim_at_process(name),
            ["divert"] => self.divert(thread),
            ["divert", "end"] => self.end_of_diversion(),
            ["catch-forks", on @ ("on" | "off")] => {
                self.session.catches_forks = *on == "on";
                Ok("ok\n".into())
            }
            ["search"] => Ok(self.search()),
            ["search", "end"] => {
                self.memory.search = None;
                Ok("ok\n".into())
            }
            ["watch-if", addr, len, codes @ ..] => self.set_watch_conditions(addr, len, Some(codes)),
            ["watch-unless", addr, len] => self.set_watch_conditions(addr, len, None),
            [] | ["help"] => Ok(HELP.into()),
            _ => {
                let what = format!("{:?} is no command of bis (monitor help lists them)", words.join(" "));
                Err(Refused(what))
            }
        }
    }

    /// Where the process ends.
    fn end(&self) -> String {
        let end = self.session.end_event();
        end.map_or("The recording does not say where the process ends.\n".into(), |end| format!("{end}\n"))
    }

    /// How long the program had run by now when it was recorded.
    fn elapsed(&self) -> String {
        match self.session.replica().elapsed() {
            Some(elapsed) => format!("Elapsed Time (s): {:.3}\n", elapsed.as_secs_f64()),
            None => "The recording is an older one, which does not have the times of its events.\n".into(),
        }
    }

    /// What the program has written that has this text in it, which is given in hexadecimal.
    fn written_like(&mut self, text: &str) -> Answered {
        let text = bytes(text).ok_or("the text is not hexadecimal")?;
        Ok(self.written(&text))
    }

    /// A breakpoint of the user's has printed this text, which is given in hexadecimal.
    fn say(&mut self, text: &str, thread: Tid) -> Answered {
        let bytes = bytes(text).ok_or("this is not hexadecimal")?;
        self.session.printed(thread, bytes);
        Ok("ok\n".into())
    }

    /// The user can type: what has become of a copy of the program meanwhile, or that its libraries were left
    /// behind.
    fn at_prompt(&mut self) -> String {
        let (is_gone, refused) = self.session.at_prompt();
        let state = if is_gone {
            "gone\n"
        } else if self.memory.listed == Listed::Moved {
            "left\n"
        } else {
            "same\n"
        };
        format!("{state}{}", refused.map_or_else(String::new, |refused| refused + "\n"))
    }

    /// The client looks for an answer, and shows what it finds. Until it says that this is over, a way back
    /// stops at changes of what is watched alone, and a breakpoint is told of where it ends in vain and
    /// where the client returns to: at the address that is the answer.
    fn search(&mut self) -> String {
        let tid = self.session.tid();
        self.memory.search = Some((self.position(), tid));
        let registers = self.session.replica().registers(tid).unwrap_or_default();
        format!("{:x}\n", registers.rip)
    }

    fn set_interval(&mut self, words: &[&str]) -> Answered {
        self.session.set_interval(interval(words)?);
        Ok("ok\n".into())
    }

    fn set_watch_conditions(&mut self, addr: &str, len: &str, codes: Option<&[&str]>) -> Answered {
        let (addr, len) = (Addr(u64::from_str_radix(addr, 16)?), u64::from_str_radix(len, 16)?);
        let Some(codes) = codes else {
            self.session.points.forget_watch_conditions(addr, len);
            return Ok("ok\n".into());
        };
        let codes: Option<Vec<_>> = codes.iter().map(|code| bytes(code)).collect();
        let codes = codes.ok_or("the expression is not hexadecimal")?;
        self.session.points.set_watch_conditions(addr, len, codes);
        Ok("ok\n".into())
    }

    /// From here on, the user has a copy of the program.
    fn divert(&mut self, thread: Tid) -> Answered {
        self.session.divert(thread).map_err(|refusal| Refused(refusal.text()))?;
        Ok("This is a copy of the program now: memory and registers can be written, and it runs on by itself.\n".into())
    }

    /// The next resume goes to where the program stands of which the user has a copy.
    fn end_of_diversion(&mut self) -> Answered {
        if !self.session.is_diverted() {
            return Err(Refused("this is no copy of the program".into()));
        }
        self.aim(self.spot(), None)
    }

    fn aim_at_latest_kept(&mut self) -> Answered {
        let last = self.memory.kept.last().map(|(_, spot, _)| spot.clone());
        self.aim(last.ok_or("there is no checkpoint")?, None)
    }

    fn aim_at_kept(&mut self, number: &str) -> Answered {
        let number: u64 = self::number(number.trim_start_matches('c'), "the number of a checkpoint")?;
        let found = self.memory.kept.iter().find(|(known, ..)| *known == number);
        let spot = found.map(|(_, spot, _)| spot.clone());
        self.aim(spot.ok_or_else(|| format!("there is no checkpoint {number}"))?, None)
    }

    fn aim_at_place(&mut self, place: &str) -> Answered {
        let position = match place {
            "start" => Position::at(self.session.first_event()),
            "end" => self.session.end_position().map_err(|trouble| trouble.text())?,
            place => place.parse::<Position>()?,
        };
        self.check_event(position.event)?;
        let domain = self.session.image_domain(position.event);
        self.aim(Spot { domain, position }, None)
    }

    /// So many stops back that the user has seen, one if nothing is said.
    fn aim_back(&mut self, stops: Option<&str>) -> Answered {
        // Out of a copy is one step back.
        let stops = self::stops(stops)?.saturating_sub(self.session.is_diverted().into());
        let to = self.memory.now.checked_sub(stops).ok_or("there is nothing before that")?;
        let spot = self.memory.seen.get(to).cloned().ok_or("there is nothing before that")?;
        self.aim(spot, Some(to))
    }

    fn aim_forward(&mut self, stops: Option<&str>) -> Answered {
        let to = self.memory.now.saturating_add(self::stops(stops)?);
        let spot = self.memory.seen.get(to).cloned().ok_or("there is nothing behind that")?;
        self.aim(spot, Some(to))
    }

    fn aim_at_process(&mut self, name: &str) -> Answered {
        let pid = self.process_named(name)?;
        if pid == self.pid() {
            return Ok("here\n".into());
        }
        let Entrance { domain, position, note } = self.entrance(pid)?;
        let answer = self.aim(Spot { domain, position }, None);
        self.memory.target.iter_mut().for_each(|target| target.note.clone_from(&note));
        answer
    }

    /// The next resume goes there.
    fn aim(&mut self, spot: Spot, seen: Option<usize>) -> Answered {
        if spot == self.spot() && !self.session.is_diverted() {
            self.memory.target = None;
            return Ok("here\n".into());
        }
        let text = if spot.domain == self.session.entry().domain {
            format!("go {}\n", spot.position)
        } else {
            let path = self.session.executable_of(spot.domain).unwrap_or_default();
            format!("load {}\n", String::from_utf8_lossy(&path))
        };
        self.memory.target = Some(Target { spot, note: None, seen });
        Ok(text)
    }

    /// Where the program stands.
    fn spot(&self) -> Spot {
        Spot { domain: self.session.entry().domain, position: self.position() }
    }

    /// The client resumes the program: where it wants to be, if it has said so.
    pub(super) fn go_to_target(&mut self) -> Option<Vec<u8>> {
        if std::mem::take(&mut self.memory.has_just_run) && !self.memory.has_begun_stopped {
            self.session.end_diversion();
            return Some(self.tell(Report { tid: self.session.tid(), why: Why::Arrived }));
        }
        self.memory.has_crossed_exec = false;
        let target = self.memory.target.take()?;
        let before = self.libraries("");
        self.session.end_diversion();
        self.session.leave_end();
        if let Err(why) = self.enter(target.spot.domain) {
            self.session.say_line(&format!("bis: {why}"));
        }
        let search = self.memory.search.clone().filter(|(was_at, _)| *was_at == target.spot.position);
        let gone = match search {
            Some((was_at, tid)) => self.session.return_to(&was_at, tid),
            None => self.session.seek(&target.spot.position),
        };
        let report = match gone {
            Ok(report) => {
                self.arrived(target.seen);
                report
            }
            Err(Trouble::Asked) => Report { tid: self.session.tid(), why: Why::Interrupted },
            Err(trouble) => {
                self.session.say_line(&format!("bis: {}", trouble.text()));
                Report { tid: self.session.tid(), why: Why::Arrived }
            }
        };
        let now = self.libraries("");
        self.memory.listed = if now == before {
            Listed::Same
        } else if now.is_some_and(|now| self.memory.has_moved(&now)) {
            Listed::Moved
        } else {
            Listed::Others
        };
        Some(self.tell(report))
    }

    /// One step back of a task. Where it leads to the program before, a client that tells what its user sees
    /// stays there.
    pub(super) fn step_back(&mut self, tid: Tid) -> Vec<u8> {
        let reply = self.backwards(|session| session.reverse_step(tid));
        self.memory.has_crossed_exec = matches!(self.last.why, Why::Exec(_))
            && self.features.has("exec-events")
            && !self.memory.seen.is_empty();
        reply
    }

    /// The client goes on from a step back over an exec which its user has not seen.
    pub(super) fn stay_behind_exec(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.memory.has_crossed_exec)
            .then(|| self.tell(Report { tid: self.session.tid(), why: Why::Arrived }))
    }

    /// The program stands where it has been before: `back` and `forward` go on from there.
    fn arrived(&mut self, seen: Option<usize>) {
        let spot = self.spot();
        let Memory { seen: places, now, .. } = &mut self.memory;
        if let Some(at) = seen
            && let Some(place) = places.get_mut(at)
        {
            // The same place may have another name now.
            *place = spot;
            *now = at;
        }
    }

    /// Is there such an event in this process?
    fn check_event(&self, event: EventSeq) -> Result<(), Refused> {
        if let Some(outside) = self.session.outside(event) {
            return Err(Refused(outside.with_way(|owner| format!("`process {owner}`"))));
        }
        Ok(())
    }

    /// `vRun`: begins anew, at an event, or at a checkpoint.
    pub(super) fn run(&mut self, arguments: &[Vec<u8>]) -> Vec<u8> {
        let argument = arguments.first().map(|argument| String::from_utf8_lossy(argument).into_owned());
        let target = self.memory.target.take();
        self.memory.has_begun_stopped = std::mem::take(&mut self.memory.begins_stopped);
        self.session.end_diversion();
        self.session.leave_end();
        let seen = target.as_ref().and_then(|target| target.seen);
        let note = target.as_ref().and_then(|target| target.note.clone());
        let here = |position| Spot { domain: self.session.image_domain(EventSeq(0)), position };
        let spot = match (target, argument.as_deref()) {
            (Some(target), _) => Ok(target.spot),
            (None, None | Some("")) => Ok(here(Position::at(self.session.first_event()))),
            (None, Some(argument)) => match argument.strip_prefix('c') {
                Some(number) => {
                    let found = self.memory.kept.iter().find(|(known, ..)| number.parse() == Ok(*known));
                    found
                        .map(|(_, spot, _)| spot.clone())
                        .ok_or_else(|| format!("there is no checkpoint {number}"))
                }
                None => {
                    argument.parse::<Position>().map_err(|error| error.to_string()).and_then(|position| {
                        match self.check_event(position.event) {
                            Ok(()) => Ok(here(position)),
                            Err(Refused(why)) => Err(why),
                        }
                    })
                }
            },
        };
        let sought = spot.and_then(|Spot { domain, position }| {
            self.enter(domain)?;
            self.session.seek(&position).map_err(|trouble| trouble.text())
        });
        match sought {
            Ok(report) => {
                self.arrived(seen);
                self.memory.has_just_run = true;
                if let Some(note) = note {
                    self.session.say_line(&note);
                }
                self.tell(report)
            }
            // gdb takes an error for one of its own doing, and believes that there is no process any more.
            Err(why) => {
                self.session.say_line(&format!("bis: {why}"));
                self.memory.has_just_run = true;
                self.tell(Report { tid: self.session.tid(), why: Why::Arrived })
            }
        }
    }

    fn keep(&mut self, note: &str) -> String {
        self.memory.next += 1;
        let number = self.memory.next;
        let spot = self.spot();
        self.memory.kept.push((number, spot, note.to_owned()));
        format!("Checkpoint {number} at {note}\n")
    }

    /// What the session has kept by itself while it went on gets numbers. Where copies of the process had to
    /// go because they took too much memory, as many of the oldest go.
    pub(super) fn keep_made(&mut self) {
        let made = self.session.take_made();
        if made.is_empty() {
            return;
        }
        for position in made {
            let domain = self.session.image_domain(position.event);
            let note = format!("event {} (automatic)", position.event);
            self.memory.next += 1;
            self.memory.automatic.push(self.memory.next);
            self.memory.kept.push((self.memory.next, Spot { domain, position }, note));
        }
        let Memory { kept, automatic, .. } = &mut self.memory;
        let is_gone = |(number, spot, _): &&(u64, Spot, String)| {
            automatic.contains(number) && !self.session.has_copy(&spot.position)
        };
        let gone = kept.iter().filter(is_gone).count();
        for number in automatic.drain(..gone.min(automatic.len())) {
            kept.retain(|(known, ..)| *known != number);
        }
    }

    fn forget(&mut self, number: &str) -> Answered {
        let number: u64 = self::number(number, "the number of a checkpoint")?;
        let before = self.memory.kept.len();
        self.memory.kept.retain(|(known, ..)| *known != number);
        self.memory.automatic.retain(|known| *known != number);
        if self.memory.kept.len() == before {
            return Err(Refused(format!("there is no checkpoint {number}")));
        }
        Ok(format!("Deleted checkpoint {number}.\n"))
    }

    fn kept(&self) -> String {
        if self.memory.kept.is_empty() {
            return "No checkpoints.\n".into();
        }
        let mut text = "ID\tWHEN\tWHERE\n".to_owned();
        for (number, spot, note) in &self.memory.kept {
            let _ = writeln!(text, "{number}\t{}\t{note}", spot.position.event);
        }
        text
    }

    /// The user sees this stop.
    fn stopped(&mut self) -> String {
        let spot = self.spot();
        let Memory { seen, now, has_crossed_exec, .. } = &mut self.memory;
        *has_crossed_exec = false;
        self.beside.is_seen = true;
        if seen.get(*now) != Some(&spot) {
            seen.truncate(*now + 1);
            seen.push(spot);
            *now = seen.len() - 1;
        }
        self.where_it_is()
    }

    fn where_it_is(&self) -> String {
        format!("event {}\nplace {}\n", self.session.replica().done().0, self.position())
    }

    fn recording(&self) -> String {
        let trace = self.session.world().trace();
        // Without the name `latest`, which will mean another trace tomorrow.
        let dir = fs::canonicalize(trace.dir()).unwrap_or_else(|_| trace.dir().to_owned());
        let machine = trace.machine().cloned().unwrap_or_default();
        let entry = self.session.entry();
        let (kept, used, bound) = self.session.checkpoints();
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let (used, bound) = (mib(used), mib(bound));
        let kept = if kept == 1 { "1 checkpoint".to_owned() } else { format!("{kept} checkpoints") };
        format!(
            "Recording: {}\nProcess:   {} ({})\nEvent:     {} (number {} of its program)\nMachine:   {}, {}\nRecorded:  by bis {}\n\
             Inside:    {kept} made by themselves, with {used} MiB of their own; they may take {bound} MiB\n",
            shown::text(dir.as_os_str().as_bytes()),
            entry.pid,
            self.session.world().command(entry),
            self.session.replica().done().0,
            self.session.replica().position(),
            machine.cpu,
            machine.kernel,
            machine.bis_version
        )
    }
}

/// What a user may type; the script has more, for itself.
const HELP: &str = "\
when               the last event that is done (when-ticks, when-tid, when-end: more of it; where: the place)
elapsed-time       how long the program had run by now when it was recorded
info recording     what is recorded, where this is in it, and what checkpoints take
info checkpoints   the checkpoints of yours
checkpoint [NOTE]  keep this place; delete checkpoint N forgets it
checkpoint-interval SECONDS | N events | off
process            the processes; process NAME goes to another
seek PLACE         to an event's number, start, end, or a place as where shows it
restart N          to a checkpoint; rollback [N] the same, for the last one
back [N]           to where you were before; forward [N] takes that back
divert             a copy of the program that may run on as it likes; divert end leaves it
Those that go somewhere aim there alone: the next continue goes. gdb has commands that do both (help bis).
";

/// How often checkpoints are to be made: `N`, `N seconds`, `N events` or `off`.
fn interval(words: &[&str]) -> Result<Interval, String> {
    const USAGE: &str = "give it as SECONDS, as N events, or as off";
    let time = |text: &str| {
        let seconds: f64 = text.parse().map_err(|_| USAGE.to_owned())?;
        let time = Duration::try_from_secs_f64(seconds).map_err(|_| USAGE.to_owned())?;
        Ok(if time.is_zero() { Interval::Never } else { Interval::Time(time) })
    };
    match words {
        ["off"] => Ok(Interval::Never),
        [seconds] | [seconds, "s" | "second" | "seconds"] => time(seconds),
        [count, "event" | "events"] => match count.parse() {
            Ok(0) => Ok(Interval::Never),
            Ok(count) => Ok(Interval::Events(count)),
            Err(_) => Err(USAGE.to_owned()),
        },
        _ => Err(USAGE.to_owned()),
    }
}

/// Bytes of hexadecimal digits.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
