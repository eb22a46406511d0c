# System calls that hooks make are caught as the others are, although they are no events: forwards and backwards.
# program: calls.c
# modes: hooks software
tbreak main
continue
catch syscall getppid
continue
#> (call to syscall getppid)
print made
#> = 1
continue
#> (returned from syscall getppid)
continue
#> (call to syscall getppid)
print made
#> = 2
reverse-continue
#> (returned from syscall getppid)
print made
#> = 1
reverse-continue
#> (call to syscall getppid)
reverse-continue
#> No more reverse-execution history
delete
tbreak one if number == 150
continue
#> one (number=150)
catch syscall getppid
continue
#> (call to syscall getppid)
print made
#> = 150
stepi
#> (returned from syscall getppid)
delete
# The calls of one, each with its entry and its return: getppid, and write.
catch syscall
continue
#> (call to syscall write)
continue
#> (returned from syscall write)
continue
#> (call to syscall getppid)
print made
#> = 151
