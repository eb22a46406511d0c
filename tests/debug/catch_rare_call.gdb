# A system call that is caught is found at once among a million others, which hooks make: forwards and backwards.
# program: rare_call.c
# modes: hooks software
catch syscall getpgid
continue
#> (call to syscall getpgid)
print made
#> = 1000000
continue
#> (returned from syscall getpgid)
delete
tbreak printf
continue
print made
#> = 2000000
catch syscall getpgid
reverse-continue
#> (returned from syscall getpgid)
reverse-continue
#> (call to syscall getpgid)
print made
#> = 1000000
reverse-continue
#> No more reverse-execution history
