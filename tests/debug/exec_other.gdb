# A program that executes another one.
# program: again.c
# other: other.c
# args: 2 {other}
catch exec
continue
#> Catchpoint 1 (exec'd
#> other
tbreak main
continue
#> main ()
next
print others_own
#> = 6
