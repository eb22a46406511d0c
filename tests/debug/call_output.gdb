# What a called function writes is shown.
# program: callee.c
# replay: -q
handle SIGUSR1 nostop noprint
break add if a == 20
continue
call puts("by hand")
#> by hand
#> = 8
print printf("%d-%s\n", 5, word)
#> 5-word
#> = 7
call fputs("no end of line", stdout)
#> no end of line
#> = 1
call write(2, word, 4)
#> word
#> = 4
