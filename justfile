# The habits of every day. `just` alone lists them.

_list:
    @just --list --unsorted

# Build the command, optimized.
build:
    cargo build --release -p bis

# All tests, as CI runs them.
test:
    cargo test --workspace --release

# The guests whose name has NAME in it, in all modes; further words go to the driver (`just guest pipes/ --test-threads 1`).
guest NAME *ARGS:
    cargo test --release -p bis --test guests -- "{{ NAME }}" {{ ARGS }}

# The real programs whose name has NAME in it.
real NAME="" *ARGS:
    cargo test --release -p bis --test real -- "{{ NAME }}" {{ ARGS }}

# Each real program N times, with a table of the counts.
soak N="50" FILTER="":
    tests/real/soak.sh {{ N }} "{{ FILTER }}"

# Record a command into a trace of its own below /tmp, and replay it.
try +COMMAND: build
    #!/bin/bash
    trace=$(mktemp -d /tmp/bis-try.XXXXXX)/trace
    target/release/bis record -o "$trace" --checksum -- {{ COMMAND }}
    echo "status $?, in $trace"
    target/release/bis replay -a "$trace"

# How much slower programs are when recorded and replayed (`just bench --only python,git --json figures.json`).
bench *ARGS:
    cargo build --release -p bis -p bis-bench
    target/release/bis-bench {{ ARGS }}

# What CI complains about first.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Format everything.
format:
    cargo fmt --all

# Traces and folders that failed tests left behind.
clean-trials:
    rm -rf target/tmp/trials target/soak

# Exactly what CI does.
ci:
    .ci/run
