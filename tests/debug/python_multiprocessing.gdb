# Python's multiprocessing: the parent to its end and back, and a worker beside it at the same moment.
# program: pool.py
# command: python3 {program}
# needs: python3
# modes: hooks
tbreak exit
continue
#> 285
#> Temporary breakpoint 1
process {fork}
#> Program stopped
info recording
#> {fork}
reverse-continue
#> No more reverse-execution history
backtrace 2
#> fork
process {first}
#> Program stopped
reverse-continue
#> No more reverse-execution history
