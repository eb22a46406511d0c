# Questions: the last change of a value, all of them, and who wrote a line of output.
# program: basics.c
tbreak main
continue
last total
#> total was not changed between the begin of the process and here.
#> ! stopped
frame
#> main
seek end
last total
#> total: 8 -> 9, by thread 1 in add
#> add
print total
#> = 8
last total
#> total: 7 -> 8
print total
#> = 7
back
print total
#> = 8
changes total 3
#> 7 -> 8, by thread 1 in add
#> seek
#> 6 -> 7
#> 5 -> 6
#> ! 4 -> 5
changes total
#> 7 -> 8, by thread 1 in add
#> 0 -> 1
#> ! stopped
#> ! No more reverse-execution history
print total
#> = 8
back
print total
#> = 9
break add
last total
#> total: 8 -> 9
info breakpoints
#> add
#> ! watchpoint
last nonsense
#> No symbol "nonsense" in current context
last 1+1
#> is not in memory
last
#> Usage: last EXPR
written
#> EVENT
#> total
written nothing that it wrote
#> The program wrote no such line.
