# At the first instruction of a program, before its libraries are there, its own functions can be called.
# program: callee.c
print add(3, 4)
#> = 7
print half(3)
#> = 1.5
print calls
#> = 0
print joined("a", "b")
#> SIGSEGV
print calls
#> = 0
tbreak main
continue
#> main ()
print joined("a", "b")
#> "ab"
continue
#> SIGUSR1
