# Back from the end of a program that a signal has ended: the signal is where the user stands, and is not told of again.
# program: crash.c
# replay: -e
watch sum
reverse-continue
#> ! SIGSEGV
#> Hardware watchpoint
#> Old value
seek end
reverse-continue
#> ! SIGSEGV
#> Old value
delete
seek start
continue
#> SIGSEGV
continue
#> ends here
reverse-continue
#> ! SIGSEGV
#> No more reverse-execution history
