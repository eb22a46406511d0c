# Commands of a breakpoint that go on, where there are catchpoints; and commands of a catchpoint that go on.
# program: basics.c
catch throw
catch fork
break twice
commands
silent
printf "twice of %d\n", value
continue
end
continue
#> twice of 0
#> twice of 1
#> twice of 2
#> twice of 3
#> twice of 4
#> total 9
#> exited with status 3
delete
seek start
catch syscall write
commands
silent
printf "total is %d at a write\n", total
continue
end
continue
#> total is 9 at a write
#> total is 9 at a write
#> exited with status 3
reverse-continue
#> ! Python Exception
#> total is 9 at a write
#> total is 9 at a write
#> No more reverse-execution history
