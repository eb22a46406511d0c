# Backwards over an exec: gdb gets the symbols of the program that was there before.
# program: again.c
# other: other.c
# args: 2 {other}
catch exec
continue
#> Catchpoint 1 (exec'd
#> other
break main
continue
#> main ()
next
print others_own
#> = 6
reverse-continue
#> Breakpoint 2, main
reverse-continue
#> Catchpoint 1 (exec'd
#> again
info functions -q others
#> ! others
reverse-continue
#> main (
