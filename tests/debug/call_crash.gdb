# A called function that crashes, or ends the program: the session lives, and the program is where it was.
# program: callee.c
handle SIGUSR1 nostop noprint
break add if a == 20
continue
#> add (a=20, b=30)
delete
print crash()
#> Program received signal SIGSEGV
#> in crash ()
#> signaled while in a function called from GDB
print $_siginfo._sifields._sigfault.si_addr
#> 0x8
backtrace
#> crash ()
#> <function called from gdb>
#> add (a=20, b=30)
continue
#> would get SIGSEGV
#> add (a=20, b=30)
print (int)exit(3)
#> wants to end the process (exit_group)
#> add (a=20, b=30)
print (int)abort()
#> Program received signal SIGABRT
back
#> add (a=20, b=30)
print calls
#> = 4
set unwindonsignal on
print crash()
#> SIGSEGV
print calls
#> = 4
print add(2, 2)
#> = 4
watch calls
reverse-continue
#> Old value = 4
#> New value = 3
continue
#> Old value = 3
#> New value = 4
continue
#> Old value = 4
#> New value = 5
