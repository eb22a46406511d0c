# From the begin of a program back to the end of the one before, and forward again.
# program: again.c
# other: other.c
# args: 2 {other}
catch exec
continue
#> Catchpoint 1 (exec'd
#> other
reverse-continue
#> Catchpoint 1 (exec'd
#> again
stepi
#> Catchpoint 1 (exec'd
#> other
reverse-continue
#> Catchpoint 1 (exec'd
#> again
continue
#> Catchpoint 1 (exec'd
#> other
