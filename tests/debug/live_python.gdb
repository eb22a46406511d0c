# An interpreter that runs: breakpoints in libraries that it loads, back over thousands of calls, and on live.
# command: /usr/bin/python3 {program}
# program: live.py
# needs: /usr/bin/python3
# modes: live
set breakpoint pending on
break write if $rdi == 1
continue
#> ! words True
#> write
checkpoint
#> Checkpoint 1
tbreak getdents64
reverse-continue
#> getdents64
rollback
#> write
delete
continue
#> words True
#> end 499500
