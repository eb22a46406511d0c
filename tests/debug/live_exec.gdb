# A program that runs executes another one: gdb follows it there, forwards and back.
# program: again.c
# other: other.c
# args: 2 {other}
# modes: live
catch exec
continue
#> Catchpoint 1 (exec'd
#> other
tbreak main
continue
#> ! other 6
#> main ()
next
print others_own
#> = 6
delete
continue
#> other 6
