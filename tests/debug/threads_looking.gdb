# Looking at threads.
# program: threads.c
break threads.c:20 if number == 2
continue
#> Breakpoint 1, work
print number
#> = 2
info threads
#> "threads"
#> work
thread apply all backtrace
#> Thread
#> work
#> Thread 1
#> main ()
thread 1
#> [Switching to thread 1
backtrace
#> main ()
print own
#> = 7
thread 2
print own
#> = 2
