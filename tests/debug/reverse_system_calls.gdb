# Backwards over system calls, line by line: the memory that they filled is as it was.
# program: reader.c
# modes: hooks no-hooks software
break after
continue
#> after ()
print buffer
#> "hello
reverse-finish
#> after();
reverse-next
#> read(ends[0], buffer, 5)
print buffer[0]
#> = 0 '\000'
reverse-next
#> write(ends[1]
reverse-next
#> pipe(ends)
next
next
next
print buffer
#> "hello
