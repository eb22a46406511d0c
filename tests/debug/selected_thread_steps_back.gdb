# Steps back of another thread than the one that stopped: gdb goes over the other's breakpoint first, and names no thread with its steps.
# program: locking.c
break second
continue
#> second (number=20
thread 1
reverse-stepi
#> ! SIGTRAP
print $_thread
#> = 1
reverse-stepi
#> ! SIGTRAP
print $_thread
#> = 1
continue
#> second (number=20
stepi
thread 1
reverse-stepi
#> ! SIGTRAP
print $_thread
#> = 1
continue
#> second (number=20
thread 1
reverse-finish
#> ! SIGTRAP
print $_thread
#> = 1
seek end
thread 1
reverse-next
#> ! SIGTRAP
print $_thread
#> = 1
