# A child that is killed while it computes: it is debugged to where that was, and back from there.
# program: zombies.c
# replay: -f {fork}
continue
#> SIGKILL killed it
backtrace
#> compute (
#> main ()
print rounds >= 1000
#> = 1
set $all = rounds
watch rounds
reverse-continue
#> Hardware watchpoint 1: rounds
reverse-continue
#> Hardware watchpoint 1: rounds
print $all - rounds
#> = 2
delete
break *compute
reverse-continue
#> compute (
print rounds
#> = 0
reverse-continue
#> No more reverse-execution history
