# What a called function writes is shown.
# program: callee.c
# replay: -q
handle SIGUSR1 nostop noprint
break add if a == 20
continue
call (int)puts("by hand")
#> by hand
#> = 8
print (int)printf("%d-%s\n", 5, word)
#> 5-word
#> = 7
call (int)fputs("no end of line", stdout)
#> no end of line
#> = 1
call (int)write(2, word, 4)
#> word
#> = 4
