#!/bin/bash
# Delve debugs a Go program: a breakpoint, steps, goroutines, a watchpoint (a debug register).
# needs: dlv /usr/lib/go-1.19/bin/go
# version: dlv version | grep Version
# limit: 240
# varies: numbers of goroutines and processes
# setup
printf 'package main\nimport "fmt"\nvar total int\nfunc add(n int) int { total += n; return total }\nfunc main() { c := make(chan int); go func() { for i := 0; i < 3; i++ { c <- add(i) }; close(c) }(); for v := range c { fmt.Println(v) } }\n' > a.go
printf 'module a\ngo 1.19\n' > go.mod
HOME=$PWD GOTOOLCHAIN=local GOFLAGS=-mod=mod /usr/lib/go-1.19/bin/go build -gcflags='all=-N -l' -o a a.go
printf 'break main.add\ncontinue\nprint n\nstep\ngoroutines\nclear 1\nwatch -w main.total\ncontinue\nprint total\nclearall\ncontinue\nquit\n' > commands
# record
export HOME=$PWD; exec dlv exec --allow-non-terminal-interactive=true ./a --init commands
# check
grep -q 'watchpoint on \[main.total\]' "$OUT" && grep -q 'exited with status 0' "$OUT" "$ERR"
