# -p with a program's name leads to the process that executed it.
# program: again.c
# other: other.c
# args: 2 {other}
# replay: -p other
break main
continue
#> others_own++;
reverse-continue
#> No more reverse-execution history
info recording
#> other
