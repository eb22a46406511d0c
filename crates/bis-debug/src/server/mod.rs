//! A debug server: a client of the gdb protocol on one side, a session on the other.
//!
//! The session's thread is the one that traces the replayed processes; it answers packets in order
//! ([`dispatch`]). A second thread reads what the client sends ([`connection`]), because a client may ask a
//! program that runs to stop.
//!
//! What moves the program and what only looks at it are kept apart: a command of `monitor` never moves it. It
//! says where to go, and the next resume goes there ([`monitor`]; the text at the head of `gdb_script.gdb` is
//! the contract).

mod beside;
mod connection;
mod dispatch;
mod diversion;
mod files;
mod lldb;
mod memory;
mod monitor;
mod moved;
mod objects;
mod processes;
mod served;
mod standing;
mod stops;
mod written;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    thread,
    time::Duration,
};

use bis_replay::{World, solo::Ear};
use bis_trace::{Trace, types::StandardStream};

pub use standing::Standing;

use crate::{
    options::{self, DebugError, Executable, Options},
    session::Session,
};

/// A debug server that listens and has no debugger yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    addr: SocketAddr,
}

impl Server {
    /// Listens for a debugger; port 0 stands for any free one.
    ///
    /// # Errors
    /// Where the address cannot be had.
    pub fn bind(host: &str, port: u16) -> io::Result<Server> {
        let listener = TcpListener::bind((host, port))?;
        let addr = listener.local_addr()?;
        Ok(Server { listener, addr })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The executable that the session begins in, for a debugger to read symbols from.
    ///
    /// # Errors
    /// Where the trace has no such process, or is one that cannot be debugged.
    pub fn executable(trace: &Trace, options: &Options) -> Result<Executable, DebugError> {
        options::check_format(trace)?;
        options::executable(trace, options)
    }

    /// Shows a debugger a process that goes no further, until it leaves; or until nobody is left who would
    /// come.
    ///
    /// # Errors
    /// Where nobody can come, or what comes cannot be spoken to.
    pub fn show(self, standing: &dyn Standing, mut is_over: impl FnMut() -> bool) -> io::Result<()> {
        const LOOK_EVERY: Duration = Duration::from_millis(20);
        self.listener.set_nonblocking(true)?;
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if is_over() {
                        return Ok(());
                    }
                    thread::sleep(LOOK_EVERY);
                }
                Err(error) => return Err(error),
            }
        };
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        standing::serve(standing, stream)
    }

    /// Serves debuggers until they have left. `ready` is called when one can be served: the session stands
    /// where it begins.
    ///
    /// # Errors
    /// Where the recording cannot be debugged as the options say.
    pub fn serve(self, trace: &Trace, options: &Options, ready: impl Fn()) -> Result<(), DebugError> {
        let failed = |what| move |source| DebugError::Io { what, source };
        bis_replay::allow_many_files();
        let world = World::new(trace)?.that_goes_on(options.program.is_some());
        loop {
            let mut session =
                Session::open(&world, &options.which, ear(options)?, options.checkpoint_memory)?;
            session.tell(options.listener);
            session.follow(options.program.clone());
            session.go_to_begin(&options.begin)?;
            ready();
            let (stream, _) = self.listener.accept().map_err(failed("accept a debugger"))?;
            stream.set_nodelay(true).map_err(failed("speak to a debugger"))?;
            let served = dispatch::serve(session, stream, options);
            if let Err(error) = served {
                tracing::info!(%error, "the debugger is gone");
            }
            if !options.keep_listening {
                return Ok(());
            }
        }
    }
}

/// Where what the program writes goes.
pub(crate) fn ear(options: &Options) -> Result<Option<Ear>, DebugError> {
    use std::io::Write as _;
    if options.quiet {
        return Ok(None);
    }
    if let Some(file) = &options.echo_to {
        let mut file = file
            .try_clone()
            .map_err(|source| DebugError::Io { what: "write what the program wrote", source })?;
        return Ok(Some(Box::new(move |_, bytes| file.write_all(bytes))));
    }
    Ok(Some(Box::new(|stream, bytes| match stream {
        StandardStream::Output => {
            let mut out = io::stdout();
            out.write_all(bytes)?;
            out.flush()
        }
        StandardStream::Error => io::stderr().write_all(bytes),
    })))
}
