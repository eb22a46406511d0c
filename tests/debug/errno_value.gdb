# errno, which is a variable of the thread.
# program: reader.c
break reader.c:26
continue
print why
print status
#> = -1
next
print why
#> = 9
print (int)errno
#> = 9
