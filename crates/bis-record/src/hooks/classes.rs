//! What the hooks are told of descriptors: whether a write to one concerns anybody but the kernel.
//!
//! A descriptor of which nothing is known is written to by a traced call, and afterwards its class is known.
//! The hooks forget a class when the descriptor is closed or replaced; everything else that makes descriptors
//! gives numbers that were free. Files lose their classes when somebody maps one (`watch.rs`).

use std::{
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    sync::atomic::Ordering,
};

use bis_agent::hooks::FdClass;
use bis_syscalls::{HookMakes, HookShape, Rule, hook, row};
use bis_trace::types::{Fd, Tid};
use bis_tracee::proc;

use crate::{calls::is_shown, crew::Crew, process::Process};

/// Devices that only read and write: null, zero, full, random, urandom.
const HARMLESS: [u32; 5] = [3, 5, 7, 8, 9];
const MEMORY_DEVICES: u32 = 1;

/// Anonymous inodes that the kernel alone looks at.
const ANONYMOUS: [&[u8]; 4] =
    [b"anon_inode:[eventfd]", b"anon_inode:[timerfd]", b"anon_inode:inotify", b"anon_inode:[signalfd]"];

impl Process {
    /// After a traced call: says what the descriptors are that it wrote to or made.
    pub fn classify(&self, tid: Tid, nr: u64, args: [u64; 6], result: i64) {
        let Some(hooks) = &self.hooks else { return };
        let first = Fd::of_arg(args[0]);
        if hooks.fds_differ {
            return;
        }
        let row = row(nr);
        let rule = row.and_then(hook).map(|hook| hook.rule);
        // As the hooks do it for the calls that they make. They make none that closes many descriptors.
        if let Some(cleared) = rule.and_then(|rule| rule.clears) {
            hooks.area.set_class(Fd::of_arg(args[usize::from(cleared)]), FdClass::Unknown);
        }
        if nr.cast_signed() == libc::SYS_close_range {
            hooks.area.forget_classes();
        }
        if rule.is_some_and(|rule| rule.writes) && !hooks.area.has_class(first) {
            let mapped = self.session.watch.mapped();
            hooks.area.set_class(first, self.class_of(tid, first));
            if self.session.watch.mapped() != mapped {
                hooks.area.forget_files();
            }
        }
        let opens = row.is_some_and(|row| row.opens.is_some());
        if let Some(made) = Fd::made(result).filter(|_| opens) {
            // Opened by a traced call, where a hook could not know what it is: so that its first write need
            // not be traced, too.
            let mapped = self.session.watch.mapped();
            hooks.area.set_class(made, self.class_of(tid, made));
            if self.session.watch.mapped() != mapped {
                hooks.area.forget_files();
            }
        }
        // Only copies of what is shown otherwise are traced.
        let copies = |rule: Rule| rule.makes == Some(HookMakes::Copy) || rule.shape == HookShape::Fcntl;
        if rule.is_some_and(copies)
            && self.session.shown.load(Ordering::Relaxed)
            && let Some(made) = Fd::made(result)
            && is_shown(tid, made)
        {
            hooks.area.set_class(made, FdClass::Shown);
        }
    }

    /// In a fresh image: descriptors of /proc that came with the exec. Before anybody has opened one of those
    /// that are shown otherwise, only the program that bis was given can have any, from its own caller.
    pub fn classify_inherited(&self, tid: Tid) {
        let Some(hooks) = &self.hooks else { return };
        if !self.session.shown.load(Ordering::Relaxed) && !self.session.is_root(tid) {
            return;
        }
        let is_of_proc =
            |fd: &Fd| fs::read_link(proc::fd(tid, *fd)).is_ok_and(|name| name.starts_with("/proc"));
        for fd in proc::fds(tid).unwrap_or_default().into_iter().filter(is_of_proc) {
            let class = self.class_of(tid, fd);
            if class == FdClass::Shown {
                self.session.shown.store(true, Ordering::Relaxed);
            }
            hooks.area.set_class(fd, class);
        }
    }
}

impl Crew {
    fn class_of(&self, tid: Tid, fd: Fd) -> FdClass {
        if self.session.stdio.which(tid, fd).is_some() {
            return FdClass::Special;
        }
        let path = proc::fd(tid, fd);
        let (Ok(meta), Ok(name)) = (fs::metadata(&path), fs::read_link(&path)) else {
            return FdClass::Unknown;
        };
        let (kind, name) = (meta.file_type(), name.as_os_str().as_bytes());
        let key = (meta.dev(), meta.ino());
        if kind.is_socket() && self.leads_to_display(tid, fd) {
            return FdClass::Special;
        }
        if kind.is_fifo() || kind.is_socket() || ANONYMOUS.contains(&name) {
            return FdClass::Plain;
        }
        if kind.is_char_device() {
            let (major, minor) = (libc::major(meta.rdev()), libc::minor(meta.rdev()));
            let harmless = major == MEMORY_DEVICES && HARMLESS.contains(&minor);
            return if harmless { FdClass::Plain } else { FdClass::Special };
        }
        let known = self.session.registry.find(key).is_some() || self.session.views.has(key);
        if name.starts_with(b"/proc/") && is_shown(tid, fd) {
            return FdClass::Shown;
        }
        if kind.is_file() && !known && !name.starts_with(b"/proc/") && !name.starts_with(b"/sys/") {
            return FdClass::File;
        }
        FdClass::Special
    }
}
