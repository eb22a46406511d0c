# Calls where the program stands in front of a system call, behind it, and in what has given way to a jump.
# program: callee.c
handle SIGUSR1 nostop noprint
tbreak main
continue
break getpid
continue
#> getpid
print add(1, 1)
#> = 2
print getpid() == who
delete
stepi
print add(1, 1)
#> = 2
stepi
print add(1, 1)
#> = 2
stepi
print joined("1", "2")
#> "12"
catch syscall write
continue
#> (call to syscall write)
print joined("3", "4")
#> "34"
print add(1, 1)
#> = 2
continue
#> (returned from syscall write)
print add(1, 1)
#> = 2
delete
continue
#> exited with status 0
