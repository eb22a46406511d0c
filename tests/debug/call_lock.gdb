# Other threads stand still while a function is called: a lock that one of them holds cannot be had.
# program: holder.c
break held
continue
#> held ()
print is_free()
#> = 0
print peek()
#> waits at 0x
#> those stand still
#> held ()
print guarded
#> = 1
print is_free()
#> = 0
break freed
continue
#> freed ()
print is_free()
#> = 1
print peek()
#> = 2
reverse-continue
#> held ()
print is_free()
#> = 0
