# What else stops a program is passed over by a search for a change: signals, calls and forks that are caught, breakpoints, conditions of
# another watchpoint; and the search shows none of its own stops.
# program: signals_and_forks_on_the_way.c
catch syscall getppid
catch fork
break touch
watch-if word word == 3
continue
seek end
changes word
#> ! Catchpoint
#> ! received signal
#> ~ 2 -> 3, by thread 1 in touch
#> ! Catchpoint
#> ! received signal
#> ~ 1 -> 2, by thread 1 in touch
#> ! Catchpoint
#> ! received signal
#> ~ 0 -> 1, by thread 1 in touch
#> ! stopped
#> ! received signal
#> ! Catchpoint
#> ! Breakpoint
last word
#> word: 2 -> 3, by thread 1 in touch
print word
#> = 2
info breakpoints
#> getppid
#> touch
#> word
#> ! internal
reverse-continue
#> Breakpoint
