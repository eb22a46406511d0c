//! Whole programs with a dense text: the dynamic linker, the libraries and the program itself are rewritten,
//! and must do what they did before. With few counts set, the same programs must die of a trap: so they
//! really count.

use std::{
    fs,
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::common::dense::{ENDLESS, World, rewrite, same, write};

const SIGTRAP: i32 = 5;

const LIBRARIES: [&str; 14] = [
    "libc.so.6",
    "libm.so.6",
    "libz.so.1",
    "liblzma.so.5",
    "libexpat.so.1",
    "libtinfo.so.6",
    "libselinux.so.1",
    "libpcre2-8.so.0",
    "libcrypto.so.3",
    "libgmp.so.10",
    "libmpfr.so.6",
    "libmpc.so.3",
    "libisl.so.23",
    "libzstd.so.1",
];

const SCRIPT: &str = "set -e; d=$(mktemp -d); cd $d; for i in 1 2 3; do echo line $i >> f; done; cat f | sort -r | md5sum; \
    mkdir sub; mv f sub/g; ln -s sub/g h; ls -1 . sub; (sleep 0.01; echo later) & wait; \
    trap 'echo caught' USR1; kill -USR1 $$; find . | sort; head -c 100000 /dev/zero | sha256sum; \
    for i in 1 2 3 4 5; do case $i in 1) echo one;; [23]) echo $((i * 7));; *) echo ${d#*t} | wc -l;; esac; done; \
    (exit 3) || echo $?; cd /; rm -r $d; uname -s; echo done";

const PYTHON: &str = r#"
import re, json, math, threading, itertools, zlib, lzma, hashlib, string, struct, functools, collections
@functools.lru_cache(None)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def ack(m, n): return n + 1 if m == 0 else ack(m - 1, 1) if n == 0 else ack(m - 1, ack(m, n - 1))
print(fib(200), ack(2, 6), sorted(hash(str(i) * 0) for i in range(10)))
text = ' '.join(w for _, w in zip(range(4000), itertools.cycle(['alpha', 'Beta', 'g4mma', 'delta-9'])))
print(re.sub(r'(\w+)-(\d)|([A-Z])\w+', lambda m: str(m.lastindex), text)[:80], len(re.findall(r'a(?=m|l)', text)))
print(hashlib.sha256(zlib.compress(text.encode(), 9)).hexdigest(), len(lzma.decompress(lzma.compress(text.encode()))))
print(json.dumps(json.loads('{"a": [1, 2.5e-300, "\\u00e9", null, true], "b": {}}')), float('1e22'), repr(0.1 + 0.2), '%.17g' % math.pi)
out = []
ts = [threading.Thread(target=lambda i=i: out.append(sum(x * x for x in range(i * 100)))) for i in range(8)]
[t.start() for t in ts]; [t.join() for t in ts]; print(sorted(out))
print(collections.Counter(text).most_common(3), struct.pack('<hiq', 1, -2, 3), 3 ** 200 % 10007, [math.sin(i) for i in range(5)])
try: [].pop()
except IndexError as error: print(error)
"#;

const C: &str = r#"
struct list { struct list *next; int value; };
static int depth(struct list *l) { return l ? 1 + depth(l->next) : 0; }
int sum(const int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * (i & 3); return s; }
double poly(double x) { double r = 0; for (int i = 20; i--;) r = r * x + 1.0 / (i + 1); return r; }
int kind(int c) { switch (c) { case 1: return 7; case 2: case 9: return 3; case 3: return c * c; case 4: return depth(0);
  case 5: return sum(&c, 1); case 6: return -c; default: return 0; } }
typedef float v8 __attribute__((vector_size(32)));
v8 mix(v8 a, v8 b) { for (int i = 0; i < 9; i++) a = a * b + a; return a; }
int main(int argc, char **argv) { int a[64]; for (int i = 0; i < 64; i++) a[i] = kind(i % 11) + argc; return sum(a, 64) & 127; }
"#;

fn run(mut command: Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("LC_ALL", "C").env("PYTHONHASHSEED", "0").env_remove("LD_LIBRARY_PATH");
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // A program may end before it has read everything.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic");
    output
}

/// Something that compresses, but not to nothing.
fn material() -> Vec<u8> {
    let mut state = 1_u32;
    (0..300_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b"the quick brown fox, again and again"
                [(state >> 24) as usize % 36 / (1 + (state >> 28) as usize)]
        })
        .collect()
}

fn compiler() -> Option<String> {
    let output = Command::new("gcc").arg("-print-prog-name=cc1").output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Path::new(&path).is_absolute().then_some(path)
}

