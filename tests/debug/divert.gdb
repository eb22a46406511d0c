# In a copy of the program everything can be changed, and it goes on by itself.
# program: callee.c
handle SIGUSR1 nostop noprint
break add if a == 20
continue
#> add (a=20, b=30)
set var calls = 1000
#> Cannot access memory
#> The recording cannot be changed
#> `divert`
set $rdi = 5
#> The recording cannot be changed
jump main
#> The recording cannot be changed
divert end
#> this is no copy
divert
#> This is a copy of the program now
set var calls = 1000
set var a = 7
set $rdx = 5
print calls
#> = 1000
print $rdx
#> = 5
divert
#> this is a copy already
next
#> return a + b
finish
#> = 37
print calls
#> = 1001
next
print word
divert end
#> add (a=20, b=30)
print calls
#> = 4
print a
#> = 20
divert
tbreak main
jump main
#> main ()
print calls
#> = 4
back
#> add (a=20, b=30)
divert
next
reverse-next
#> back from the copy
#> add (a=20, b=30)
divert
run
print $pc
reverse-continue
