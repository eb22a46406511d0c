# Processes that execute different programs: gdb gets the symbols of each.
# program: forks.c
# other: other.c
# args: fork {other}
seek end
process {fork}
#> Program stopped
break others_own
tbreak main
run
#> Program stopped
continue
#> main (
reverse-continue
when-tid
#> Current tid: {fork}
process {first}
#> Program stopped
backtrace
#> main (
reverse-continue
when-tid
#> Current tid: {first}