fn programs(short_loops: bool) {
    let Some(world) = World::new(&LIBRARIES, short_loops, ENDLESS) else {
        eprintln!("not run: this machine's dynamic linker has no header to spare");
        return;
    };
    let material = material();
    let mut commands: Vec<(String, Vec<&str>, &[u8])> = [
        ("/bin/sh", vec!["-c", SCRIPT], &b""[..]),
        ("/bin/bash", vec!["-c", SCRIPT], b""),
        ("/usr/bin/python3", vec!["-c", PYTHON], b""),
        (
            "/usr/bin/perl",
            vec!["-e", "print join ' ', map { $_ * 2 } grep { /[13]$/ } 1..99; print `echo a child`"],
            b"",
        ),
        ("/usr/bin/xz", vec!["-6", "--stdout"], &material),
        ("/bin/gzip", vec!["-9", "--stdout", "--no-name"], &material),
        ("/usr/bin/sort", vec!["--parallel=4", "-S1M"], &material),
        ("/bin/sed", vec!["-E", "s/(.)(.)\\1/<\\2>/g; s/q[^ ]+ .*f|again$/x/"], &material),
        ("/bin/ls", vec!["-l", "/usr"], b""),
    ]
    .map(|(program, arguments, input)| (program.to_owned(), arguments, input))
    .into();
    if let Some(compiler) = compiler() {
        commands.push((compiler, vec!["-quiet", "-O2", "-mavx2", "-", "-o", "-"], C.as_bytes()));
    }
    let mut ran = 0;
    for (program, arguments, input) in commands {
        let Ok(program) = fs::canonicalize(&program) else { continue };
        let Some(file) = world.program(&program) else { continue };
        let mut plain = Command::new(&program);
        plain.args(&arguments);
        let mut counted = world.command(&program, &file);
        counted.args(&arguments);
        same(&program.display().to_string(), &run(plain, input), &run(counted, input));
        ran += 1;
    }
    assert!(ran >= 4, "only {ran} programs");
}

#[test]
fn programs_run_as_before() {
    programs(false);
}

#[test]
fn programs_run_as_before_with_counts_in_short_loops() {
    programs(true);
}

#[test]
fn a_program_dies_when_its_counts_are_used_up() {
    for (counts, dies) in [(50, true), (5000, true), (ENDLESS, false)] {
        let Some(world) = World::new(&["libc.so.6"], false, counts) else { return };
        let program = fs::canonicalize("/bin/sh").expect("a shell");
        let Some(file) = world.program(&program) else { return };
        let mut command = world.command(&program, &file);
        command.args(["-c", "i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); done"]);
        assert_eq!(run(command, b"").status.signal(), dies.then_some(SIGTRAP), "{counts}");
    }
}

/// A static program, if there is one.
#[test]
fn a_static_program_runs_as_before() {
    let candidates = ["/usr/bin/busybox", "/bin/busybox", "/bin/busybox-static"];
    let Some(busybox) = candidates.into_iter().find_map(|path| fs::read(path).ok()) else {
        eprintln!("not run: there is no busybox on this machine");
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| dir.path().join(name).join("busybox");
    for name in ["plain", "dense", "short", "few"] {
        fs::create_dir(dir.path().join(name)).expect("a folder");
    }
    write(&path("plain"), &busybox);
    for (name, short_loops, counts) in
        [("dense", false, ENDLESS), ("short", true, ENDLESS), ("few", false, 300)]
    {
        let Some((bytes, coverage)) = rewrite(&busybox, short_loops, Some(counts)) else { return };
        assert!(coverage.hooks.taken > 100 && coverage.backward.taken > 500, "{coverage:?}");
        write(&path(name), &bytes);
    }
    let run = |name: &str, arguments: &[&str], input: &[u8]| {
        let mut command = Command::new(path(name));
        command.args(arguments);
        run(command, input)
    };
    let material = material();
    let commands: [(&[&str], &[u8]); 5] = [
        (&["sh", "-c", SCRIPT], b""),
        (&["gzip", "-c"], &material),
        (&["bzip2", "-c"], &material),
        (
            &["awk", "{ n[length($1) % 7] += NF } END { for (i = 0; i < 7; i++) print i, n[i], sin(i) }"],
            &material,
        ),
        (
            &["bc"],
            b"define f(n) { if (n < 2) return n; return f(n-1) + f(n-2); }\nf(17); 2^300; scale=30; e(1)\n",
        ),
    ];
    for (arguments, input) in commands {
        let before = run("plain", arguments, input);
        same(arguments[0], &before, &run("dense", arguments, input));
        same(arguments[0], &before, &run("short", arguments, input));
    }
    // Its own functions have no unwind tables, so not all that it does is counted; its C library's are.
    assert_eq!(run("few", commands[0].0, b"").status.signal(), Some(SIGTRAP));
}
