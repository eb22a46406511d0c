# Functions are called in a copy of the program: what they return is shown, what they do is gone.
# program: callee.c
handle SIGUSR1 nostop noprint
break add if a == 20
continue
#> add (a=20, b=30)
delete
print add(1, 2)
#> = 3
print calls
#> = 4
print half(9.0)
#> = 4.5
print triple(7)
#> {first = 7, second = 14, third = 21}
print joined("a", "b")
#> "ab"
print $_strlen(joined("xx", word))
#> = 6
print ((int (*)(const char *)) atoi)("407")
#> = 407
print (void *)malloc(10)
#> (void *) 0x
print *grown()@5
#> "grown"
print change_word()
#> = 7
print word
#> "word"
print outer(add(1, add(2, 3)))
#> = 70
print who()
#> = 1
print is_later()
#> = 1
print others()
#> makes system call open
#> clone
#> = 1
print others()
#> makes system call open
print calls
#> = 4
info registers rip
#> <add+
finish
#> = 50
continue
#> exited with status 0
