# `start`, `kill`, `return`, `detach` and what goes with a program that runs: the recording stays as it is, and `run` begins anew.
# program: basics.c
# cflags: -O0 -no-pie
start
#> Program stopped.
continue
#> main () at
compare-sections .text
#> matched
kill
#> killed
run
break add
continue
#> add (a=0, b=0)
return
#> The recording cannot be changed
signal 0
#> add (
info signals SIGINT
#> SIGINT
thread apply all backtrace
#> add (
ptype twice
#> type = int (int)
compare-sections .text
#> matched
detach
#> detached
