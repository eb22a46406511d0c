# ^C stops a program that waits in the kernel; it goes on waiting behind that.
# program: waits.c
# modes: live
tbreak waits
continue
#> waits ()
shell (sleep 0.7; kill -INT $PPID) &
continue
#> ! waited
#> SIGINT
backtrace
#> waits ()
print phase
#> = 2
stepi
continue
#> waited
