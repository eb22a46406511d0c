# Python's multiprocessing: the parent to its end and back, and a worker beside it at the same moment.
# program: pool.py
# command: python3 {program}
# needs: python3
# modes: hooks
# A worker may have ended by itself when the pool ends it by a signal, or not.
handle SIGTERM nostop noprint
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
# It may have begun its threads by then, or not: "Thread 1 ... stopped" or "Program stopped".
process {first}
#> stopped
reverse-continue
#> No more reverse-execution history
