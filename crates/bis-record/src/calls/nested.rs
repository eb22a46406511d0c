//! What a bis that runs inside of this recording asks its recorder ([`bis_syscalls::own`]).

use std::{os::unix::ffi::OsStrExt, path};

use bis_syscalls::{Call, own};
use bis_trace::{
    event::MemWrite,
    types::{Addr, Tid},
};

use crate::{crew::Crew, domain::Domain, error::Result, task::InCall};

impl Domain {
    /// The task makes the call that is bis's own.
    pub fn asked_of_us(&mut self, tid: Tid, mut state: InCall, call: &Call) -> Result<()> {
        let result = match call.args[0] {
            own::WHERE => self.tell_where(call, &mut state),
            own::CHANNEL => {
                let channel = self.task(tid)?.stand_in.map(|stand_in| stand_in.channel);
                channel.map_or(-libc::EINVAL, |channel| channel.0).into()
            }
            _ => -i64::from(libc::EINVAL),
        };
        self.not_made(tid, state, result)
    }
}

impl Crew {
    /// Tells the task which trace it is recorded into.
    fn tell_where(&self, call: &Call, state: &mut InCall) -> i64 {
        let trace = &self.session.options.trace_dir;
        let mut data =
            path::absolute(trace).unwrap_or_else(|_| trace.clone()).as_os_str().as_bytes().to_vec();
        data.push(0);
        let [_, addr, room, ..] = call.args;
        if data.len() as u64 > room {
            return -i64::from(libc::ENAMETOOLONG);
        }
        if self.memory.write(Addr(addr), &data).is_err() {
            return -i64::from(libc::EFAULT);
        }
        state.found.add_write(MemWrite { addr: Addr(addr), data });
        own::YES.cast_signed()
    }
}
