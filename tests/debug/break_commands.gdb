# Commands of a breakpoint run at each stop.
# program: basics.c
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
