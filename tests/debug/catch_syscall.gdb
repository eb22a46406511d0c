# System calls by name where each is traced: at its entry and behind it, forwards and backwards.
# program: calls.c
# modes: no-hooks
catch syscall getppid
#> Catchpoint 1 (syscall 'getppid' [110])
continue
#> Catchpoint 1 (call to syscall getppid)
print made
#> = 1
continue
#> Catchpoint 1 (returned from syscall getppid)
continue
#> Catchpoint 1 (call to syscall getppid)
print made
#> = 2
reverse-continue
#> Catchpoint 1 (returned from syscall getppid)
print made
#> = 1
reverse-continue
#> Catchpoint 1 (call to syscall getppid)
delete
catch syscall close
condition 2 made == 200
continue
#> Catchpoint 2 (call to syscall close)
print made
#> = 200
