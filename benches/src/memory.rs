//! The peak of memory of a tree of processes.
//!
//! What is summed is PSS, the kernel's "proportional set size": a page that n processes map counts 1/n in
//! each, so a buffer that a recorder shares with its program counts once. It is read from
//! `/proc/PID/smaps_rollup`, every 10 ms; a peak between two samples is missed, and a process that ends while
//! the tree is walked counts nothing. Memory that nobody maps (the page cache, what lies in pipes) is not in
//! it. A run that was over before the third sample has no peak: what was seen of it may be its first moment.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(10);
const SAMPLES_MIN: u32 = 3;

/// Samples the tree below (and with) process `root` until `over` becomes true; the greatest sum, in bytes, or
/// none if the time was too short to say.
pub fn peak_pss(root: u32, over: &AtomicBool) -> Option<u64> {
    let (mut peak, mut samples) = (0, 0);
    let mut due = Instant::now();
    while !over.load(Ordering::Acquire) {
        let sum = tree_pss(root);
        peak = peak.max(sum);
        samples += u32::from(sum > 0);
        // A big tree takes longer than the interval to walk; then the next sample is taken at once.
        due = (due + INTERVAL).max(Instant::now());
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    (samples >= SAMPLES_MIN).then_some(peak)
}

/// The sum over the tree below (and with) this process now, in bytes.
pub fn tree_pss(root: u32) -> u64 {
    tree(root).into_iter().filter_map(pss).sum()
}

/// All processes of the tree, by the children of each thread.
fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&process) = found.get(next) {
        next += 1;
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Of one process, in bytes; none if it is gone.
fn pss(process: u32) -> Option<u64> {
    pss_of(&fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?)
}

/// The line `Pss:   1234 kB` of a `smaps_rollup`, in bytes.
fn pss_of(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_line_is_read() {
        let rollup = "00400000-7fff0000 ---p 00000000 00:00 0  [rollup]\nRss: 900 kB\nPss:     321 kB\nPss_Dirty: 7 kB\n";
        assert_eq!(pss_of(rollup), Some(321 * 1024));
        assert_eq!(pss_of(""), None);
    }

    #[test]
    fn the_tree_has_children_of_children_and_they_have_memory() {
        use std::io::{BufRead, BufReader, Write};
        use std::process::{Command, Stdio, id};
        let mut shell = Command::new("sh")
            // A command in the background reads nothing unless it is told what.
            .args(["-c", "exec 3<&0; cat <&3 & echo $!; wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let grandchild: u32 = lines.next().unwrap().unwrap().parse().expect("a process id");
        // Until it has executed `cat`, which it has when it answers, its memory may be about to be replaced:
        // what `smaps_rollup` was opened for is gone when it is read then (ESRCH).
        writeln!(shell.stdin.as_mut().unwrap(), "here").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "here");
        let tree = tree(id());
        assert!(tree.contains(&id()) && tree.contains(&shell.id()) && tree.contains(&grandchild), "{tree:?}");
        for process in [id(), grandchild] {
            assert!(pss(process).expect("a process has a smaps_rollup") > 0);
        }
        drop(shell.stdin.take());
        assert!(shell.wait().unwrap().success());
    }

    #[test]
    fn nothing_is_said_of_what_was_over_at_once() {
        assert_eq!(peak_pss(std::process::id(), &AtomicBool::new(true)), None);
    }
}
