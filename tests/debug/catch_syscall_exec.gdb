# A caught execve is told of where it is entered, and where it has returned: in the program that it has begun.
# program: again.c
catch syscall execve
continue
#> Catchpoint 1 (call to syscall execve)
continue
#> is executing new program
#> Catchpoint 1 (returned from syscall execve)
stepi
#> 0x
when
#> Completed event:
reverse-continue
#> is executing new program
#> Catchpoint 1 (call to syscall execve)
stepi
#> is executing new program
#> Catchpoint 1 (returned from syscall execve)
break begins
continue
#> begins ()
print round_number
#> = 1
continue
#> No more reverse-execution history
