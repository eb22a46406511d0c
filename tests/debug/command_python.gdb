# A real program: a Python script, from its end to its begin and back.
# command: python3 -c print(6*7)
# needs: python3
# modes: hooks
break exit
continue
#> Breakpoint 1
tbreak write
reverse-continue
reverse-continue
#> No more reverse-execution history
continue
#> 42
#> Breakpoint 1
continue
#> exited with status 0
