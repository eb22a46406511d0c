# A process that executes itself and then another program: three images, forwards and backwards, each with its own symbols.
# program: again.c
# other: other.c
# args: 0 {other}
break main
continue
#> main (argc=3
tbreak begins
continue
#> begins ()
print round_number
#> = 0
continue
#> is executing new program
#> main (argc=3
next
print round_number
#> = 1
continue
#> is executing new program
#> other
#> main ()
next
print others_own
#> = 6
continue
#> other 6
#> exited with status 0
reverse-continue
#> main ()
print others_own
#> = 5
reverse-continue
#> main (argc=3
next
print round_number
#> = 1
reverse-continue
#> main (argc=3
reverse-continue
#> main (argc=3
next
print round_number
#> = 0
