# detach lets a program that runs go on by itself, to its own end.
# program: live.c
# modes: live
# status: 7
break work
continue
#> begin
#> work (n=10)
continue
#> round 1: 55
#> work (n=20)
detach
