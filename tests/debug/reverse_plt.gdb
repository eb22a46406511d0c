# Backwards over calls that are resolved when they are first made, and into one.
# program: lazy.c
# cflags: -O0 -Wl,-z,lazy -fno-builtin
break lazy.c:18
continue
#> puts("measured");
reverse-next
#> measure(name
reverse-next
#> getenv("HOME")
next
#> measure(name
step
#> measure (text=
next
#> length += atoi("7");
next
#> }
print length
#> ~ = (14|16)
reverse-next
#> length += atoi
reverse-next
#> length = (int)strlen
reverse-next
#> main ()
#> measure(name
